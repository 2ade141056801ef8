"""Weighted F1, recall, accuracy: scikit-learn's values; intervals; the paired test."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, recall_score

from ser_toolkit.metrics.classification import accuracy, interval, paired_difference, recall_of, weighted_f1

CLASSES = ("a", "b", "c")
items = st.lists(st.tuples(st.sampled_from(CLASSES), st.sampled_from(CLASSES)), min_size=1, max_size=40)


@given(items)
def test_values_are_scikit_learns(pairs):
    true, predicted = zip(*pairs, strict=True)
    few = {"resamples": 20}
    f1 = f1_score(true, predicted, labels=CLASSES, average="weighted", zero_division=0)
    assert interval(true, predicted, CLASSES, weighted_f1, **few).value == pytest.approx(f1)
    assert interval(true, predicted, CLASSES, accuracy, **few).value == pytest.approx(accuracy_score(true, predicted))
    recall = interval(true, predicted, CLASSES, recall_of(1), **few).value
    if "b" in true:
        expected = recall_score(true, predicted, labels=["b"], average="macro", zero_division=0)
        assert recall == pytest.approx(expected)
    else:
        assert recall is None


def test_a_missing_prediction_is_left_out_and_counted_by_n():
    found = interval(["a", "b", "a"], ["a", None, "b"], CLASSES, accuracy)
    assert found.value == 0.5 and found.n == 2
    assert interval([], [], CLASSES, accuracy).value is None


def test_the_interval_holds_the_binomial_one():
    found = interval(["a"] * 400, ["a"] * 300 + ["b"] * 100, CLASSES, accuracy)
    assert found.low == pytest.approx(0.7076, abs=0.01) and found.high == pytest.approx(0.7924, abs=0.01)


def test_a_paired_difference_is_sure_where_one_model_is_always_better():
    true = ["a", "b"] * 100
    found = paired_difference(true, true, ["a"] * 200, CLASSES, accuracy)
    assert found.value == 0.5 and found.p < 0.01 and found.low > 0.3
    same = paired_difference(true, true, true, CLASSES, accuracy)
    assert same.value == 0 and same.p == 1.0


def test_an_unknown_class_is_an_error():
    with pytest.raises(ValueError, match="none of the classes"):
        interval(["x"], ["a"], CLASSES, accuracy)
