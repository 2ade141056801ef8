"""Scores of classifications, with bootstrap intervals and a paired test of two models.

Weighted F1 and recall are scikit-learn's definitions, computed from a confusion table, and the tables of bootstrap
samples are drawn as such: ten thousand resamples take milliseconds, whatever the number of items. What is undefined (a
class that does not occur) is `None` with no number in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

RESAMPLES = 10_000
_CHUNK = 500


Codes = npt.NDArray[np.int64]
Metric = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
"""Confusion tables (R, K, K), rows true and columns predicted -> (R,) values; NaN where undefined."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with the 2.5 and 97.5 percentiles of its bootstrap, and over how many items; `None` where undefined."""

    value: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Difference:
    """first - second on the same items: value, interval, and the two-sided bootstrap p of no difference."""

    value: float | None
    low: float | None
    high: float | None
    p: float | None
    n: int


def weighted_f1(tables: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The classes' F1, weighted by how often each is true."""
    hit = np.diagonal(tables, axis1=1, axis2=2)
    true, predicted = tables.sum(axis=2), tables.sum(axis=1)
    f1 = _ratio(2 * hit, true + predicted, 0.0)
    return _ratio((f1 * true).sum(axis=1), true.sum(axis=1))


def accuracy(tables: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The share of items that are right."""
    return _ratio(np.trace(tables, axis1=1, axis2=2), tables.sum(axis=(1, 2)))


def recall_of(index: int) -> Metric:
    """Recall of one class (by its place among the classes): of the items that are it, the share that is found."""
    return lambda tables: _ratio(tables[:, index, index], tables[:, index].sum(axis=1))


def interval(
    true: Sequence[Hashable],
    predicted: Sequence[Hashable],
    classes: Sequence[Hashable],
    metric: Metric,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """The metric over the items whose prediction is not missing, with a 95 % bootstrap interval (0 resamples: none)."""
    t, p = _codes(true, predicted, classes)
    k = len(classes)
    cells = np.bincount(t * k + p, minlength=k * k)
    value = _number(metric(_float(cells, (1, k, k)))[0]) if len(t) else None
    if value is None:
        return Interval(None, None, None, len(t))
    low, high = _ends(metric(_float(_redrawn(cells, resamples, seed), (-1, k, k))))
    return Interval(value, low, high, len(t))


def paired_difference(
    true: Sequence[Hashable],
    first: Sequence[Hashable],
    second: Sequence[Hashable],
    classes: Sequence[Hashable],
    metric: Metric,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:
    """Two models on the items that both answered, resampled together."""
    both = [i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a is not None and b is not None]
    truth = [true[i] for i in both]
    t, p = _codes(truth, [first[i] for i in both], classes)
    _, q = _codes(truth, [second[i] for i in both], classes)
    k = len(classes)
    if not len(t):
        return Difference(None, None, None, None, 0)
    cells = np.bincount((t * k + p) * k + q, minlength=k**3)

    def differences(drawn: Codes) -> npt.NDArray[np.float64]:
        tables = _float(drawn, (-1, k, k, k))
        return metric(tables.sum(axis=3)) - metric(tables.sum(axis=2))

    value = _number(differences(cells)[0])
    if value is None:
        return Difference(None, None, None, None, len(t))
    draws = differences(_redrawn(cells, resamples, seed))
    draws = draws[~np.isnan(draws)]
    low, high = _ends(draws)
    p_value = float(min(1.0, 2 * min((draws <= 0).mean(), (draws >= 0).mean()))) if len(draws) else None
    return Difference(value, low, high, p_value, len(t))


def mean_interval(values: Sequence[float | None], *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """The mean of the values that are not missing, with a 95 % bootstrap interval."""
    known = np.array([v for v in values if v is not None], float)
    if not len(known):
        return Interval(None, None, None, 0)
    rng = np.random.default_rng(seed)
    sizes = [min(_CHUNK, resamples - start) for start in range(0, resamples, _CHUNK)]
    draws = [known[rng.integers(0, len(known), (size, len(known)))].mean(axis=1) for size in sizes]
    low, high = _ends(np.concatenate(draws)) if draws else (None, None)
    return Interval(float(known.mean()), low, high, len(known))


def _codes(true: Sequence[Hashable], predicted: Sequence[Hashable], classes: Sequence[Hashable]) -> tuple[Codes, Codes]:
    """Both as class numbers, without the items whose prediction is missing. Raises ValueError for an unknown class."""
    place = {c: i for i, c in enumerate(classes)}
    try:
        pairs = [(place[t], place[p]) for t, p in zip(true, predicted, strict=True) if p is not None]
    except KeyError as exc:
        raise ValueError(f"{exc.args[0]!r} is none of the classes {list(classes)}") from exc
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _redrawn(cells: Codes, resamples: int, seed: int) -> Codes:
    """(R, cells) counts of bootstrap samples: drawing items anew is drawing how many fall into each cell."""
    whole = int(cells.sum())
    return np.random.default_rng(seed).multinomial(whole, cells / whole, size=resamples)


def _float(counts: Codes, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    return counts.astype(float).reshape(shape)


def _ratio(above: npt.NDArray[np.float64], below: npt.NDArray[np.float64], empty: float = np.nan):
    return np.divide(above, below, out=np.full(np.shape(above), empty, dtype=float), where=below > 0)


def _ends(draws: npt.NDArray[np.float64]) -> tuple[float | None, float | None]:
    draws = draws[~np.isnan(draws)]
    if not len(draws):
        return None, None
    low, high = np.percentile(draws, [2.5, 97.5])
    return float(low), float(high)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
