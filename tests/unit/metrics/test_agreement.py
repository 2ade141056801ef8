"""Against the published examples, FIELD_CASES C7, and what must hold for any ratings."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ser_toolkit.metrics.agreement import cohen_kappa, fleiss_kappa, krippendorff_alpha, raw_agreement
from ser_toolkit.metrics.exact import binomial_two_sided, fisher_two_sided

# The table printed in the literature after Fleiss 1971: 10 subjects, 14 raters, 5 categories; kappa 0.210.
FLEISS = (
    (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
    (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
)  # fmt: skip

# Krippendorff 2011, section C: four observers, twelve units, some missing; nominal alpha 0.743.
_ = None
KRIPPENDORFF = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3),
    (_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _),
)


def test_fleiss_example():
    ratings = [[label for label, n in enumerate(row) for _ in range(n)] for row in FLEISS]
    found = fleiss_kappa(ratings)
    assert found.value == pytest.approx(0.20993, abs=1e-5)
    assert found.raw == pytest.approx(0.37802, abs=1e-5)
    assert found.shares == pytest.approx({"0": 20 / 140, "1": 28 / 140, "2": 39 / 140, "3": 21 / 140, "4": 32 / 140})
    assert found.low < found.value < found.high


def test_krippendorff_example():
    found = krippendorff_alpha(list(zip(*KRIPPENDORFF, strict=True)))
    assert found.value == pytest.approx(0.743421, abs=1e-6)
    assert (found.items, found.ratings) == (11, 40), "the unit with a single value is no pair"


def test_krippendorff_two_observers_without_missing():
    """The paper's sections A and B: 10 units, binary, alpha 0.095; and 12 articles of five categories, alpha 0.692."""
    meg = (0, 1, 0, 0, 0, 0, 0, 0, 1, 0)
    owen = (1, 1, 1, 0, 0, 1, 0, 0, 0, 0)
    assert krippendorff_alpha(list(zip(meg, owen, strict=True))).value == pytest.approx(0.095, abs=5e-4)
    ben, gerry = "aabbdcccedda", "babbbccceddd"
    assert krippendorff_alpha(list(zip(ben, gerry, strict=True))).value == pytest.approx(0.692, abs=5e-4)


def test_cohen_example():
    """The two-by-two table of many textbooks: 20 yes-yes, 5, 10, 15 no-no; observed 0.7, expected 0.5, kappa 0.4."""
    ratings = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    found = cohen_kappa([*ratings, ("y", None), (None, None)])
    assert (found.value, found.raw, found.items) == (pytest.approx(0.4), 0.7, 50)
    assert 0.1 < found.low < 0.4 < found.high < 0.7


def test_c7_missing_is_no_category():
    found = krippendorff_alpha([[1, 1, None], [0, 0, 0], [1, None, 1], [None, 1, None]])
    assert (found.value, found.ratings, found.items) == (1.0, 7, 3)


def test_c7_one_category_is_undefined():
    for measure in (krippendorff_alpha, fleiss_kappa, cohen_kappa):
        found = measure([["ok", "ok"]] * 3)
        assert (found.value, found.low, found.high, found.raw) == (None, None, None, 1.0)
        assert "one category" in found.reason


def test_c7_unequal_shares_are_noted():
    found = krippendorff_alpha([["ok", "ok"], ["ok", "ok"], ["ok", "bad"], ["ok", "ok"]])
    assert (found.value, found.raw) == (pytest.approx(0.0), 0.75)
    assert "87.5%" in found.note and "'ok'" in found.note


def test_c7_ties_are_a_category():
    found = krippendorff_alpha([["A", "A"], ["B", "B"], ["tie", "A"], ["tie", "tie"]])
    assert found.value == pytest.approx(0.667, abs=5e-4)


def test_c7_one_side_six_times():
    assert binomial_two_sided(6, 6) == pytest.approx(0.03125)
    assert binomial_two_sided(3, 6) == 1.0
    assert binomial_two_sided(0, 0) is None


def test_fisher_tea():
    """Fisher's tea: three of four told right; one-sided 0.243, two-sided 0.486."""
    assert fisher_two_sided(3, 1, 1, 3) == pytest.approx(0.485714, abs=1e-6)
    assert fisher_two_sided(0, 0, 1, 3) is None


def test_nothing_to_compare():
    found = krippendorff_alpha([[1, None], [None, None]])
    assert (found.value, found.raw, found.reason) == (None, None, "no item has two ratings")
    assert raw_agreement([]) is None
    with pytest.raises(ValueError, match="as many of each"):
        fleiss_kappa([[1, 1], [1, 1, 0]])


LABELS = st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=30), st.randoms())
def test_order_of_raters_and_items_never_matters(ratings, random):
    turned = [tuple(random.sample(r, 2)) for r in random.sample(ratings, len(ratings))]
    for measure in (krippendorff_alpha, fleiss_kappa):
        one, two = measure(ratings, resamples=0), measure(turned, resamples=0)
        assert (one.value is None) == (two.value is None)
        if one.value is not None:
            assert math.isclose(one.value, two.value, abs_tol=1e-9) and one.value <= 1 + 1e-9


@given(st.lists(st.lists(st.one_of(st.none(), LABELS), min_size=3, max_size=3), max_size=20))
def test_alpha_equals_its_definition_pair_by_pair(ratings):
    """Observed and expected disagreement by plain loops over pairs of values."""
    units = [[r for r in row if r is not None] for row in ratings]
    units = [u for u in units if len(u) >= 2]
    values = [v for u in units for v in u]
    n = len(values)
    differing = sum(a != b for i, a in enumerate(values) for j, b in enumerate(values) if i != j)
    found = krippendorff_alpha(ratings, resamples=0)
    if not differing:
        assert found.value is None
        return
    observed = sum(
        sum(a != b for i, a in enumerate(u) for j, b in enumerate(u) if i != j) / (len(u) - 1) for u in units
    )
    assert found.value == pytest.approx(1 - (observed / n) / (differing / (n * (n - 1))))


def test_interval_is_repeatable_and_holds_the_truth_most_often():
    """Two raters who agree by a known rule: 80 % copies, 20 % fair coins give kappa 0.8."""
    import random

    hits = 0
    for trial in range(40):
        draw = random.Random(trial)
        ratings = []
        for _ in range(120):
            a = draw.choice("xy")
            ratings.append((a, a if draw.random() < 0.8 else draw.choice("xy")))
        found = cohen_kappa(ratings, resamples=400)
        assert found == cohen_kappa(ratings, resamples=400)
        hits += found.low <= 0.8 <= found.high
    assert hits >= 33
