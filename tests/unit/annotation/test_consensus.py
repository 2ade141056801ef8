"""Consensus: majority by part, ties kept aside with their reason, whoever came first."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.consensus import all_consensus, consensus, trace_labels, waiting
from annotation.items import Answer, Decision, StepMark
from annotation.rounds import ItemInfo, RoundSettings, RoundState, majority
from ser_toolkit.verdicts import as_shown
from tests.unit.annotation.answering import a_round, says, skips

STEPS = st.tuples(st.booleans(), st.booleans(), st.booleans())
BETTER = st.sampled_from(["generated", "reference", "almost_equal", "neither"])
SAID = st.tuples(STEPS, BETTER, st.sampled_from([1, 2]))


def state_of(said, *, source="person", overlap=2) -> RoundState:
    """A state whose one item has these answers, as the events would have made it."""
    state = RoundState(RoundSettings(overlap=overlap), b"k" * 32)
    state.apply("item", "i", "", {"trace_id": "t", "dialogue_id": "d", "has_pair": True})
    for n, (steps, better, position) in enumerate(said):
        who = f"{source}{n}"
        state.apply("annotator", "", who, {"source": source})
        answer = Answer(
            item_id="i", annotator=who, source=source, steps=tuple(StepMark(label=s) for s in steps),
            verdict=as_shown(better, position), generated_position=position, time=f"{n}",
        )  # fmt: skip
        state.apply("answer", "i", who, answer.model_dump(mode="json"))
    return state


def labels(said, order) -> dict:
    found = consensus(state_of([said[n] for n in order]), "i", ("person",))
    return {p: (r.label, r.how, dict(r.votes)) for p, r in found.parts.items()} | {"state": found.state}


@given(st.lists(SAID, max_size=3), st.randoms())
def test_the_order_of_annotators_never_matters(said, random_):
    order = random_.sample(range(len(said)), len(said))
    assert labels(said, order) == labels(said, range(len(said)))


@given(st.lists(SAID, min_size=2, max_size=3))
def test_majority_decides_and_nothing_else(said):
    found = consensus(state_of(said), "i", ("person",))
    for part, result in found.parts.items():
        votes = [b if part == "reply" else str(s[int(part[-1]) - 1]) for s, b, _ in said]
        top, times = Counter(votes).most_common(1)[0]
        if found.state == "done" and times * 2 > len(votes):
            assert (result.label, result.how) == (top, "unanimous" if times == len(votes) else "majority")
        else:
            assert result.label is None and result.reason
    assert found.state == ("done" if len(said) == 3 or all(r.label for r in found.parts.values()) else "disputed")


def test_the_verdict_counts_by_what_was_meant_not_by_the_side():
    """Both prefer the generated reply, which stood first for one and second for the other."""
    state = state_of([((True,) * 3, "generated", 1), ((True,) * 3, "generated", 2)])
    assert {a.verdict for a in state.votes("i", ("person",))} == {"first_better", "second_better"}
    assert consensus(state, "i", ("person",)).parts["reply"].label == "generated"


def test_three_of_three_minds_are_kept_aside_with_the_reason():
    said = [((True,) * 3, b, 1) for b in ("generated", "reference", "neither")]
    state = state_of(said)
    found = consensus(state, "i", ("person",))
    assert (found.state, found.undecided) == ("done", ("reply",))
    assert found.parts["reply"].reason == "no majority: generated 1, neither 1, reference 1"
    (made,) = trace_labels([found], "person")
    assert (made.steps, made.better, made.votes) == ((True, True, True), None, 3)
    assert [c.item_id for c in waiting(state, ("person",), 0.0)] == ["i"]


def test_the_owner_decides_what_is_open():
    state = state_of([((True,) * 3, b, 1) for b in ("generated", "reference", "neither")])
    state.apply("decision", "i", "", Decision(item_id="i", better="reference").model_dump(mode="json"))
    found = consensus(state, "i", ("person",))
    assert (found.parts["reply"].label, found.parts["reply"].how, found.undecided) == ("reference", "owner", ())
    assert waiting(state, ("person",), 0.0) == []
    (made,) = trace_labels([found], "person")
    assert made.by_owner and made.better == "reference"


def test_sources_are_never_mixed_silently():
    state = state_of([((True,) * 3, "generated", 1)] * 2)
    for n in range(2):
        who = f"llm{n}"
        state.apply("annotator", "", who, {"source": "llm"})
        marks = tuple(StepMark(label=False) for _ in range(3))
        answer = Answer(item_id="i", annotator=who, source="llm", steps=marks, verdict="neither", generated_position=1)
        state.apply("answer", "i", who, answer.model_dump(mode="json"))
    by = {s: consensus(state, "i", s).parts["step1"] for s in (("person",), ("llm",), ("person", "llm"))}
    assert (by["person",].label, by["llm",].label) == ("True", "False")
    assert by["person", "llm"].label is None and dict(by["person", "llm"].votes) == {"True": 2, "False": 2}


def test_open_items_give_no_label(tmp_path):
    with a_round(tmp_path, 3, people="ada ben") as ledger:
        ledger.accept(says(ledger.next_task("ada"), ledger=ledger))
        ledger.accept(skips(ledger.next_task("ada")))
        found = all_consensus(ledger.state, ("person",))
        assert {c.state for c in found} == {"open"} and list(trace_labels(found, "person")) == []
        assert sum(r.reason == "1 of 2 votes: True 1" for c in found for r in c.parts.values()) == 3


@pytest.mark.parametrize(
    ("votes", "label"),
    [("", None), ("a", "a"), ("ab", None), ("aab", "a"), ("aabb", None), ("abc", None), ("aaab", "a")],
)
def test_majority_is_more_than_half(votes, label):
    assert majority(random.sample(list(votes), len(votes))) == label


def test_an_item_without_a_pair_is_asked_for_its_steps():
    assert ItemInfo("t", "d", has_pair=False).parts == ("step1", "step2", "step3")
