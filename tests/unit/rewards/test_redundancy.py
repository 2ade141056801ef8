"""Redundancy reweighting: METHOD's check values and the properties that a group must keep."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ser_toolkit.rewards.redundancy import (
    length_of,
    reweight,
    reweight_dra,
    similarity_to_history,
    similarity_within,
    tau,
)


@pytest.mark.parametrize(("length", "value"), [(0, 0.075858), (2, 0.182426), (5, 0.5), (10, 0.924142), (20, 0.999447)])
def test_tau(length, value):
    assert tau(length) == pytest.approx(value, abs=1e-6)


def test_reweighting_check_values():
    assert reweight([3], [0.5], [0.5], 1.0)[0] == pytest.approx(1.333333, abs=1e-6)
    assert reweight([2.5], [0.6], [0.8], tau(10))[0] == pytest.approx(0.924646, abs=1e-6)
    assert reweight([3], [0.6], [0.8], tau(2))[0] == pytest.approx(2.359660, abs=1e-6)


def test_similarity_where_it_is_undefined_is_zero():
    assert similarity_within([[1.0, 0.0]]).tolist() == [0.0]
    assert similarity_to_history([[1.0, 0.0], [0.0, 1.0]], []).tolist() == [0.0, 0.0]
    assert similarity_within([[0.0, 0.0], [1.0, 0.0]]).tolist() == [0.0, 0.0]


def test_negative_cosines_count_as_zero_unless_told_otherwise():
    assert similarity_within([[1.0, 0.0], [-1.0, 0.0]]).tolist() == [0.0, 0.0]
    assert similarity_within([[1.0, 0.0], [-1.0, 0.0]], clip=False).tolist() == [-1.0, -1.0]


def test_a_negative_reward_is_never_raised_and_a_missing_one_stays_missing():
    out = reweight([-1.0, None, 1.0], [0.5] * 3, [0.5] * 3, 1.0)
    assert out[0] == pytest.approx(-2.25) and np.isnan(out[1]) and out[2] == pytest.approx(1 / 2.25)
    assert reweight_dra([-1.0, 1.0], [[1.0, 0.0], [1.0, 0.0]]).tolist() == [-2.0, 0.5]


vectors = st.integers(2, 6).flatmap(
    lambda g: st.lists(st.lists(st.floats(-1, 1, width=32), min_size=3, max_size=3), min_size=g, max_size=g)
)


@given(vectors, st.randoms())
def test_a_group_in_another_order_gives_the_same_rewards_in_that_order(outputs, random):
    order = list(range(len(outputs)))
    random.shuffle(order)
    straight = similarity_within(outputs)
    shuffled = similarity_within([outputs[i] for i in order])
    assert shuffled == pytest.approx(straight[order], abs=1e-9)


@given(vectors, st.floats(0, 3), st.floats(0, 1))
def test_duplicates_get_equal_rewards_and_nothing_positive_is_raised(outputs, reward, strength):
    outputs = [*outputs, outputs[0]]
    s_in = similarity_within(outputs)
    rewards = reweight([reward] * len(outputs), np.zeros(len(outputs)), s_in, strength)
    assert rewards[0] == pytest.approx(rewards[-1])
    assert (rewards <= reward + 1e-12).all()


def test_length_is_words_or_chinese_characters():
    assert length_of("That sounds hard.", "en") == 3
    assert length_of("一个人 扛着真不容易", "zh") == 9
