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
from pipelines.sources.base import ReadContext, SourceFormat
from pipelines.sources.esconv import FORMAT as ESCONV
from pipelines.sources.generic import CSV, JSON, JSONL, PARQUET
from pipelines.sources.openai_messages import MESSAGES
from ser_toolkit.errors import UsageError
from ser_toolkit.recipe import SourceSpec
from ser_toolkit.schema import Dialogue, Failure
from tests.unit.sources.bad_files import HEAD, dialogue, dump, failures, lines, outcome, read

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
