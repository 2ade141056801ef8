"""Means with bootstrap intervals, and what is missing."""

from __future__ import annotations

import random

import pytest

from ser_toolkit.metrics.intervals import mean_interval


def test_a_missing_value_is_counted_and_never_zero():
    found = mean_interval([1.0, None, 3.0], resamples=500)
    assert (found.value, found.n, found.missing) == (2.0, 2, 1)


def test_nothing_and_one_value_have_no_interval():
    empty, one = mean_interval([None, None]), mean_interval([2.0])
    assert (empty.value, empty.low, empty.n, empty.missing) == (None, None, 0, 2)
    assert (one.value, one.low, one.high) == (2.0, None, None)


def test_the_interval_is_that_of_the_normal_law_for_many_values():
    draw = random.Random(3)
    values = [draw.gauss(10, 2) for _ in range(400)]
    found = mean_interval(values, resamples=4000)
    assert found.value - found.low == pytest.approx(1.96 * 2 / 20, rel=0.15)
    assert found == mean_interval(values, resamples=4000) and found != mean_interval(values, resamples=4000, seed=1)
