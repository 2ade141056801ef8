"""Cluster the profiles by K-Means, k by the elbow of the SSE curve, and draw each speaker another's personality.

Source: PEER, arXiv 2508.09521, section 3. The paper leaves open the range of k (here `rewrite.k_range`, 2 to 10) and
what is clustered (here the four scores; with `rewrite.embed` also what the descriptions say). Seekers are clustered
with seekers and supporters with supporters, since the two talk differently by their role, and each language apart,
since a description is read in its dialogue's language.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ser_toolkit.errors import DataError
from ser_toolkit.seeds import derive_seed

from .records import Centre, Clustering, CurvePoint, Draw, Profile

Curve = Sequence[tuple[int, float]]
_STARTS = 10
_SAME = 1e-9
"""Distances to the chord that differ by less are ties."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """K-Means of some points: `labels` in the order of the points, clusters numbered in the order of their centres."""

    k: int
    curve: tuple[tuple[int, float], ...]
    centres: tuple[tuple[float, ...], ...]
    labels: tuple[int, ...]


def elbow(curve: Curve, low: int) -> int:
    """The k of a curve of (k, SSE), ascending in k, at which more clusters stop to pay; at least `low`.

    Rule: with both axes scaled to [0, 1] by the curve's ends, the point that lies farthest below the chord between
    the ends; of equals the smallest k. Where no point lies below the chord (a straight or flat curve, or too few
    points) there is no elbow, and the smallest k stands.
    """
    candidates = [k for k, _ in curve if k >= low]
    (k_first, sse_first), (k_last, sse_last) = curve[0], curve[-1]
    if k_first == k_last or sse_first <= sse_last:
        return candidates[0]
    best, deepest = candidates[0], _SAME
    for k, sse in curve:
        depth = 1 - (k - k_first) / (k_last - k_first) - (sse - sse_last) / (sse_first - sse_last)
        if k >= low and depth > deepest + _SAME:
            best, deepest = k, depth
    return best


def find_clusters(points: Sequence[Sequence[float]] | np.ndarray, k_range: tuple[int, int], seed: int) -> Clusters:
    """The clusters of `points` (N, D), N > 0: the same for the same points in any order, the same seed.

    The curve begins one before the least k, where that is possible, so that the least k can be the elbow too. There
    are never more clusters than different points (past that many the curve is 0); equal points are in one cluster.
    """
    from threadpoolctl import threadpool_limits

    unique, where, counts = np.unique(
        np.asarray(points, dtype=np.float64), axis=0, return_inverse=True, return_counts=True
    )
    low, high = (min(k, len(unique)) for k in k_range)
    with threadpool_limits(limits=1):  # the order of sums must not hang on the number of cores
        fits = {k: _fit(unique, counts, k, seed) for k in range(max(1, low - 1), high + 1)}
    curve = (*((k, fit[0]) for k, fit in fits.items()), *((k, 0.0) for k in range(high + 1, k_range[1] + 1)))
    _, centres, labels = fits[elbow(curve, low)]
    order = sorted(range(len(centres)), key=lambda c: tuple(centres[c]))
    number = {c: n for n, c in enumerate(order)}
    return Clusters(
        k=len(centres),
        curve=curve,
        centres=tuple(tuple(round(float(x), 6) for x in centres[c]) for c in order),
        labels=tuple(number[int(labels[i])] for i in where.reshape(-1)),
    )


def _fit(points: np.ndarray, counts: np.ndarray, k: int, seed: int) -> tuple[float, np.ndarray, np.ndarray]:
    """(SSE, centres, labels) of the best of some starts."""
    from sklearn.cluster import KMeans

    starts: Any = _STARTS  # sklearn's types know only its "auto"
    model: Any = KMeans(n_clusters=k, n_init=starts, random_state=seed).fit(points, sample_weight=counts)
    return round(float(model.inertia_), 6), model.cluster_centers_, model.labels_


def cluster_profiles(
    profiles: Iterable[Profile], k_range: tuple[int, int], seed: int
) -> tuple[list[Clustering], list[Draw]]:
    """The clusters of each role and language, and what each speaker draws, by profile id. Order in changes nothing."""
    groups: dict[tuple[str, str], list[Profile]] = defaultdict(list)
    for profile in sorted(profiles, key=lambda p: p.id):
        groups[profile.role, profile.lang].append(profile)
    clusterings: list[Clustering] = []
    draws: list[Draw] = []
    for (role, lang), members in sorted(groups.items()):
        found = find_clusters(features_of(members), k_range, derive_seed(seed, "cluster", role, lang))
        clusterings.append(_clustering(members, found))
        draws += draw_profiles(members, found.labels, seed)
    return clusterings, sorted(draws, key=lambda d: d.profile_id)


def features_of(members: Sequence[Profile]) -> np.ndarray:
    """What is clustered, a row for each profile: the scores; where there are embeddings, both, weighing the same.

    Each of the two is scaled so that the squares of its distances to the mean add up to one a profile. Raises
    DataError: embeddings of different sizes.
    """
    scores = np.array([p.scores for p in members], dtype=np.float64)
    sizes = {len(p.embedding) for p in members}
    if sizes == {0}:
        return scores
    if len(sizes) > 1:
        raise DataError(
            f"the embeddings of descriptions have different sizes: {', '.join(map(str, sorted(sizes)))}",
            "is rewrite.embed another model now, under the same name? `ser build --fresh` asks it anew",
        )
    texts = np.array([p.embedding for p in members], dtype=np.float64)
    return np.hstack([_scaled(scores), _scaled(texts)]).round(9)


def _scaled(block: np.ndarray) -> np.ndarray:
    centred = block - block.mean(axis=0)
    spread = np.sqrt(np.square(centred).sum() / len(block))
    return centred / spread if spread > _SAME else np.zeros_like(block)


def draw_profiles(members: Sequence[Profile], labels: Sequence[int], seed: int) -> list[Draw]:
    """For each profile (sorted by id) another of its cluster, never its own; `None` where the cluster has no other.

    Drawn by the seed and the profile's id alone, uniformly.
    """
    clusters: dict[int, list[str]] = defaultdict(list)
    for profile, label in zip(members, labels, strict=True):
        clusters[label].append(profile.id)
    return [
        Draw(
            dialogue_id=profile.dialogue_id,
            role=profile.role,
            lang=profile.lang,
            profile_id=profile.id,
            cluster=label,
            drawn=_another(clusters[label], profile.id, derive_seed(seed, profile.id, "draw")),
        )
        for profile, label in zip(members, labels, strict=True)
    ]


def _another(ids: list[str], own: str, seed: int) -> str | None:
    if len(ids) == 1:
        return None
    at = seed % (len(ids) - 1)
    return ids[at + (at >= bisect_left(ids, own))]


def _clustering(members: Sequence[Profile], found: Clusters) -> Clustering:
    sizes, labels = Counter(found.labels), np.array(found.labels)
    scores = np.array([p.scores for p in members], dtype=np.float64)
    means = [[round(float(x), 6) for x in scores[labels == n].mean(axis=0)] for n in range(found.k)]
    return Clustering(
        role=members[0].role,
        lang=members[0].lang,
        profiles=len(members),
        k=found.k,
        curve=tuple(CurvePoint(k=k, sse=sse) for k, sse in found.curve),
        centres=tuple(
            Centre(cluster=n, size=sizes[n], dominance=c[0], influence=c[1], steadiness=c[2], compliance=c[3])
            for n, c in enumerate(means)
        ),
    )
