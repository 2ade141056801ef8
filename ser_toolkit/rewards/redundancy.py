"""Rewards weighed down by redundancy: what repeats the group or the history is worth less.

    r~_i = r_i / ((1 + tau * s_hi_i) * (1 + tau * s_in_i))          PEER, arXiv 2508.09521, Eqs. 3-5
    tau  = 1 / (1 + exp(-alpha * (L - beta)))

`s_in` is an output's mean cosine with the rest of its group, `s_hi` with the history's utterances, `L` the mean length
of the group's outputs. What the paper leaves open is an option, with the default that METHOD names: negative cosines
count as 0; a similarity that is undefined (a group of one, an empty history) is 0; a negative reward is multiplied by
the divisor, so that redundancy never raises one. DRA-GRPO's r_i / sum_j cos(e_i, e_j) stands beside it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..schema import Lang

Array = npt.NDArray[np.float64]
ALPHA, BETA = 0.5, 5.0
_SPACE = re.compile(r"\s")


def length_of(text: str, lang: Lang) -> int:
    """The length that `tau` is about: words, or characters where words are not spaced (Chinese)."""
    return len(_SPACE.sub("", text)) if lang == "zh" else len(text.split())


def tau(mean_length: float, alpha: float = ALPHA, beta: float = BETA) -> float:
    """How much redundancy counts, in (0, 1): little for short outputs, which cannot help being alike."""
    return float(1 / (1 + np.exp(-alpha * (mean_length - beta))))


def similarity_within(outputs: npt.ArrayLike, *, clip: bool = True) -> Array:
    """s_in, (G,): each output's mean cosine with the others of its group, 0 for a group of one.

    `outputs` (G, d) embeddings of any length. `clip`: a negative cosine counts as 0.
    """
    unit = _unit(outputs)
    group = len(unit)
    if group < 2:
        return np.zeros(group)
    cosines = _cosines(unit, unit, clip)
    return (cosines.sum(axis=1) - np.diagonal(cosines)) / (group - 1)


def similarity_to_history(outputs: npt.ArrayLike, history: npt.ArrayLike, *, clip: bool = True) -> Array:
    """s_hi, (G,): each output's mean cosine with the H utterances of the history (H, d), 0 where there are none."""
    unit, past = _unit(outputs), _unit(history)
    return _cosines(unit, past, clip).mean(axis=1) if len(past) else np.zeros(len(unit))


def reweight(rewards: Sequence[float | None], s_hi: npt.ArrayLike, s_in: npt.ArrayLike, tau: float) -> Array:
    """r~, (G,): the rewards of one group, weighed down; NaN where a reward is missing.

    A positive reward is divided by (1 + tau s_hi)(1 + tau s_in), a negative one multiplied by it.
    """
    r = _rewards(rewards)
    divisor = (1 + tau * np.asarray(s_hi, float)) * (1 + tau * np.asarray(s_in, float))
    return np.where(r < 0, r * divisor, r / divisor)


def reweight_dra(rewards: Sequence[float | None], outputs: npt.ArrayLike) -> Array:
    """DRA-GRPO: r_i / sum_j cos(e_i, e_j), the sum over the whole group with i itself; negative cosines count as 0.

    Negative rewards are multiplied, as above.
    """
    r = _rewards(rewards)
    unit = _unit(outputs)
    density = np.maximum(_cosines(unit, unit, clip=True).sum(axis=1), 1.0)
    return np.where(r < 0, r * density, r / density)


def _rewards(rewards: Sequence[float | None]) -> Array:
    return np.array([np.nan if r is None else r for r in rewards], float)


def _unit(vectors: npt.ArrayLike) -> Array:
    """Rows of length 1; a zero row stays zero and is like nothing. (0,) becomes (0, 0)."""
    array: Any = np.asarray(vectors, float)
    if array.size == 0:
        return np.zeros((len(array), 0))
    norms = np.linalg.norm(array, axis=1, keepdims=True)
    return np.divide(array, norms, out=np.zeros_like(array), where=norms > 0)


def _cosines(left: Array, right: Array, clip: bool) -> Array:
    """(G, H) cosines in [-1, 1], or [0, 1] where negative ones count as 0."""
    cosines = np.clip(left @ right.T if left.shape[1] else np.zeros((len(left), len(right))), -1.0, 1.0)
    return np.maximum(cosines, 0.0) if clip else cosines
