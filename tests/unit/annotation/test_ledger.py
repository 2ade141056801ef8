"""The ledger: who is asked, what is kept, rebuilt state, two processes, kill -9, damage, withdrawal."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotation.items import Decision, Gold, Response
from annotation.ledger import Ledger
from annotation.rounds import REPEAT_GAP, RoundSettings
from ser_toolkit.errors import DataError, RecordError, UsageError
from tests.unit.annotation.answering import a_round, at_random, play, says, skips, some_items

ROOT = Path(__file__).parents[3]


def votes(ledger: Ledger) -> dict[str, int]:
    return {i: len(ledger.state.votes(i, ("person",))) for i in ledger.state.items}


def test_two_answer_and_agree_and_nobody_else_is_asked(tmp_path):
    with a_round(tmp_path, 1) as ledger:
        for who in ("ada", "ben"):
            ledger.accept(says(ledger.next_task(who), ledger=ledger))
        assert ledger.next_task("cem") is None
        assert votes(ledger) == dict.fromkeys(ledger.state.items, 2)


@pytest.mark.parametrize("other", [("ttf", "generated"), ("ttt", "reference"), ("ttt", "neither")])
def test_a_third_is_asked_where_any_part_is_disputed(tmp_path, other):
    with a_round(tmp_path, 1, people="ada ben cem dan") as ledger:
        ledger.accept(says(ledger.next_task("ada"), "ttt", "generated", ledger=ledger))
        ledger.accept(says(ledger.next_task("ben"), *other, ledger=ledger))
        task = ledger.next_task("cem")
        assert task.view.replies and len(task.view.steps) == 3, "the third sees the whole item"
        assert ledger.next_task("dan") is None, "one third is enough"
        ledger.accept(says(task, "fff", "almost_equal", ledger=ledger))
        assert ledger.next_task("dan") is None, "and nobody is asked after the third"


def test_a_skip_goes_to_someone_else(tmp_path):
    with a_round(tmp_path, 1) as ledger:
        assert ledger.accept(skips(ledger.next_task("ada"))).answer.skip == "distress"
        assert ledger.next_task("ada") is None, "they do not meet it again"
        for who in ("ben", "cem"):
            ledger.accept(says(ledger.next_task(who), ledger=ledger))
        assert votes(ledger) == dict.fromkeys(ledger.state.items, 2)
        assert ledger.state.stuck("person", time.time()) == []


def test_an_item_that_nobody_is_left_for_is_stuck(tmp_path):
    with a_round(tmp_path, 1, people="ada ben") as ledger:
        ledger.accept(skips(ledger.next_task("ada")))
        assert ledger.state.stuck("person", time.time()) == []
        ledger.accept(says(ledger.next_task("ben"), ledger=ledger))
        assert ledger.state.stuck("person", time.time()) == list(ledger.state.items)


def test_a_lease_expires_and_a_late_answer_is_surplus(tmp_path):
    with a_round(tmp_path, 1, people="ada ben cem", lease_s=60) as ledger:
        late = ledger.next_task("ada", now=1000)
        assert ledger.next_task("ada", now=1010) == late, "a reload resumes"
        ledger.accept(says(ledger.next_task("ben", now=1000), ledger=ledger), now=1001)
        assert ledger.next_task("cem", now=1059) is None, "both seats are taken"
        ledger.accept(says(ledger.next_task("cem", now=1061), ledger=ledger), now=1062)
        kept = ledger.accept(says(late, "fff", ledger=ledger), now=1100)
        assert (kept.outcome, kept.answer.is_surplus) == ("new", True)
        assert votes(ledger) == dict.fromkeys(ledger.state.items, 2)


def test_a_late_answer_counts_while_its_seat_is_free(tmp_path):
    with a_round(tmp_path, 1, lease_s=60) as ledger:
        late = ledger.next_task("ada", now=1000)
        assert ledger.renew(late.view.id, now=1020) == late, "not yet half over: nothing is written"
        assert ledger.renew(late.view.id, now=1050).expires == 1110
        assert not ledger.accept(says(late, ledger=ledger), now=5000).answer.is_surplus
        again = ledger.next_task("ben", now=6000)
        assert ledger.next_task("ben", now=6100).view == again.view, "an expired lease may be had again"


def test_the_same_response_twice_is_kept_once_and_another_takes_its_place(tmp_path):
    with a_round(tmp_path, 1) as ledger:
        task = ledger.next_task("ada")
        first = says(task, ledger=ledger)
        assert ledger.accept(first).outcome == "new"
        before = len(ledger.events())
        assert ledger.accept(first.model_copy(update={"seconds": 9.0}), route="argilla").outcome == "same"
        assert len(ledger.events()) == before
        assert ledger.accept(says(task, "fff", ledger=ledger)).outcome == "changed"
        (answer,) = ledger.state.votes(task.item_id, ("person",))
        assert answer.label("step1") == "False"
        assert [e.kind for e in ledger.events()].count("answer") == 2, "the log keeps both"


def test_an_unknown_view_is_refused_and_nothing_is_written(tmp_path):
    with a_round(tmp_path, 1) as ledger:
        before = len(ledger.events())
        with pytest.raises(RecordError, match="no such view"):
            ledger.accept(Response.model_validate({"view_id": "v0", "skip": "other"}))
        with pytest.raises(UsageError, match="no annotator"):
            ledger.next_task("eve")
        assert len(ledger.events()) == before


def test_undo_keeps_the_seat(tmp_path):
    with a_round(tmp_path, 1, people="ada ben cem") as ledger:
        assert ledger.undo("ada") is None
        ledger.accept(says(ledger.next_task("ada"), "ttt", ledger=ledger))
        ledger.accept(says(ledger.next_task("ben"), "ttf", ledger=ledger))
        third = ledger.next_task("cem")
        task, said = ledger.undo("ada")
        assert said.label("step3") == "True" and ledger.next_task("ada").view == task.view
        ledger.accept(says(third, "ttf", ledger=ledger))
        kept = ledger.accept(says(task, "ttf", ledger=ledger))
        assert not kept.answer.is_surplus, "who takes an answer back does not lose the seat"
        assert ledger.undo("ada", route="argilla") is None, "another route's answer is not its to take back"


def test_gold_goes_to_everyone_and_repeats_come_later_and_neither_is_a_vote(tmp_path):
    items = some_items(40)
    gold = [Gold(item_id=i.id, steps=(True, True, True)) for i in items[:3]]
    with a_round(tmp_path, items, gold=gold, check_every=1) as ledger:
        play(ledger, seed=3)
        state = ledger.state
        assert all(n in (2, 3) for i, n in votes(ledger).items() if i not in state.gold)
        assert all(len(state.answers[g.item_id]) == 3 for g in gold)
        again = [s for done in state.history.values() for s in done if s.repeat]
        assert again and all(s.item_id not in state.gold for s in again)
        for who, done in state.history.items():
            for at, showing in enumerate(done):
                if showing.repeat:
                    first = next(n for n, s in enumerate(done) if s.item_id == showing.item_id)
                    assert at - first >= REPEAT_GAP, who
        assert not any(a.is_vote for i in state.answers for (_, r), a in state.answers[i].items() if r)


def test_dealt_evenly_once_and_moved_to_another_route(tmp_path):
    with a_round(tmp_path, 9) as ledger:
        dealt = ledger.deal("argilla")
        assert len(dealt) == 18 and ledger.deal("argilla") == []
        assert {w: sum(t.annotator == w for t in dealt) for w in ("ada", "ben", "cem")} == {
            "ada": 6,
            "ben": 6,
            "cem": 6,
        }
        assert {t.view.id for t in ledger.tasks("argilla")} == {t.view.id for t in dealt}
        assert ledger.next_task("ada") is None, "all seats are given out"
        for task in dealt[:4]:
            ledger.accept(says(task, ledger=ledger), route="argilla")
        assert ledger.release("argilla") == 14
        play(ledger)
        assert set(votes(ledger).values()) <= {2, 3}
        assert {a.route for t in ledger.state.answers.values() for a in t.values()} == {"argilla", "local"}


def test_people_and_judges_have_seats_of_their_own(tmp_path):
    with a_round(tmp_path, 4) as ledger:
        ledger.add_annotators(["m#1", "m#2"], "llm")
        for task in ledger.deal("judge", annotators=["m#1", "m#2"]):
            ledger.accept(says(task, ledger=ledger), route="judge")
        assert all(len(ledger.state.votes(i, ("llm",))) == 2 for i in ledger.state.items)
        play(ledger)
        assert set(votes(ledger).values()) <= {2, 3}
        with pytest.raises(UsageError, match="is a llm of this round"):
            ledger.add_annotators(["m#1"])


@settings(max_examples=15)
@given(st.integers(0, 10_000))
def test_the_log_rebuilds_the_live_state(tmp_path_factory, seed):
    folder = tmp_path_factory.mktemp("round")
    items = some_items(12)
    with a_round(folder, items, check_every=3, gold=[Gold(item_id=items[0].id, better="neither")]) as ledger:
        draw = random.Random(seed)
        for _ in range(60):
            who = draw.choice(["ada", "ben", "cem"])
            move = draw.random()
            if move < 0.1:
                ledger.undo(who)
            elif move < 0.15:
                ledger.deal("argilla")
            elif move < 0.2:
                ledger.release(annotator=who)
            elif move < 0.22:
                ledger.withdraw([ledger.state.items[draw.choice(list(ledger.state.items))].dialogue_id])
            elif move < 0.25:
                ledger.decide(Decision(item_id=draw.choice(list(ledger.state.items)), steps=(True, None, False)))
            elif (task := ledger.next_task(who, now=draw.uniform(0, 5000))) is not None and draw.random() < 0.8:
                ledger.accept(skips(task) if draw.random() < 0.1 else at_random(task, draw))
        with Ledger(folder / "annotation.sqlite") as again:
            assert again.state == ledger.state
            assert list(again.state.wanting("person")) == list(ledger.state.wanting("person"))
        assert all(n <= 3 for n in votes(ledger).values())


def test_a_failed_write_leaves_the_state_as_the_file_has_it(tmp_path, monkeypatch):
    with a_round(tmp_path, 2) as ledger:
        before = list(ledger.state.annotators)
        with pytest.raises(UsageError):
            ledger.add_annotators(["dan", ""])
        assert list(ledger.state.annotators) == before
        ledger.add_annotators(["dan"])
        with Ledger(ledger.path) as again:
            assert again.state == ledger.state


WORKER = """
import sys, random
from annotation.ledger import Ledger
from pathlib import Path
from tests.unit.annotation.answering import at_random
ledger, who = Ledger(Path(sys.argv[1])), sys.argv[2]
draw = random.Random(who)
print("ready", flush=True)
while (task := ledger.next_task(who)) is not None:
    ledger.accept(at_random(task, draw))
    print(task.view.id, flush=True)
