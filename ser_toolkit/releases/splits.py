"""Leak-free splits: where a dialogue belongs, and which dialogues are copies of one another.

A split is a stable hash of the root id, so a rewrite stands with its original and nothing ever moves. Copies
(the same opening, or nearly the same text) that hash to different splits stay only in the strictest one. May
import: the vocabulary, near_duplicates, numpy.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ser_toolkit.near_duplicates import NEAR, PERMUTATIONS, opening_key, said_in, sketch
from ser_toolkit.schema import Dialogue

SPLITS = ("train", "validation", "test")
"""From the laxest to the strictest: of copies in several splits, those in the strictest stay."""

Ratios = tuple[float, float, float]

_BANDS = 16  # of each sketch; dialogues that agree in a whole band are compared


def split_of(root_id: str, ratios: Ratios) -> str:
    """The split of everything that descends from `root_id`: the same for the same id and ratios, for ever."""
    point = int.from_bytes(hashlib.sha256(root_id.encode()).digest()[:8]) / 2**64
    _, validation, test = ratios
    if point < test:
        return "test"
    return "validation" if point < test + validation else "train"


@dataclass(frozen=True, slots=True)
class Group:
    """Dialogues that must not be split, and why: "same opening", "near duplicate", "same root"."""

    ids: tuple[str, ...]
    reasons: tuple[str, ...]
    opening: str


@dataclass(frozen=True, slots=True)
class LeakReport:
    """All groups of a set of dialogues; `straddling` are those that lie in more than one split."""

    groups: int
    dialogues: int
    straddling: tuple[Group, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.groups} groups / {self.dialogues} dialogues, {len(self.straddling)} straddle splits"]
        lines += [f"  {', '.join(g.ids)}: {', '.join(g.reasons)}: {g.opening!r}" for g in self.straddling]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Copy:
    """A dialogue left out of its split, since a stricter split holds `like`."""

    id: str
    split: str
    like: str
    like_split: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """The split of every dialogue that stays, and the copies that do not."""

    splits: Mapping[str, str]
    copies: tuple[Copy, ...]
    report: LeakReport


def assign_splits(dialogues: Iterable[Dialogue], ratios: Ratios) -> Assignment:
    """Give each dialogue its split, and leave out the copies that would leak. One pass; about 1 kB a dialogue
    is held.
    """
    roots: list[str] = []

    def noting_roots() -> Iterator[Dialogue]:
        for dialogue in dialogues:
            roots.append(dialogue.root_id)
            yield dialogue

    index = _Index(noting_roots())
    splits = {i: split_of(root, ratios) for i, root in zip(index.ids, roots, strict=True)}
    straddling = index.straddling(splits)
    copies: list[Copy] = []
    for group in straddling:
        strictest = max((splits[i] for i in group.ids), key=SPLITS.index)
        kept = next(i for i in group.ids if splits[i] == strictest)
        for i in group.ids:
            if splits[i] != strictest:
                copies.append(Copy(i, splits.pop(i), kept, strictest, group.reasons))
    return Assignment(splits, tuple(copies), LeakReport(index.count, len(index.ids), straddling))


def check_leakage(dialogues: Iterable[Dialogue], splits: Mapping[str, str]) -> LeakReport:
    """What a given split would leak: every group whose dialogues (by id in `splits`) lie in more than one
    split.
    """
    index = _Index(d for d in dialogues if d.id in splits)
    return LeakReport(index.count, len(index.ids), index.straddling(splits))


class _Index:
    """Dialogues joined into groups (union-find) by root, opening, and MinHash bands, each hit verified."""

    def __init__(self, dialogues: Iterable[Dialogue]) -> None:
        self.ids: list[str] = []
        self._parent: list[int] = []
        self._reasons: dict[int, set[str]] = defaultdict(set)
        self._openings: list[str] = []
        first: dict[bytes, int] = {}
        signatures = array("I")
        for n, dialogue in enumerate(dialogues):
            self.ids.append(dialogue.id)
            self._parent.append(n)
            opening = opening_key(dialogue)
            self._openings.append(opening[:80])
            for reason, key in (("same root", dialogue.root_id), ("same opening", opening)):
                if key:
                    seen = first.setdefault(hashlib.blake2b(f"{reason} {key}".encode(), digest_size=12).digest(), n)
                    self._join(seen, n, reason)
            signatures.extend(sketch(said_in(dialogue), dialogue.id))
        self._join_near(np.frombuffer(signatures, dtype=np.uint32).reshape(-1, PERMUTATIONS))
        self._groups: dict[int, list[int]] = defaultdict(list)
        for n in range(len(self.ids)):
            self._groups[self._root(n)].append(n)

    @property
    def count(self) -> int:
        return len(self._groups)

    def straddling(self, splits: Mapping[str, str]) -> tuple[Group, ...]:
        return tuple(
            Group(
                tuple(self.ids[n] for n in members),
                tuple(sorted(self._reasons[root])),
                self._openings[members[0]],
            )
            for root, members in self._groups.items()
            if len({splits[self.ids[n]] for n in members}) > 1
        )

    def _join_near(self, signatures: np.ndarray) -> None:
        """In each band, sorted, equal neighbours and the first of each run are compared: near-linear,
        whatever repeats.
        """
        width = PERMUTATIONS // _BANDS
        for band in range(_BANDS if len(signatures) > 1 else 0):
            part = np.ascontiguousarray(signatures[:, band * width : (band + 1) * width])
            keys = part.view(np.dtype((np.void, part.itemsize * width))).ravel()
            order = np.argsort(keys, kind="stable")
            start = int(order[0])
            for before, here in pairwise(order.tolist()):
                if keys[before] != keys[here]:
                    start = here
                    continue
                for other in {before, start}:
                    if np.mean(signatures[other] == signatures[here]) >= NEAR:
                        self._join(other, here, "near duplicate")

    def _root(self, n: int) -> int:
        while self._parent[n] != n:
            self._parent[n] = self._parent[self._parent[n]]
            n = self._parent[n]
        return n

    def _join(self, a: int, b: int, reason: str) -> None:
        if a == b:
            return
        low, high = sorted((self._root(a), self._root(b)))
        self._parent[high] = low
        self._reasons[low] |= self._reasons.pop(high, set()) | {reason}
