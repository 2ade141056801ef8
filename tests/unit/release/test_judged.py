"""A judge's chat taken apart gives its parts back, whatever the texts hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ser_toolkit.errors import RecordError
from ser_toolkit.history import render_history
from ser_toolkit.releases.judged import PROCESS_ANSWERS, take_apart
from ser_toolkit.releases.judging import judge_questions
from ser_toolkit.schema import Turn

texts = st.text(min_size=1, max_size=40).filter(str.strip)
langs = st.sampled_from(["en", "zh"])


def turns(*said: str) -> list[Turn]:
    return [Turn(speaker="seeker" if i % 2 == 0 else "supporter", text=text) for i, text in enumerate(said)]


@given(st.lists(texts, max_size=4), st.tuples(texts, texts, texts), st.tuples(texts, texts), langs)
def test_what_is_taken_apart_is_asked_the_same(said, steps, pair, lang):
    history = turns(*said)
    asked = judge_questions(history, steps, pair, lang)
    if any("\n\nSecond:\n" in reply or "\n\n第二个：\n" in reply for reply in pair):
        return
    case = take_apart(asked, lang)
    assert list(case.unified()) == asked
    assert case.steps == tuple(s.strip() for s in steps) and case.replies == tuple(r.strip() for r in pair)
    assert "\n".join(case.history) == render_history(history, lang)


def case(lang="en"):
    return take_apart(
        judge_questions(turns("A.", "B.", "C."), ("one", "two\n\nand more", "three"), ("x", "y"), lang), lang
    )


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_less_history_other_order_one_turn(lang):
    whole = case(lang)
    assert [line[-2:] for line in whole.history] == ["A.", "B.", "C."]
    assert whole.without(2).history == whole.history[2:] and whole.without(9).history == whole.history[2:]
    assert whole.without(1).unified()[1:] == whole.unified()[1:], "a step or a reply is never cut"
    assert whole.exchanged().replies == ("y", "x") and whole.exchanged().unified()[:3] == whole.unified()[:3]
    process, outcome = whole.process(), whole.outcome()
    assert all(s in process for s in whole.steps) and process.startswith(whole.opening)
    assert "\nx\n" not in process and "two" not in outcome
    assert outcome == whole.opening + whole.unified()[3]


def test_the_process_judge_says_a_word_a_step():
    assert len(set(PROCESS_ANSWERS)) == 8 and PROCESS_ANSWERS[0] == "True, True, True"


def test_other_questions_are_malformed():
    asked = list(case().unified())
    for bad in (asked[:3], ["Hm?", *asked[1:]], [asked[0], "Step 2: hm", *asked[2:]], [*asked[:3], "Which?"]):
        with pytest.raises(RecordError, match="malformed"):
            take_apart(bad, "en")
    two = judge_questions(turns("A."), ("1", "2", "3"), ("x\n\nSecond:\nz", "y"), "en")
    with pytest.raises(RecordError, match="a reply holds the words 'Second:'"):
        take_apart(two, "en")