"""


def start_worker(path: Path, who: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WORKER, str(path), who], cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_two_processes_at_once_never_fill_a_seat_twice(tmp_path):
    with a_round(tmp_path, 40, people="ada ben cem dan") as ledger:
        workers = [start_worker(ledger.path, who) for who in ("ada", "ben", "cem", "dan")]
        said = [w.communicate(timeout=120)[0].split()[1:] for w in workers]
        assert all(w.returncode == 0 for w in workers)
        ledger.refresh()
        answers = [a for t in ledger.state.answers.values() for a in t.values()]
        assert len(answers) == sum(map(len, said)) and not any(a.is_surplus for a in answers)
        assert set(votes(ledger).values()) == {2, 3}, "no item has more answers than asked, none has fewer"


@pytest.mark.slow
def test_kill_9_loses_no_acknowledged_answer(tmp_path):
    with a_round(tmp_path, 400, people="ada ben") as ledger:
        acknowledged: set[str] = set()
        for round_ in range(4):
            worker = start_worker(ledger.path, "ada")
            assert worker.stdout.readline() == "ready\n"
            time.sleep(0.1 + 0.07 * round_)
            os.kill(worker.pid, signal.SIGKILL)
            acknowledged |= {line for line in worker.stdout.read().split("\n")[:-1] if line}
            worker.wait()
        assert len(acknowledged) > 10
        ledger.refresh()
        kept = {v for v, s in ledger.state.views.items() if ledger.state.answer_to(s) is not None}
        assert acknowledged <= kept
        with Ledger(ledger.path) as again:
            assert again.state == ledger.state


def damaged(path: Path, statement: str, *values: object) -> None:
    db = sqlite3.connect(path)
    db.execute(statement, values)
    db.commit()
    db.close()


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE events SET body = replace(body, '\"repeat\":0', '\"repeat\":1') WHERE id = 12", "event 12"),
        ("UPDATE events SET annotator = 'eve' WHERE id = 12", "event 12"),
        ("DELETE FROM events WHERE id = 11", "event 12"),
        ("UPDATE round SET settings = '{}}'", "settings cannot be read"),
        ("PRAGMA user_version = 99", "schema 99"),
        ("PRAGMA application_id = 7", "not a ledger"),
    ],
)
def test_a_damaged_ledger_is_named(tmp_path, statement, named):
    with a_round(tmp_path) as ledger:
        play(ledger)
    damaged(ledger.path, statement)
    with pytest.raises(DataError, match=named) as caught:
        Ledger(ledger.path)
    assert str(ledger.path) in str(caught.value) and caught.value.hint


def test_a_damaged_item_or_file_is_named(tmp_path):
    with a_round(tmp_path, 1) as ledger:
        item = next(iter(ledger.state.items))
    damaged(ledger.path, "UPDATE items SET body = replace(body, 'deadline', 'holiday')")
    damaged(ledger.path, "UPDATE items SET body = replace(body, 'too much', 'nothing')")
    with Ledger(ledger.path) as ledger, pytest.raises(DataError, match=f"item {item} is not what was taken in"):
        ledger.next_task("ada")
    ledger.path.write_bytes(os.urandom(5000))
    with pytest.raises(DataError, match="damaged"):
        Ledger(ledger.path)


def test_no_round_is_told_and_an_empty_file_is_none(tmp_path):
    for _ in range(2):
        with pytest.raises(UsageError, match="no round of annotation has begun"):
            Ledger(tmp_path / "annotation.sqlite")
        (tmp_path / "annotation.sqlite").touch()
    with Ledger(tmp_path / "annotation.sqlite", RoundSettings(overlap=3)) as ledger:
        assert ledger.state.settings.overlap == 3
    assert ledger.path.stat().st_mode & 0o077 == 0, "the key of the blinding is nobody else's"


def test_drafts_are_kept_until_answered(tmp_path):
    with a_round(tmp_path, 1) as ledger:
        task = ledger.next_task("ada")
        for n in range(3):
            ledger.save_draft(task.view.id, {"critique1": f"Ich weiß nicht 不知道 {n}"})
        with Ledger(ledger.path) as again:
            assert again.draft(task.view.id) == {"critique1": "Ich weiß nicht 不知道 2"}
        ledger.accept(says(task, ledger=ledger))
        assert ledger.draft(task.view.id) is None
        with pytest.raises(RecordError):
            ledger.save_draft("v0", {})


def test_what_is_withdrawn_leaves_the_file(tmp_path):
    items = some_items(3)
    with a_round(tmp_path, items, people="ada ben") as ledger:
        task = ledger.next_task("ada")
        said = says(task, "ftt", ledger=ledger).model_copy(update={"comment": "a very private remark"})
        ledger.accept(said)
        play(ledger)
        gone = ledger.state.items[task.item_id]
        assert ledger.withdraw([gone.dialogue_id]) == 1
        assert task.item_id not in ledger.state.items
        with Ledger(ledger.path) as again:
            assert again.state == ledger.state
    data = b"".join(f.read_bytes() for f in tmp_path.iterdir())
    body = next(i for i in items if i.id == task.item_id)
    assert b"a very private remark" not in data and body.history[0].text.encode() not in data
    other = next(i for i in items if i.id != task.item_id)
    assert other.history[0].text.encode() in data
    assert json.loads(other.model_dump_json())["trace_id"] == other.trace_id
