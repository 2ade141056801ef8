"""How varied texts are: distinct-n, self-BLEU, distance of embeddings.

Each function takes units (`units.split_units`) or vectors and is told nothing of files. Drawing a sample is its
caller's affair; `draw` is the one way of doing so. May import: numpy, polars.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

import numpy as np
import polars as pl

MAX_N = 4
"""Self-BLEU is BLEU-4."""
_PLACES = np.random.default_rng(20601).integers(0, 2**63, 8, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
"""An n-gram is told by 64 bits: the hashes of its units, each times the factor of its place, wrapping around."""
FLOOR = 0.1
"""What stands for no match of an order in self-BLEU, as in the field's usual smoothing."""


def draw(count: int, size: int, seed: int) -> list[int]:
    """`size` different positions below `count` (all, where there are fewer), ascending: the same for the same seed."""
    if count <= size:
        return list(range(count))
    return sorted(np.random.default_rng(seed).choice(count, size=size, replace=False).tolist())


def distinct_n(units: pl.Series, orders: Sequence[int] = (1, 2, 3)) -> dict[int, float | None]:
    """Order n -> different n-grams / all n-grams, within texts; `None` where no text has n units.

    The share falls as a corpus grows: compare it on samples of one size. Source: Li et al., arXiv 1510.03055.
    """
    rows = pl.DataFrame({"unit": units}).with_row_index("row").explode("unit", empty_as_null=True).drop_nulls()
    row, hashes = rows["row"].to_numpy(), rows["unit"].hash().to_numpy()
    found: dict[int, float | None] = dict.fromkeys(orders)
    grams, inside = np.zeros(len(hashes), dtype=np.uint64), np.ones(len(hashes), dtype=bool)
    for n in range(1, min(max(orders), len(hashes)) + 1):
        end = slice(n - 1, None)  # the n-gram that begins at i ends n - 1 units on, in the same text
        size = len(hashes) - n + 1
        grams = grams[:size] + hashes[end] * _PLACES[n - 1]
        inside = inside[:size] & (row[:size] == row[end])
        total = int(inside.sum())
        if n in orders and total:
            found[n] = pl.Series(grams[inside]).n_unique() / total
    return found


def self_bleu(texts: Sequence[Sequence[str]]) -> float | None:
    """Mean BLEU-4 of each text with all others as its references, in [0, 1]: high where texts repeat one another.

    Texts without units do not count; `None` for fewer than two. Sentence BLEU: an order with no match counts FLOOR
    matches, orders longer than the text do not count, the closest reference length. Linear in the units: the references
    of a text are all others, so two greatest counts of each n-gram are enough. Source: Zhu et al., arXiv 1802.01886.
    """
    texts = [t for t in texts if t]
    if len(texts) < 2:
        return None
    logs, orders = np.zeros(len(texts)), np.zeros(len(texts))
    matched_any = np.zeros(len(texts), dtype=bool)
    for n in range(1, MAX_N + 1):
        counts = [Counter(zip(*(t[i:] for i in range(n)), strict=False)) for t in texts]
        best = _two_greatest(counts)
        for i, own in enumerate(counts):
            total = sum(own.values())
            if total:
                matches = sum(min(c, best[g][1] if best[g][2] == i else best[g][0]) for g, c in own.items())
                matched_any[i] |= matches > 0
                logs[i] += math.log(max(matches, FLOOR) / total)
                orders[i] += 1
    lengths = [len(t) for t in texts]
    scores = np.exp(logs / orders) * matched_any * np.array(_brevity(lengths))
    return float(scores.mean())


def _two_greatest(counts: Sequence[Counter[tuple[str, ...]]]) -> dict[tuple[str, ...], tuple[int, int, int]]:
    """N-gram -> (greatest count in one text, the greatest in any other text, which text has the greatest)."""
    best: dict[tuple[str, ...], tuple[int, int, int]] = {}
    for i, own in enumerate(counts):
        for gram, c in own.items():
            first, second, owner = best.get(gram, (0, 0, -1))
            best[gram] = (c, first, i) if c > first else (first, max(second, c), owner)
    return best


def _brevity(lengths: Sequence[int]) -> list[float]:
    """The brevity penalty of each text: its closest reference length is among its neighbours by length."""
    ordered = sorted(lengths)
    penalties = []
    for own in lengths:
        at = bisect_left(ordered, own)
        if at + 1 < len(ordered) and ordered[at + 1] == own:
            penalties.append(1.0)
            continue
        around = [ordered[j] for j in (at - 1, at + 1) if 0 <= j < len(ordered)]
        reference = min(around, key=lambda r: (abs(r - own), r))
        penalties.append(1.0 if own >= reference else math.exp(1 - reference / own))
    return penalties


def embedding_diversity(vectors: np.ndarray) -> float | None:
    """Mean cosine distance (0 to 2) over all pairs of (N, D) vectors; `None` for fewer than two that are not zero."""
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
    unit = vectors[norms > 0] / norms[norms > 0, None]
    n = len(unit)
    if n < 2:
        return None
    return float(1 - (np.square(unit.sum(axis=0)).sum() - n) / (n * (n - 1)))
