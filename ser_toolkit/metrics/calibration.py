"""Whether a judge's probabilities mean what they say: reliability by bins, and the expected calibration error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BINS = 10


@dataclass(frozen=True, slots=True)
class Bin:
    """Items whose confidence lies in [low, high): how many, their mean confidence, and the share that is right."""

    low: float
    high: float
    n: int
    confidence: float
    right: float


def reliability(confidences: Sequence[float], right: Sequence[bool], bins: int = BINS) -> list[Bin]:
    """The bins, of equal width over [0, 1], that hold any item; the last one holds 1."""
    held: dict[int, list[int]] = {}
    for i, confidence in enumerate(confidences):
        held.setdefault(min(int(confidence * bins), bins - 1), []).append(i)
    made = []
    for place in sorted(held):
        members = held[place]
        mean = sum(confidences[i] for i in members) / len(members)
        share = sum(bool(right[i]) for i in members) / len(members)
        made.append(Bin(place / bins, (place + 1) / bins, len(members), mean, share))
    return made


def expected_calibration_error(bins: Sequence[Bin]) -> float | None:
    """The mean gap between confidence and share right, weighted by items; `None` without any."""
    whole = sum(b.n for b in bins)
    return sum(b.n * abs(b.confidence - b.right) for b in bins) / whole if whole else None
