"""`ser show`: one record, found by its id or by a start of it that no other has."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.showing import find, render
from ser_toolkit.errors import UsageError
from ser_toolkit.schema import Dialogue, Failure, Source, Turn, Verdict
from ser_toolkit.store import write_table
from ser_toolkit.workspace import Workspace


def dialogue(id: str, text: str = "Hi") -> Dialogue:
    turns = (Turn(speaker="seeker", text=text), Turn(speaker="supporter", text="Hello"))
    return Dialogue(id=id, root_id=id, lang="en", source=Source(format="json", file="a\u202eb.json"), turns=turns)


@pytest.fixture
def home(tmp_path: Path) -> Workspace:
    home = Workspace(tmp_path)
    write_table(home.table("imported"), Dialogue, [dialogue(f"json-{n}") for n in range(12)] + [dialogue("csv-1")])
    write_table(home.table("verdicts"), Verdict, [Verdict(record_id="csv-1", check="filter-en-v1", keep=True)])
    lost = Failure(kind="format", stage="reason", reason="no step 2", record_id="csv-1-r2", request_key="f00" * 8)
    write_table(home.table("failures"), Failure, [lost])
    return home


def kinds(home: Workspace, id: str) -> list[str]:
    return [type(r).__name__ for r in find(home, id)]


def test_an_exact_id_is_enough_even_where_others_begin_so(home):
    assert [r.id for r in find(home, "json-1") if isinstance(r, Dialogue)] == ["json-1"]


def test_a_start_that_one_record_has_brings_it_with_what_was_made_of_it(home):
    assert kinds(home, "c") == ["Dialogue", "Verdict", "Failure"]
    assert kinds(home, "csv-1-r") == ["Failure"] and kinds(home, "f00") == ["Failure"]


def test_a_start_that_several_have_lists_ten_and_shows_none(home):
    with pytest.raises(UsageError, match="json-: 12 ids begin so") as caught:
        find(home, "json-")
    assert caught.value.hint.count("json-") == 10 and "and 2 more" in caught.value.hint


@pytest.mark.parametrize("id", ["", "nope"])
def test_nothing_is_not_everything(home, id):
    with pytest.raises(UsageError, match="nothing in"):
        find(home, id)


def test_what_a_text_hides_is_shown(home):
    write_table(home.table("imported"), Dialogue, [dialogue("x", "a\u2066b\x1b[2Jc\x0bd\u200be")])
    text = render(find(home, "x"))
    assert "a\\u2066b\\x1b[2Jc\\x0bd\\u200be" in text and "a\\u202eb.json" in text
