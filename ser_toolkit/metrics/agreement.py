"""Agreement between raters on nominal labels: Fleiss' kappa, Cohen's kappa, Krippendorff's alpha.

A rating that is missing is missing: "not annotated" is no category. A coefficient that the data do not define is `None`
with the reason, never 0 or 1. Raw agreement and the shares of the labels stand beside every coefficient, since a rare
label makes coefficients low where raters hardly differ. Intervals are percentiles of a bootstrap over items.

Written here because the package for alpha is under the GPL; checked in the tests against the published examples.

Sources: Fleiss 1971 (Psychological Bulletin 76:378); Cohen 1960 (Educational and Psychological Measurement 20:37);
Krippendorff 2011 (Computing Krippendorff's Alpha-Reliability).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Ratings = Sequence[Sequence[Hashable | None]]
"""A row an item, a rating a place; `None` is missing. Rows may differ in length, but for Cohen's two raters."""

Floats = NDArray[np.float64]
RESAMPLES = 2_000
SKEWED = 0.8
"""A label with this share of all ratings makes a coefficient say little."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """One coefficient. `value` is `None` where it is undefined, and `reason` then says why.

    `low` and `high` bound the central 95 % of the bootstrap. `raw` is the share of agreeing pairs of ratings of one
    item, averaged over items; `shares` each label's share of the ratings that count; `items` and `ratings` are those
    that could be compared; `note` is a caution for the reader, or "".
    """

    name: Literal["fleiss", "cohen", "alpha"]
    value: float | None
    low: float | None
    high: float | None
    raw: float | None
    shares: dict[str, float]
    items: int
    ratings: int
    reason: str = ""
    note: str = ""


def krippendorff_alpha(ratings: Ratings, *, resamples: int = RESAMPLES, seed: int = 0) -> Agreement:
    """Nominal alpha over any number of raters, items with fewer than two ratings left out."""
    counts, labels = _counts(ratings)
    return _coefficient("alpha", counts[counts.sum(1) >= 2], labels, _alpha, resamples, seed)


def fleiss_kappa(ratings: Ratings, *, resamples: int = RESAMPLES, seed: int = 0) -> Agreement:
    """Kappa over items that all have the same number of ratings. Raises ValueError where they do not.

    Items without any rating are left out.
    """
    counts, labels = _counts(ratings)
    counts = counts[counts.sum(1) > 0]
    sizes = set(counts.sum(1).tolist())
    if len(sizes) > 1 or sizes == {1.0}:
        raise ValueError(
            f"Fleiss' kappa wants two or more ratings of each item, as many of each; found {sorted(sizes)}"
        )
    return _coefficient("fleiss", counts, labels, _fleiss, resamples, seed)


def cohen_kappa(ratings: Ratings, *, resamples: int = RESAMPLES, seed: int = 0) -> Agreement:
    """Kappa of two raters, one a column; items that one of them did not rate are left out."""
    pairs = [(a, b) for a, b in ratings if a is not None and b is not None]
    counts, labels = _counts(pairs)
    first = _one_hot([a for a, _ in pairs], labels)
    second = _one_hot([b for _, b in pairs], labels)
    return _coefficient("cohen", counts, labels, lambda c, w: _cohen(first, second, w), resamples, seed)


def raw_agreement(ratings: Ratings) -> float | None:
    """The share of agreeing pairs within an item, averaged over items with two or more ratings."""
    counts, _ = _counts(ratings)
    return _raw(counts[counts.sum(1) >= 2])


# Each coefficient takes counts (items, labels) and weights (resamples, items), and gives (resamples,): NaN, undefined.


def _alpha(counts: Floats, weights: Floats) -> Floats:
    sizes = counts.sum(1)
    disagreeing = (sizes**2 - (counts**2).sum(1)) / (sizes - 1)
    total = weights @ sizes
    by_label = weights @ counts
    observed = weights @ disagreeing / total
    expected = (total**2 - (by_label**2).sum(1)) / (total * (total - 1))
    return 1 - _divided(observed, expected)


def _fleiss(counts: Floats, weights: Floats) -> Floats:
    size = counts[0].sum()
    agreeing = ((counts**2).sum(1) - size) / (size * (size - 1))
    items = weights.sum(1)
    observed = weights @ agreeing / items
    expected = ((weights @ counts / (items * size)[:, None]) ** 2).sum(1)
    return 1 - _divided(1 - observed, 1 - expected)


def _cohen(first: Floats, second: Floats, weights: Floats) -> Floats:
    items = weights.sum(1)
    observed = weights @ (first * second).sum(1) / items
    expected = ((weights @ first) * (weights @ second)).sum(1) / items**2
    return 1 - _divided(1 - observed, 1 - expected)


def _divided(above: Floats, below: Floats) -> Floats:
    """The quotient; NaN where there is nothing to divide by."""
    usable = below > 1e-12
    return np.divide(above, below, out=np.full_like(above, np.nan), where=usable)


def _coefficient(
    name: Literal["fleiss", "cohen", "alpha"], counts: Floats, labels: list[str], compute, resamples: int, seed: int
) -> Agreement:
    items, ratings = len(counts), int(counts.sum())
    if not items:
        return Agreement(name, None, None, None, None, {}, 0, 0, reason="no item has two ratings")
    shares = {label: float(n / ratings) for label, n in zip(labels, counts.sum(0), strict=True) if n}
    raw = _raw(counts)
    value = float(compute(counts, np.ones((1, items)))[0])
    if len(shares) < 2 or np.isnan(value):
        reason = (
            f"one category: every rating is {next(iter(shares))!r}" if len(shares) < 2 else "no chance disagreement"
        )
        return Agreement(name, None, None, None, raw, shares, items, ratings, reason=reason)
    low, high = _interval(counts, compute, resamples, seed)
    return Agreement(name, value, low, high, raw, shares, items, ratings, note=_note(shares, raw, value))


def _interval(counts: Floats, compute, resamples: int, seed: int) -> tuple[float | None, float | None]:
    """Of the resamples that define the coefficient; none at all for a single item."""
    items = len(counts)
    if items < 2 or resamples < 1:
        return None, None
    draw = np.random.default_rng(seed)
    found: list[Floats] = []
    step = max(1, min(resamples, 20_000_000 // items))  # bounds the memory
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        weights = draw.multinomial(items, np.full(items, 1 / items), size=size).astype(np.float64)
        found.append(compute(counts, weights))
    values = np.concatenate(found)
    values = values[~np.isnan(values)]
    if not len(values):
        return None, None
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def _note(shares: dict[str, float], raw: float | None, value: float) -> str:
    label, share = max(shares.items(), key=lambda s: s[1])
    if share >= SKEWED:
        return (
            f"{share:.1%} of the ratings are {label!r}: with shares so unequal a coefficient says little; "
            f"raw agreement is {raw:.2f}, the coefficient {value:.2f}"
        )
    return ""


def _raw(counts: Floats) -> float | None:
    sizes = counts.sum(1)
    if not len(sizes):
        return None
    return float((((counts**2).sum(1) - sizes) / (sizes * (sizes - 1))).mean())


def _counts(ratings: Ratings) -> tuple[Floats, list[str]]:
    """(items, labels) of how often each label was given, and the labels' names."""
    rows = [[str(r) for r in row if r is not None] for row in ratings]
    labels = sorted({r for row in rows for r in row})
    place = {label: i for i, label in enumerate(labels)}
    counts = np.zeros((len(rows), len(labels)))
    for i, row in enumerate(rows):
        for r in row:
            counts[i, place[r]] += 1
    return counts, labels


def _one_hot(ratings: Sequence[Hashable], labels: list[str]) -> Floats:
    return np.array([[float(str(r) == label) for label in labels] for r in ratings]).reshape(len(ratings), len(labels))
