"""How scores become one reward. Pure arithmetic; `None` (missing) goes through, and 0 (absent) counts.

Sources: PEER, arXiv 2508.09521, section 4.1; PERM, arXiv 2601.10532.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

Score = float | None
BEST = 5
"""The top of PERM's scale, 1 to 5."""
BYSTANDER_WEIGHT = 0.5
LENGTH_PENALTY, LENGTH_FREE = 0.001, 768
STEP_WEIGHT, PREFERENCE_WEIGHT, FORMAT_WEIGHT = 0.5, 0.5, 1.0

AggregationName = Literal["harmonic", "mean", "weighted_mean", "geometric"]


def harmonic(scores: Sequence[Score]) -> Score:
    """n / sum(5 / s), in [0, 1]: PERM's R_empathy for its three dimensions. 0 where a score is 0 (the limit)."""
    known = _known(scores)
    if known is None or not known:
        return None
    return 0.0 if min(known) == 0 else len(known) / sum(BEST / s for s in known)


def mean(scores: Sequence[Score]) -> Score:
    """The mean of s / 5, in [0, 1]."""
    return weighted_mean(scores, (1.0,) * len(scores))


def weighted_mean(scores: Sequence[Score], weights: Sequence[float]) -> Score:
    """The weighted mean of s / 5. Raises ValueError for weights that are not positive in sum, or of another number."""
    if len(weights) != len(scores) or sum(weights) <= 0 or min(weights) < 0:
        raise ValueError("one weight a score, none negative, and not all zero")
    known = _known(scores)
    if known is None:
        return None
    return sum(w * s / BEST for w, s in zip(weights, known, strict=True)) / sum(weights)


def geometric(scores: Sequence[Score]) -> Score:
    """The geometric mean of s / 5. 0 where a score is 0 (the limit)."""
    known = _known(scores)
    if known is None or not known:
        return None
    return 0.0 if min(known) == 0 else math.exp(sum(math.log(s / BEST) for s in known) / len(known))


def aggregation(name: AggregationName, weights: Sequence[float] = ()) -> Callable[[Sequence[Score]], Score]:
    """The aggregation of that name; `weights` belong to the weighted mean."""
    if name == "weighted_mean":
        return lambda scores: weighted_mean(scores, weights)
    return {"harmonic": harmonic, "mean": mean, "geometric": geometric}[name]


def bystander_term(total: Score, weight: float = BYSTANDER_WEIGHT) -> Score:
    """weight * (total / 100 - 1), in [-weight, 0]; `total` in [0, 100]."""
    return None if total is None else weight * (total / 100 - 1)


def length_term(tokens: int, free: int = LENGTH_FREE, penalty: float = LENGTH_PENALTY) -> float:
    """-penalty * max(0, tokens - free)."""
    return -penalty * max(0, tokens - free)


def peer_reward(steps: Sequence[Score], preference: Score, format_ok: bool) -> Score:
    """0.5 * (s1 + s2 + s3) + 0.5 * preference + 1.0 * format, in [0, 3] (PEER, section 4.1)."""
    if preference is None or any(s is None for s in steps):
        return None
    judged = STEP_WEIGHT * sum(s for s in steps if s is not None) + PREFERENCE_WEIGHT * preference
    return judged + FORMAT_WEIGHT * format_ok


def _known(scores: Sequence[Score]) -> list[float] | None:
    """The scores, or `None` where one is missing."""
    known = [float(s) for s in scores if s is not None]
    return known if len(known) == len(scores) else None
