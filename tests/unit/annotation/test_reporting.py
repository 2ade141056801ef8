"""The report per annotator: C7's one-sided rater, gold, self-consistency, drift, and answers as rows."""

import json

import pytest

from annotation.items import Gold
from annotation.reporting import agreement, answer_rows, answers_jsonl, conflicts, label_report, report, status
from ser_toolkit.verdicts import unblinded
from tests.unit.annotation.answering import a_round, play, says, skips, some_items

PERSON = ("person",)


def row(ledger, who):
    return next(r for r in report(ledger.state, PERSON, resamples=0).annotators if r["annotator"] == who)


def press(ledger, who, choose, count, **labels):
    """`who` answers `count` items, choosing by the task."""
    for _ in range(count):
        task = ledger.next_task(who)
        ledger.accept(says(task, ledger=ledger, **labels).model_copy(update={"verdict": choose(task)}))


def test_c7_a_rater_who_always_presses_right(tmp_path):
    """Six times "second", with the generated reply thrice on each side: votes 3 and 3, side 6 of 6, p = 0.031."""
    items = some_items(60)
    with a_round(tmp_path, items, people="r1 r2") as ledger:
        stood = {1: 0, 2: 0}
        while stood != {1: 3, 2: 3}:
            task = ledger.next_task("r2")
            position = 1 if task.view.replies[0] == ledger.item(task.item_id).generated else 2
            if stood[position] == 3:
                ledger.accept(skips(task, "other"))
                continue
            stood[position] += 1
            ledger.accept(says(task, ledger=ledger).model_copy(update={"verdict": "second_better"}))
        votes = [a.better for t in ledger.state.answers.values() for a in t.values() if a.better]
        assert (votes.count("generated"), votes.count("reference")) == (3, 3)
        found = row(ledger, "r2")
        assert (found["first"], found["second"], found["side_share"]) == (0, 6, 1.0)
        assert found["side_p"] == pytest.approx(0.03125) and found["is_one_sided"]
        assert found["answers"] == 6 and found["skipped"] == len(ledger.state.history["r2"]) - 6


def test_c7_both_raters_rows_are_kept_and_chinese_is_not_escaped(tmp_path):
    with a_round(tmp_path, 1, people="r1 r2 r3") as ledger:
        ledger.accept(says(ledger.next_task("r1"), ledger=ledger).model_copy(update={"comment": "这一步不对"}))
        ledger.accept(skips(ledger.next_task("r3")))
        ledger.accept(says(ledger.next_task("r2"), "tft", "reference", ledger=ledger))
        rows = list(answer_rows(ledger.state))
        assert [(r["annotator"], r["is_vote"]) for r in rows] == [("r1", True), ("r3", False), ("r2", True)]
        for r in rows:
            assert r["better"] == unblinded(r["verdict"], r["generated_position"])
        text = "".join(answers_jsonl(ledger.state))
        assert "这一步不对" in text and len(text.splitlines()) == 3
        assert json.loads(text.splitlines()[2])["steps"][1] == {"label": False, "critique": "no"}
        assert status(ledger.state, PERSON, 0.0)["answers"] == 2, "a skip is no answer"


def test_c7_a_tie_is_no_conflict(tmp_path):
    with a_round(tmp_path, 4, people="r1 r2") as ledger:
        pairs = iter([("generated",) * 2, ("reference",) * 2, ("almost_equal", "generated"), ("almost_equal",) * 2])
        planned = {i: next(pairs) for i in ledger.state.items}
        for n, who in enumerate(("r1", "r2")):
            while (task := ledger.next_task(who)) is not None:
                ledger.accept(says(task, better=planned[task.item_id][n], ledger=ledger))
        alpha = agreement(ledger.state, "reply", PERSON)[1]
        assert alpha.value == pytest.approx(0.667, abs=5e-4)
        assert conflicts(ledger.state, PERSON) == 0
        undefined = agreement(ledger.state, "step1", PERSON)
        assert [a.value for a in undefined] == [None, None] and "one category" in undefined[0].reason


def test_gold_self_consistency_and_time(tmp_path):
    items = some_items(40)
    gold = [Gold(item_id=i.id, steps=(True, None, False), better="reference") for i in items[:4]]
    with a_round(tmp_path, items, people="ada ben", gold=gold, check_every=2) as ledger:
        while (task := ledger.next_task("ada")) is not None:
            steps = "fff" if task.repeat else "ttt"
            ledger.accept(says(task, steps, "reference", ledger=ledger, seconds=4.0 if task.repeat else 2.0))
        found = row(ledger, "ada")
        assert found["gold_answered"] == 12 and found["gold_accuracy"] == pytest.approx(2 / 3)
        assert found["repeats_answered"] > 0 and found["self_consistency"] == pytest.approx(1 / 4)
        assert found["median_seconds"] == 2.0
        assert found["agreement"] is None, "nobody to compare with is not 0"
        assert row(ledger, "ben")["gold_accuracy"] is None
        assert label_report(ledger.state, PERSON, resamples=0)["items"] == 36, "gold is no data"


def test_drift_is_seen(tmp_path):
    with a_round(tmp_path, 40, people="ada ben") as ledger:
        while (task := ledger.next_task("ada")) is not None:
            ledger.accept(says(task, "ttt", ledger=ledger))
        n = 0
        while (task := ledger.next_task("ben")) is not None:
            ledger.accept(says(task, "ttt" if n < 20 else "fff", ledger=ledger))
            n += 1
        found = row(ledger, "ben")
        assert found["drift"] == pytest.approx(-0.75) and found["is_drifting"] and found["drift_p"] < 1e-9
        halves = [r for r in report(ledger.state, PERSON, resamples=0).drift if r["annotator"] == "ben"]
        assert [(r["answers"], r["agreement"], r["true_share"]) for r in halves] == [(20, 1.0, 1.0), (20, 0.25, 0.0)]


def test_frames_and_the_card(tmp_path):
    with a_round(tmp_path, 20) as ledger:
        play(ledger, seed=5, skip_share=0.1)
        frames = report(ledger.state, PERSON, resamples=100).frames()
        assert {n: len(f) for n, f in frames.items()} == {"annotators": 3, "drift": 6, "agreement": 8, "pairs": 12}
        assert set(frames["agreement"]["name"]) == {"fleiss", "alpha"}
        told = label_report(ledger.state, PERSON, resamples=50)
        assert not {"ada", "ben", "cem"} & set(json.dumps(told).replace('"', " ").split()), "people are never named"
        assert json.loads(json.dumps(told, allow_nan=False)) == told
        assert told["people"] == 3 and told["done"] + status(ledger.state, PERSON, 0.0)["waiting"] >= 20
