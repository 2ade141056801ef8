"""A mean and how sure it is: percentile bootstrap over items. May import numpy and the standard library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
_CHUNK = 512


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of `n` values with its 95 % interval; `missing` more had none. All `None` where n is 0, and the
    interval where n is 1: nothing can be told from one.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    missing: int


def mean_interval(values: Sequence[float | None], *, resamples: int = RESAMPLES, seed: int = 0) -> Mean:
    """The mean of what is there; a missing value is left out and counted, never 0."""
    known = np.array([v for v in values if v is not None], dtype=float)
    missing = len(values) - len(known)
    if not len(known):
        return Mean(None, None, None, 0, missing)
    if len(known) == 1:
        return Mean(float(known[0]), None, None, 1, missing)
    rng = np.random.default_rng(seed)
    means = np.concatenate(
        [
            known[rng.integers(0, len(known), size=(min(_CHUNK, resamples - start), len(known)))].mean(axis=1)
            for start in range(0, resamples, _CHUNK)
        ]
    )
    low, high = np.percentile(means, [2.5, 97.5])
    return Mean(float(known.mean()), float(low), float(high), len(known), missing)
