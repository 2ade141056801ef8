"""Files in bad order, through the formats: each bad record is a Failure at its place, and the good ones are read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.sources import reading
from pipelines.sources.base import Imported, ReadContext, SourceFormat
from pipelines.sources.esconv import FORMAT as ESCONV
from pipelines.sources.generic import CSV, JSON, JSONL, PARQUET
from pipelines.sources.openai_messages import MESSAGES
from ser_toolkit.errors import FAILURE_KINDS, UsageError
from ser_toolkit.recipe import SourceSpec
from ser_toolkit.schema import Dialogue, Failure

SAID = "I’m scared - really"


def dialogue(id: str, said: str = SAID, **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "turns": [{"speaker": "seeker", "text": said}, {"speaker": "supporter", "text": "Of what?"}],
        **more,
    }


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def lines(*ids: str, said: str = SAID) -> str:
    return "".join(dump(dialogue(id, said)) + "\n" for id in ids)


def read(format: SourceFormat, path: Path, data: bytes | str, **spec: Any) -> list[Imported]:
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
    found = list(format.read(path, ReadContext(SourceSpec(format=format.name, path=str(path), **spec))))
    for record in found:
        if isinstance(record, Failure):
            assert record.kind in FAILURE_KINDS
            assert (record.stage, record.source, record.file) == ("import", format.name, path.name)
            assert record.reason
            assert len(record.text) <= 500
    return found


def outcome(found: list[Imported]) -> list[str]:
    """Ids of dialogues, kinds of failures."""
    return [record.kind if isinstance(record, Failure) else record.id for record in found]


def failures(found: list[Imported]) -> list[Failure]:
    return [record for record in found if isinstance(record, Failure)]


# Cut and damaged JSON


@pytest.mark.parametrize("cut", [1, 30, 60])
def test_a_truncated_list_keeps_what_stands_before_the_cut(tmp_path: Path, cut: int) -> None:
    text = dump([dialogue("a"), dialogue("b"), dialogue("c")])
    found = read(JSON, tmp_path / "a.json", text[: -cut - 1])
    assert outcome(found) == ["json-a", "json-b", "unreadable"]
    assert failures(found)[0].position == "record 3"
    assert "ends inside this record" in failures(found)[0].reason


def test_a_list_cut_between_records_is_not_taken_for_whole(tmp_path: Path) -> None:
    found = read(JSON, tmp_path / "a.json", f"[{dump(dialogue('a'))}, ")
    assert outcome(found) == ["json-a", "unreadable"]
    assert "ends before the list does" in failures(found)[0].reason


@pytest.mark.parametrize("text", ['{"id": 1, "turns": [', '{\n "id": 1,\n "turns": [\n', "[{", "[", '"'])
def test_a_file_that_is_cut_in_its_only_record_is_one_failure(tmp_path: Path, text: str) -> None:
    assert outcome(read(JSON, tmp_path / "a.json", text)) == ["unreadable"]


def test_truncated_and_broken_lines_fail_alone(tmp_path: Path) -> None:
    text = lines("a") + dump(dialogue("x"))[:40] + "\n" + "{'id': 1}\n" + lines("b") + dump(dialogue("y"))[:40]
    found = read(JSONL, tmp_path / "a.jsonl", text)
    assert outcome(found) == ["jsonl-a", "unreadable", "unreadable", "jsonl-b", "unreadable"]
    assert [failure.position for failure in failures(found)] == ["line 2", "line 3", "line 5"]


def test_a_broken_first_line_does_not_take_the_others_along(tmp_path: Path) -> None:
    found = read(JSONL, tmp_path / "a.jsonl", '{"id": "x", "turns": [\n' + lines("a", "b"))
    assert outcome(found) == ["unreadable", "jsonl-a", "jsonl-b"]


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        ("{'id': 1}", "not valid JSON"),
        ('{"id": Infinity}', "Infinity"),
        ('{"id": 1, "id": 2}', "'id' stands twice"),
        ("", "not valid JSON"),
        ('{"a":' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"id": 1' + "0" * 5000 + "}", "not readable JSON"),
    ],
    ids=["quotes", "infinity", "key twice", "nothing", "deep", "long number"],
)
def test_a_broken_element_of_a_list_fails_alone(tmp_path: Path, bad: str, word: str) -> None:
    found = read(JSON, tmp_path / "a.json", f"[{dump(dialogue('a'))}, {bad}, {dump(dialogue('b'))}]")
    assert outcome(found) == ["json-a", "unreadable", "json-b"]
    assert failures(found)[0].position == "record 2"
    assert word in failures(found)[0].reason


@pytest.mark.parametrize(("depth", "kind"), [(100, ""), (300, "malformed"), (900, "malformed"), (5000, "unreadable")])
def test_deep_nesting_fails_alone_and_mild_nesting_is_kept(tmp_path: Path, depth: int, kind: str) -> None:
    deep = dump(dialogue("a"))[:-1] + ', "deep": ' + "[" * depth + "]" * depth + "}"
    found = read(JSON, tmp_path / "a.json", f"[{deep}, {dump(dialogue('b'))}]")
    assert outcome(found) == [kind or "json-a", "json-b"]
    assert not kind or "nested too deeply" in failures(found)[0].reason or "depth" in failures(found)[0].reason
    for record in found:
        assert type(record).model_validate_json(record.model_dump_json()) == record


def test_what_follows_a_list_is_reported(tmp_path: Path) -> None:
    found = read(JSON, tmp_path / "a.json", dump([dialogue("a")]) + " more")
    assert outcome(found) == ["json-a", "unreadable"]
    assert "follows the end of the list" in failures(found)[0].reason


def test_a_missing_value_nan_stays_missing(tmp_path: Path) -> None:
    found = read(JSON, tmp_path / "a.json", f'[{dump(dialogue("a"))[:-1]}, "score": NaN}}]')
    assert isinstance(found[0], Dialogue)
    assert found[0].meta["score"] is None


def test_lone_surrogates_become_valid_and_are_flagged(tmp_path: Path) -> None:
    text = json.dumps([dialogue("a", "torn \ud83d and whole \U0001f600", note="\udc00")])
    (found,) = read(JSON, tmp_path / "a.json", text)
    assert isinstance(found, Dialogue)
    assert found.turns[0].text == "torn \ufffd and whole \U0001f600"
    assert "lone_surrogates_replaced" in found.flags
    found.model_dump_json().encode("utf-8")


def test_control_characters_go_and_the_raw_text_stays(tmp_path: Path) -> None:
    said = "I\x00 am\x07 here\tnow\nreally\x1b"
    (found,) = read(JSON, tmp_path / "a.json", json.dumps([dialogue("a", said)]))
    assert isinstance(found, Dialogue)
    turn = found.turns[0]
    assert (turn.text, turn.raw, turn.flags) == ("I am here\tnow\nreally", said, ("control_chars_removed",))


# Encodings


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


# What is no text, or nothing


NO_TEXT = {
    "empty": b"",
    "blank": b" \n\n",
    "only a BOM": b"\xef\xbb\xbf",
    "PNG": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "zip": b"PK\x03\x04xx",
    "bytes": bytes(range(256)) * 9,
}


@pytest.mark.parametrize("data", NO_TEXT.values(), ids=NO_TEXT.keys())
@pytest.mark.parametrize("format", [JSON, JSONL, CSV, ESCONV, MESSAGES, PARQUET], ids=lambda f: f.name)
def test_a_file_that_is_empty_or_binary_is_one_failure(tmp_path: Path, format: SourceFormat, data: bytes) -> None:
    assert outcome(read(format, tmp_path / "a.csv", data)) == ["unreadable"]


def test_a_bad_file_of_a_folder_fails_and_the_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    (tmp_path / "b.json").write_text(dump([dialogue("a")]))
    (tmp_path / "c.json").write_text("")
    found = list(JSON.read(tmp_path, ReadContext(SourceSpec(format="json"))))
    assert [(r.file, r.kind) if isinstance(r, Failure) else r.id for r in found] == [
        ("a.json", "unreadable"),
        "json-a",
        ("c.json", "unreadable"),
    ]


# Wrong types and ids


@pytest.mark.parametrize(
    ("turns", "kind"),
    [
        (5, "malformed"),
        ("hello", "malformed"),
        ([5, 6], "malformed"),
        ([{"speaker": "seeker"}], "malformed"),
        ([{"text": "no speaker"}], "malformed"),
        ([{"speaker": "seeker", "text": 5}], "malformed"),
        ([{"speaker": ["seeker"], "text": "x"}], "malformed"),
        ([{"speaker": "Zorg", "text": "x"}], "unknown_speaker"),
        ([{"speaker": "seeker", "text": "x"}], "one_sided"),
        ([{"speaker": "seeker", "text": " "}, {"speaker": "supporter", "text": None}], "empty"),
        ([], "empty"),
    ],
)
def test_a_record_of_the_wrong_shape_fails_alone(tmp_path: Path, turns: Any, kind: str) -> None:
    rows = [dialogue("a"), {"id": "x", "turns": turns}, dialogue("b")]
    found = read(JSON, tmp_path / "a.json", dump(rows))
    assert outcome(found) == ["json-a", kind, "json-b"]
    assert (failures(found)[0].record_id, failures(found)[0].position) == ("x", "record 2")


@pytest.mark.parametrize("value", [None, 5, "text", True, [], [1], {}, {"messages": {}}, {"messages": [None]}])
@pytest.mark.parametrize("format", [JSON, ESCONV, MESSAGES], ids=lambda f: f.name)
def test_a_record_that_is_no_dialogue_is_a_failure(tmp_path: Path, format: SourceFormat, value: Any) -> None:
    found = read(format, tmp_path / "a.json", dump([value]))
    assert outcome(found)[0] in ("malformed", "empty")
    assert len(found) == 1


def test_a_second_record_of_one_id_is_refused_with_the_place_of_the_first(tmp_path: Path) -> None:
    found = read(JSON, tmp_path / "a.json", dump([dialogue("a"), dialogue("b"), dialogue("a", "another")]))
    assert outcome(found) == ["json-a", "json-b", "duplicate_id"]
    assert "a.json, record 1" in failures(found)[0].reason
    assert failures(found)[0].position == "record 3"


def test_mixed_types_of_ids_are_fine_and_distinct(tmp_path: Path) -> None:
    rows = [dialogue("a"), dialogue("b") | {"id": 7}, dialogue("c") | {"id": None}]
    found = read(JSON, tmp_path / "a.json", dump(rows))
    assert outcome(found)[:2] == ["json-a", "json-7"]
    assert isinstance(found[2], Dialogue)


# CSV


HEAD = "dialogue_id,speaker,text\n"


def test_a_quote_that_never_closes_costs_its_line(tmp_path: Path) -> None:
    text = HEAD + '1,seeker,hello\n1,supporter,hi\n2,seeker,"open\n2,supporter,"so, what?"\n3,seeker,x\n3,supporter,y\n'
    found = read(CSV, tmp_path / "a.csv", text)
    assert outcome(found) == ["unreadable", "csv-1", "one_sided", "csv-3"]
    assert failures(found)[0].position == "line 4"


def test_an_open_quote_before_many_lines_costs_its_line(tmp_path: Path) -> None:
    rows = "".join(f"{n},seeker,hello\n{n},supporter,hi\n" for n in range(2000))
    found = read(CSV, tmp_path / "a.csv", HEAD + '9999,seeker,"open\n' + rows)
    assert outcome(found) == ["unreadable", *(f"csv-{n}" for n in range(2000))]
    first = found[1]
    assert isinstance(first, Dialogue)
    assert "row_missing" in first.flags


def test_rows_of_another_length_fail_alone(tmp_path: Path) -> None:
    found = read(CSV, tmp_path / "a.csv", HEAD + "1,seeker\n2,seeker,a,b\n3,seeker,x\n3,supporter,y\n")
    assert outcome(found) == ["malformed", "malformed", "csv-3"]
    assert "2 fields where the header has 3" in failures(found)[0].reason


def test_a_huge_field_is_read_and_one_past_the_limit_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEAD + f"1,seeker,{'x' * 300_000}\n1,supporter,y\n"
    assert outcome(read(CSV, tmp_path / "a.csv", text)) == ["csv-1"]
    monkeypatch.setattr(reading, "RECORD_LIMIT", 1000)
    found = read(CSV, tmp_path / "a.csv", text)
    assert outcome(found) == ["unreadable", "one_sided"]
    assert failures(found)[0].position == "line 2"


def test_a_missing_column_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        read(CSV, tmp_path / "a.csv", "conv_id,speaker,words\n1,seeker,x\n", columns={"text": "utterance"})
    assert "'utterance'" in error.value.message
    assert "conv_id, speaker, words" in error.value.message
    with pytest.raises(UsageError, match=r"no column for turns; there are: a, b"):
        read(CSV, tmp_path / "a.csv", "a,b\n1,2\n")
    with pytest.raises(UsageError, match="no column for dialogue_id"):
        read(CSV, tmp_path / "a.csv", "speaker,text\nseeker,x\n")


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    found = read(CSV, tmp_path / "a.csv", "dialogue_id,speaker,text,text\n1,seeker,x,y\n")
    assert outcome(found) == ["malformed"]


def test_a_nul_in_a_csv_is_removed(tmp_path: Path) -> None:
    (found,) = read(CSV, tmp_path / "a.csv", HEAD + f"1,seeker,he\0llo {'x' * 200}\n1,supporter,y\n")
    assert isinstance(found, Dialogue)
    assert found.turns[0].flags == ("control_chars_removed",)


# Anything


BLOCKS = st.sampled_from(
    [
        *(dump(dialogue("a")).encode(), dump([dialogue("b")]).encode(), HEAD.encode(), b"1,seeker,x\n1,supporter,y\n"),
        *(b'"', b"\\", b"{", b"]", b",", b"\n", b"\0", b"\xff\xfe", b"\x92", "很难过".encode(), "很难过".encode("gbk")),
    ]
)


@pytest.mark.parametrize("format", [JSON, CSV, PARQUET, ESCONV, MESSAGES], ids=lambda f: f.name)
@given(
    blocks=st.lists(BLOCKS | st.binary(max_size=20), max_size=8), encoding=st.sampled_from([None, "gb18030", "utf-16"])
)
@settings(deadline=None)
def test_any_bytes_are_records_failures_or_a_usage_error(
    tmp_path_factory: pytest.TempPathFactory, format: SourceFormat, blocks: list[bytes], encoding: str | None
) -> None:
    path = tmp_path_factory.mktemp("any") / "a"
    try:
        found = read(format, path, b"".join(blocks), encoding=encoding)
    except UsageError as error:
        assert "no column" in error.message
        return
    for record in found:
        assert type(record).model_validate_json(record.model_dump_json()) == record


# Sizes


def test_a_line_or_element_past_the_limit_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "RECORD_LIMIT", 1000)
    rows = [dialogue("a"), dialogue("x", "x" * 5000), dialogue("b")]
    found = read(JSONL, tmp_path / "a.jsonl", "".join(dump(row) + "\n" for row in rows))
    assert outcome(found) == ["jsonl-a", "unreadable", "jsonl-b"]
    assert failures(found)[0].position == "line 2"
    found = read(JSON, tmp_path / "a.json", dump(rows))
    assert outcome(found) == ["json-a", "unreadable", "json-b"]
    assert failures(found)[0].position == "record 2"


MEASURE = """
import json, resource, sys
from pathlib import Path
from pipelines.sources.base import ReadContext
from pipelines.sources.generic import JSON
from ser_toolkit.recipe import SourceSpec
from ser_toolkit.schema import Failure
list(JSON.read(Path(sys.argv[2]), ReadContext(SourceSpec(format="json"))))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
good = bad = 0
for record in JSON.read(Path(sys.argv[1]), ReadContext(SourceSpec(format="json"))):
    bad += isinstance(record, Failure)
    good += not isinstance(record, Failure)
print(json.dumps([good, bad, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("case", ["list on one line", "one line of JSON Lines"])
def test_a_100_mb_line_is_read_in_bounded_memory(tmp_path: Path, case: str) -> None:
    big, small = tmp_path / "big.json", tmp_path / "small.json"
    small.write_text(dump([dialogue("a")]))
    said = '很难过 \\ "so" {[ ' * 1500
    with big.open("w", encoding="utf-8") as file:
        if case == "list on one line":
            count = 0
            while file.tell() < 100 << 20:
                file.write(("[" if not count else ", ") + dump(dialogue(str(count), said)))
                count += 1
            file.write("]")
        else:
            count = 2
            file.write(lines("a") + '{"id": "x", "turns": "')
            for _ in range(100):
                file.write("x" * (1 << 20))
            file.write('"}\n' + lines("b"))
    assert big.stat().st_size > 100 << 20
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(big), str(small)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        check=True,
    )
    good, bad, growth = json.loads(run.stdout)
    assert (good, bad) == (count, 0 if case == "list on one line" else 1)
    unit = 1 if sys.platform == "darwin" else 1024
    assert growth * unit < 300 << 20
