import pytest

from pipelines.showing import find, render
from pipelines.withdrawing import TABLES, withdraw, withdrawn_ids
from ser_toolkit.errors import UsageError
from ser_toolkit.journal import Journal
from ser_toolkit.llm.chat import Reply
from ser_toolkit.schema import Dialogue, Failure, Scenario, Source, Step, Trace, Turn, Verdict
from ser_toolkit.store import read_table, write_table
from ser_toolkit.workspace import Workspace

SOURCE = Source(format="jsonl", file="a.jsonl", position="line 1", licence="MIT")
TURNS = (Turn(speaker="seeker", text="I lost it.\x1b[31m"), Turn(speaker="supporter", text="Oh."))


def dialogue(id, **fields):
    return Dialogue(**{"id": id, "root_id": id, "lang": "en", "source": SOURCE, "turns": TURNS, **fields})


def trace(dialogue_id, root_id=None):
    steps = tuple(Step(number=n, title=f"T{n}", text=f"step {n} of {dialogue_id}") for n in (1, 2, 3))
    return Trace(
        id=f"{dialogue_id}-r1", dialogue_id=dialogue_id, root_id=root_id or dialogue_id, lang="en", round=1, target=1,
        steps=steps, reply="There.", strategy="Small Talk",
    )  # fmt: skip


@pytest.fixture
def home(tmp_path):
    home = Workspace(tmp_path)
    rows = {
        "imported": [dialogue("a"), dialogue("b"), dialogue("a2", root_id="a", rewritten_from="a")],
        "scenarios": [Scenario(id="s", lang="en", source=SOURCE, situation="A move.")],
        "synthesized": [dialogue("syn-s", scenario_id="s")],
        "verdicts": [Verdict(record_id=i, check="filter", keep=True) for i in ("a", "b", "a2", "syn-s")],
        "traces": [trace("a"), trace("b"), trace("a2", "a"), trace("syn-s")],
        "failures": [Failure(kind="format", stage="reason", reason="no box", record_id="b", request_key="ab" * 32)],
    }
    rows["dialogues"] = rows["imported"] + rows["synthesized"]
    for name, records in rows.items():
        write_table(home.table(name), TABLES[name], records)
    journal = Journal(home.journal)
    for n, record in enumerate(("a", "a2", "b", "s", "syn-s")):
        journal.put(f"{n:064x}", Reply(f"about {record}"), stage="reason", record_id=record)
    journal.close()
    return home


def ids(home, name):
    return [getattr(r, "id", None) or r.record_id for r in read_table(home.table(name), TABLES[name])]


def test_a_dialogue_leaves_with_all_that_was_made_from_it(home):
    done = withdraw(home, "a")
    assert done.ids == ("a", "a2")
    assert (done.rows, done.replies) == (2 + 2 + 2 + 2, 2)
    assert ids(home, "imported") == ["b"]
    assert ids(home, "traces") == ["b-r1", "syn-s-r1"]
    assert ids(home, "dialogues") == ["b", "syn-s"]
    assert withdrawn_ids(home) == {"a", "a2"}
    assert b"about a" not in home.journal.read_bytes()


def test_a_scenario_takes_its_dialogues_along(home):
    assert withdraw(home, "s").ids == ("s", "syn-s")
    assert ids(home, "scenarios") == ids(home, "synthesized") == []
    assert withdraw(home, "s").rows == 0, "twice is once"
    assert withdrawn_ids(home) == {"s", "syn-s"}


def test_an_unknown_id_changes_nothing(home):
    before = {p: p.read_bytes() for p in home.root.rglob("*.parquet")}
    with pytest.raises(UsageError, match="no dialogue or scenario"):
        withdraw(home, "zzz")
    assert before == {p: p.read_bytes() for p in home.root.rglob("*.parquet")}


def test_show_gives_a_record_and_what_was_made_from_it(home):
    kinds = [type(r).__name__ for r in find(home, "b")]
    assert kinds == ["Dialogue", "Verdict", "Trace", "Failure"]
    text = render(find(home, "b"))
    assert "seeker: I lost it.\\x1b[31m" in text and "\x1b" not in text
    assert "step 2 of b" in text and "no box" in text and "licence MIT" in text
    assert [type(r).__name__ for r in find(home, "syn")] == ["Dialogue", "Verdict", "Trace"], "by the start of an id"
    assert [type(r).__name__ for r in find(home, "ab" * 6)] == ["Failure"], "by the start of its call's key"
    with pytest.raises(UsageError):
        find(home, "nothing")
