"""What judges write: the right score, or none."""

import pytest

from ser_toolkit.rewards.parsing import read_bool, read_choice, read_score


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("**Score:** 4", 4),
        ("Score: 4/5", 4),
        ("Score: 4 out of 5", 4),
        ("4", 4),
        ("[4]", 4),
        ("score = 3.0", 3),
        ("Score: 2 at first, on reflection Score: 5", 5),
        ("评分：4分", 4),
        ("得分为３", 3),
        ("Score: 4.5", None),
        ("Score: 45", None),
        ("Score: 0", None),
        ("Score: -3", None),
        ("Score: 4/10", None),
        ("There are 3 reasons to like it.", None),
        ("", None),
    ],
)
def test_a_level_from_1_to_5(text, score):
    assert read_score(text, 1, 5) == score


def test_a_total_of_100():
    assert read_score("Total Score: [85] / 100", 0, 100) == 85


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("True", True),
        ("It looks true at first, but: False.", False),
        ("untrue", None),
        ("This is not true", None),
        ("正确", True),
        ("不正确", False),
        ("maybe", None),
    ],
)
def test_a_truth(text, truth):
    assert read_bool(text) is truth


CHOICES = ("first better", "second better", "almost equal", "almost equally good", "neither")


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("Second  better", "second better"),
        ("At a glance first better; in the end second better.", "second better"),
        ("almost equally good", "almost equally good"),
        ("almost equal", "almost equal"),
        ("neithers", None),
        ("the other one", None),
    ],
)
def test_a_choice(text, choice):
    assert read_choice(text, CHOICES) == choice
