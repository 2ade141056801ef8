"""Bytes of another encoding: told with line, byte and cure, or read as asked; wrongly decoded text is mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.sources.generic import CSV, JSON, JSONL
from ser_toolkit.errors import UsageError
from ser_toolkit.schema import Dialogue
from tests.unit.sources.bad_files import SAID, dialogue, dump, failures, lines, outcome, read


def test_a_bom_changes_nothing(tmp_path: Path) -> None:
    """FIELD_CASES C3 (a)."""
    text = lines("a") + dump(dialogue("b", extra={"deep": {"key": 1}})) + "\n"
    plain = read(JSONL, tmp_path / "a.jsonl", text)
    assert read(JSONL, tmp_path / "a.jsonl", "\ufeff" + text) == plain
    assert isinstance(plain[0], Dialogue)
    assert "extra" not in plain[0].meta


@pytest.mark.parametrize("codec", ["utf-16", "utf-32"])
def test_utf_16_with_its_mark_is_read_and_flagged(tmp_path: Path, codec: str) -> None:
    found = read(JSONL, tmp_path / "a.jsonl", lines("a", "b", said="我很难过😀").encode(codec))
    assert outcome(found) == ["jsonl-a", "jsonl-b"]
    assert isinstance(found[0], Dialogue)
    assert found[0].turns[0].text == "我很难过😀"
    assert found[0].flags == (f"decoded_{codec}",)


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("said", [SAID, "我很难过，不知道怎么办"])
def test_utf_16_without_its_mark_is_named_and_read_on_request(tmp_path: Path, codec: str, said: str) -> None:
    data = lines("a", "b", said=said).encode(codec)
    found = read(JSONL, tmp_path / "a.jsonl", data)
    assert outcome(found) == ["unreadable"]
    assert f"encoding: {codec}" in failures(found)[0].reason
    again = read(JSONL, tmp_path / "a.jsonl", data, encoding=codec)
    assert [d.turns[0].text for d in again if isinstance(d, Dialogue)] == [said, said]


@pytest.mark.parametrize("codec", ["gbk", "gb18030"])
@pytest.mark.parametrize("layout", ["list", "lines"])
def test_gbk_is_named_at_its_place_and_read_on_request(tmp_path: Path, codec: str, layout: str) -> None:
    rows = [dialogue("a", "我很难过，\\ { 不知道怎么办"), dialogue("b", "No Chinese in this one")]
    data = (dump(rows) if layout == "list" else "".join(dump(row) + "\n" for row in rows)).encode(codec)
    found = read(JSON, tmp_path / "a.json", data)
    assert outcome(found) == ["unreadable", "json-b"]
    byte = next(i for i, b in enumerate(data) if b >= 0x80)
    assert failures(found)[0].position == f"{'record 1' if layout == 'list' else 'line 1'}, byte {byte}"
    assert "line 1" in failures(found)[0].reason
    assert "`encoding: gb18030`" in failures(found)[0].reason
    again = read(JSON, tmp_path / "a.json", data, encoding=codec)
    assert [d.turns[0].text for d in again if isinstance(d, Dialogue)] == [row["turns"][0]["text"] for row in rows]


def test_one_windows_1252_line_of_a_csv_fails_with_line_byte_and_cure(tmp_path: Path) -> None:
    """FIELD_CASES C3 (b)."""
    head = b"dialogue_id,speaker,text\n1,seeker,hello\n1,supporter,hi\n"
    data = head + b"2,seeker,I\x92m scared - really\n2,supporter,Of what?\n"
    found = read(CSV, tmp_path / "a.csv", data)
    assert outcome(found) == ["unreadable", "csv-1", "one_sided"]
    bad = failures(found)[0]
    assert bad.position == f"line 4, byte {data.index(0x92)}"
    assert "0x92" in bad.reason
    assert "`encoding: windows-1252`" in bad.reason
    again = read(CSV, tmp_path / "a.csv", data, encoding="windows-1252")
    assert [d.turns[0].text for d in again if isinstance(d, Dialogue)] == ["hello", SAID]


def test_one_bad_line_of_json_lines_fails_alone(tmp_path: Path) -> None:
    data = lines("a").encode() + lines("x").encode("windows-1252") + lines("b").encode()
    found = read(JSONL, tmp_path / "a.jsonl", data)
    assert outcome(found) == ["jsonl-a", "unreadable", "jsonl-b"]
    assert failures(found)[0].position == f"line 2, byte {data.index(0x92)}"


def test_bytes_that_the_stated_encoding_does_not_hold_fail_alone(tmp_path: Path) -> None:
    data = lines("a", said="很难过").encode("gbk") + b'{"id": "x", "turns": "\xff\xff"}\n' + lines("b").encode("gbk")
    found = read(JSONL, tmp_path / "a.jsonl", data, encoding="gbk")
    assert outcome(found) == ["jsonl-a", "unreadable", "jsonl-b"]
    assert "not valid gbk" in failures(found)[0].reason


def test_an_unknown_encoding_is_a_usage_error(tmp_path: Path) -> None:
    for name in ("klingon", "base64"):
        with pytest.raises(UsageError) as error:
            read(JSON, tmp_path / "a.json", "[]", encoding=name)
        assert name in error.value.message


@pytest.mark.parametrize("escaped", ["I\u00e2\u20ac\u2122m scared - really", r"I\xe2\x80\x99m scared - really"])
def test_mojibake_is_mended_on_request_and_flagged(tmp_path: Path, escaped: str) -> None:
    """FIELD_CASES C3 (c) and (d)."""
    (mended,) = read(JSON, tmp_path / "a.json", dump([dialogue("a", escaped)]))
    (left,) = read(JSON, tmp_path / "a.json", dump([dialogue("a", escaped)]), repair_text=False)
    assert isinstance(mended, Dialogue)
    assert isinstance(left, Dialogue)
    turn = mended.turns[0]
    assert (turn.text, turn.raw, turn.flags) == (SAID, escaped, ("mojibake_repaired",))
    assert (left.turns[0].text, left.turns[0].raw, left.turns[0].flags) == (escaped, None, ("mojibake",))
