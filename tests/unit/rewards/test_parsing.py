"""What judges write: the right score, or none."""

import pytest

from ser_toolkit.rewards.parsing import read_score


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
