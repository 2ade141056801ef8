"""A judge's answer out of words: whole words, the last anchored one, and never a guess."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ser_toolkit.releases.judging import REPLY_ANSWERS, STEP_ANSWERS
from ser_toolkit.rewards.answers import answer_probabilities, read_answer

REPLIES = tuple(REPLY_ANSWERS.values())


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("True", "True"),
        (" **False**.", "False"),
        ("false", "False"),
        ("True. It names the cause.", "True"),
        ("The step says the seeker is angry.\nVerdict: False", "False"),
        ("Answer: True, I first thought.\nOn reflection, the answer is False.", "False"),
        ("It is true that she is sad.\n\nFalse", "False"),
        ("<think>Answer: True</think>\nFalse", "False"),
        ("正确", "True"),
        ("结论：错误", "False"),
        ("Untrue", None),
        ("It is true that she is sad.", None),
        ("True or False? Hard to say.", None),
        ("<think>True", None),
        ("", None),
    ],
)
def test_a_step(text, answer):
    assert read_answer(text, STEP_ANSWERS) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("First better", "First better"),
        ("`second better`", "Second better"),
        ("second_better", "Second better"),
        ("Both are kind.\nVerdict: almost good", "Almost equally good"),
        ("**Verdict:** Neither acceptable", "Neither acceptable"),
        ("第一个更好", "First better"),
        ("Firstly, both are cold.", None),
        ("The first better shows warmth than the second better", None),
        ("First better | Second better | Almost equally good | Neither acceptable", None),
    ],
)
def test_a_verdict_on_replies(text, answer):
    assert read_answer(text, REPLIES) == answer


@given(st.text(max_size=200), st.sampled_from([STEP_ANSWERS, REPLIES]))
def test_any_text_gives_an_allowed_answer_or_none(text, allowed):
    assert read_answer(text, allowed) in (*allowed, None)


def test_probabilities_are_those_of_the_first_token_that_opens_an_answer():
    split = [{"token": "\n", "logprob": 0.0}, {"token": " True", "logprob": math.log(0.6), "top_logprobs": [
        {"token": " True", "logprob": math.log(0.6)}, {"token": "true", "logprob": math.log(0.1)},
        {"token": "False", "logprob": math.log(0.1)}, {"token": "Maybe", "logprob": math.log(0.2)},
    ]}]  # fmt: skip
    assert answer_probabilities(split, STEP_ANSWERS) == pytest.approx({"True": 0.875, "False": 0.125})


def test_without_log_probabilities_nothing_is_known():
    assert answer_probabilities(None, STEP_ANSWERS) is None
    assert answer_probabilities([], STEP_ANSWERS) is None
    assert answer_probabilities([{"token": "Hm", "logprob": -0.1}], STEP_ANSWERS) is None
