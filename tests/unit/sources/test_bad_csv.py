"""CSV as it should not be: each row that is none costs itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.sources import reading
from pipelines.sources.generic import CSV
from ser_toolkit.errors import UsageError
from ser_toolkit.schema import Dialogue
from tests.unit.sources.bad_files import HEAD, failures, outcome, read


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
