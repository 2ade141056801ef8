"""METHOD's check values, and what missing and absent mean."""

import pytest

from ser_toolkit.rewards.aggregate import (
    aggregation,
    bystander_term,
    geometric,
    harmonic,
    length_term,
    mean,
    peer_reward,
    weighted_mean,
)


def test_perms_check_values():
    assert harmonic([5, 4, 3]) == pytest.approx(0.765957, abs=1e-6)
    assert harmonic([3, 3, 3]) == pytest.approx(0.6)
    assert bystander_term(70) == pytest.approx(-0.15)
    assert length_term(900) == pytest.approx(-0.132)
    assert length_term(768) == 0


def test_other_aggregations():
    assert mean([5, 4, 3]) == pytest.approx(0.8)
    assert weighted_mean([5, 1, 1], (2, 1, 1)) == pytest.approx(0.6)
    assert geometric([5, 5, 5]) == pytest.approx(1.0)
    assert aggregation("weighted_mean", (2, 1, 1))([5, 1, 1]) == pytest.approx(0.6)
    with pytest.raises(ValueError, match="weight"):
        weighted_mean([1, 2], (0, 0))


def test_absent_is_zero_and_missing_stays_missing():
    assert harmonic([0, 5, 5]) == 0 == geometric([0, 5, 5])
    for combine in (harmonic, mean, geometric):
        assert combine([None, 5, 5]) is None
    assert bystander_term(None) is None


def test_peers_reward_is_in_0_to_3():
    assert peer_reward([1, 1, 1], 1, True) == 3
    assert peer_reward([0, 1, 0], 0, False) == 0.5
    assert peer_reward([1, None, 1], 1, True) is None
    assert peer_reward([1, 1, 1], None, True) is None
