"""What a judge's answers are worth: by hand for a few items, and the baselines beside them."""

from __future__ import annotations

import pytest

from rm_training.evaluate import Item, Said
from rm_training.measures import baselines, compare, is_inconsistent, measure
from ser_toolkit.metrics.calibration import expected_calibration_error, reliability
from ser_toolkit.metrics.classification import mean_interval

FIRST, SECOND, EQUAL, NEITHER = "First better", "Second better", "Almost equally good", "Neither acceptable"


def item(n: int, labels: str, reply: str | None, position: int = 1, lengths: tuple[int, int] | None = (9, 4)) -> Item:
    """`labels` as "TF-": True, False, undecided."""
    words = {"T": "True", "F": "False", "-": None}
    one, two, three = (words[x] for x in labels)
    return Item(
        id=f"i{n}", lang="en", system="s", questions=("a", "b", "c", "d"), labels=(one, two, three, reply),
        generated_position=position, exchanged="e", lengths=lengths,
    )  # fmt: skip


def said(n: int, labels: str, reply: str | None, exchanged: str | None = None, sure: float | None = None) -> Said:
    words = {"T": "True", "F": "False", "-": None}
    answers = (*(words[x] for x in labels), reply)
    chances = tuple(None if sure is None or a is None else {a: sure, "other": 1 - sure} for a in answers)
    return Said(id=f"i{n}", answers=answers, chances=chances, exchanged=exchanged)


ITEMS = [
    item(0, "TTT", FIRST, 1),
    item(1, "TFT", SECOND, 1),
    item(2, "TTF", SECOND, 2, (4, 9)),
    item(3, "FT-", NEITHER, 2, None),
    item(4, "TTT", None, 1),
]
SAID = [
    said(0, "TTT", FIRST, SECOND, 0.9),
    said(1, "TTT", FIRST, FIRST, 0.8),
    said(2, "TTT", SECOND, SECOND, 0.7),
    said(3, "F-T", None, None),
    said(4, "FTT", EQUAL, EQUAL, 0.6),
]


def test_figures_are_over_what_was_decided_and_answered():
    found = {s.key: s for s in measure(ITEMS, SAID, resamples=200).scores}
    step1 = found["step1.weighted_f1"]
    assert (step1.value.n, step1.missing) == (5, 0)
    assert step1.value.value == pytest.approx(0.8 * (6 / 7) + 0.2 * (2 / 3))
    assert found["step1.recall_false"].value.value == 1.0
    assert (found["step2.recall_false"].value.value, found["step2.recall_false"].missing) == (0.0, 1)
    assert found["step3.recall_false"].value.n == 4, "an undecided step is no item"
    reply = found["reply.accuracy"]
    assert (reply.value.value, reply.value.n, reply.missing) == (pytest.approx(2 / 3), 3, 1)
    assert reply.value.low <= reply.value.value <= reply.value.high


def test_baselines_know_nothing_but_the_commonest_label_length_and_place():
    rules = baselines(ITEMS, 3, ITEMS)
    assert rules["first"] == [FIRST] * 4
    assert rules["longest"] == [FIRST, FIRST, SECOND, None] and rules["shortest"] == [SECOND, SECOND, FIRST, None]
    assert rules["majority"] == [FIRST, FIRST, SECOND, SECOND], "the generated reply, wherever it stands"
    assert baselines(ITEMS, 1, ITEMS) == {"majority": ["True"] * 5}
    assert baselines(ITEMS[:2], 0, [item(9, "FFF", None)]) == {"majority": ["False"] * 2}
    scores = {s.key: s for s in measure(ITEMS, SAID, resamples=50).scores}
    assert scores["step2.recall_false"].baselines == {"majority": 0.0}
    assert scores["reply.accuracy"].baselines["first"] == pytest.approx(1 / 4)


def test_process_against_outcome():
    sound, unsound = ("True",) * 3, ("True", "False", "True")
    assert is_inconsistent(ITEMS[0], (*sound, SECOND)) and is_inconsistent(ITEMS[0], (*sound, NEITHER))
    assert is_inconsistent(ITEMS[0], (*unsound, FIRST)) and is_inconsistent(ITEMS[2], (*unsound, SECOND))
    assert not is_inconsistent(ITEMS[0], (*sound, EQUAL)) and not is_inconsistent(ITEMS[2], (*unsound, FIRST))
    assert is_inconsistent(ITEMS[0], ("True", None, "True", FIRST)) is None
    found = {s.key: s for s in measure(ITEMS, SAID, resamples=50).scores}["inconsistency"]
    assert (found.value.value, found.value.n, found.missing) == (0.0, 4, 1)
    assert found.baselines == {"labels": pytest.approx(1 / 3)}, "item 2: a step is False, and its reply better"


def test_position_bias_is_over_both_orders():
    found = {s.key: s for s in measure(ITEMS, SAID, resamples=50).scores}
    first = found["position.first"]
    assert (first.value.value, first.value.n, first.missing) == (0.5, 6, 1) and first.p == 1.0
    agree = found["position.agreement"]
    assert (agree.value.value, agree.value.n) == (0.5, 4), "items 0 and 4 agree; 1 and 2 name the same place twice"
    biased = [said(n, "TTT", FIRST, FIRST) for n in range(5)]
    assert {s.key: s for s in measure(ITEMS, biased, resamples=50).scores}["position.first"].p == pytest.approx(
        2 / 2**10
    )


def test_calibration_is_of_the_answer_given():
    found = measure(ITEMS, SAID, resamples=50)
    (steps, reply) = found.bins["steps"], found.bins["reply"]
    assert sum(b.n for b in steps) == 12 and sum(b.n for b in reply) == 3
    score = {s.key: s for s in found.scores}["calibration.reply"]
    assert score.value.value == pytest.approx((0.1 + 0.8 + 0.3) / 3)
    assert expected_calibration_error([]) is None
    assert [(b.low, b.n, b.right) for b in reliability([1.0, 0.95, 0.05], [True, False, False])] == [
        (0.0, 1, 0.0),
        (0.9, 2, 0.5),
    ]


def test_two_judges_are_compared_on_what_both_answered():
    right = [Said(id=i.id, answers=i.labels, chances=(None,) * 4) for i in ITEMS]
    found = compare(ITEMS, right, SAID, resamples=200)
    assert found["reply.accuracy"].n == 3 and found["reply.accuracy"].value == pytest.approx(1 / 3)
    assert found["step1.weighted_f1"].value > 0
    assert compare(ITEMS, SAID, SAID, resamples=50)["step2.weighted_f1"].value == 0


def test_a_mean_leaves_out_what_is_missing():
    found = mean_interval([1.0, None, 3.0])
    assert (found.value, found.n) == (2.0, 2) and found.low == 1.0 and found.high == 3.0
    assert mean_interval([None]).value is None
