"""The integer program behind a mix: how many dialogues each cell of scenarios gives, and what is to be invented.

Solved by SciPy's HiGHS, whose answer hangs on nothing but its input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TOLERANCE = 0.1
"""How far a share may be off, relative to itself."""
NODES = 500
"""Branches that the program looks at, at most: a bound that does not hang on the machine's speed."""

Cell = tuple[str | None, ...]
"""What a scenario says in each named dimension, in the mix' own spelling; `None` where the mix does not name it."""


@dataclass(frozen=True, slots=True)
class Solution:
    """`taken`: dialogues by cell; `missing`: scenarios to be invented by dimension and value (`None`: any other)."""

    taken: dict[Cell, int]
    missing: dict[str, dict[str | None, int]]
    is_good: bool
    """Whether every share is met."""


def is_met(made: int, share: float, total: int) -> bool:
    """Whether `made` of `total` are as many as the share asks for, within the tolerance."""
    return abs(made - share * total) <= TOLERANCE * share * total + 1e-9


def whole_numbers(shares: Mapping[str, float], total: int) -> dict[str, int]:
    """How many of `total` each share comes to: by largest remainder, but first those that rounding down would miss."""
    exact = {word: share * total for word, share in shares.items()}
    made = {word: int(value + 1e-9) for word, value in exact.items()}
    left = min(total, round(sum(exact.values()))) - sum(made.values())

    def urgency(word: str) -> tuple[bool, float]:
        down, up = (is_met(made[word] + more, shares[word], total) for more in (0, 1))
        return up and not down, exact[word] - made[word]

    for word in sorted(made, key=urgency, reverse=True)[: max(0, left)]:
        made[word] += 1
    return made


class Program:
    """Minimise 100 * (excess over the tolerance) + deviations + (a little) what is invented, over whole numbers.

    `caps`: dialogues that each cell can give; `targets`: dimension -> word -> share of `total`.
    """

    def __init__(
        self,
        cells: list[Cell],
        caps: list[int],
        targets: Mapping[str, Mapping[str, float]],
        total: int,
        *,
        may_invent: bool,
    ) -> None:
        self.cells, self.caps, self.targets, self.total, self.may_invent = cells, caps, targets, total, may_invent
        self.goals = {(d, word): n for d, shares in targets.items() for word, n in whole_numbers(shares, total).items()}
        self.names = [(d, word) for d, shares in targets.items() for word in shares]
        self.rests = [d for d, shares in targets.items() if sum(shares.values()) < 1 - 1e-6]
        n, k = len(cells), len(self.names)
        self.off, self.excess, self.new = n, n + k, n + 2 * k  # where each kind of variable begins
        self.rest, self.invented = n + 3 * k, n + 3 * k + len(self.rests)
        self.one = self.invented + 1  # fixed at 1: the solver's gap is relative, and shall not be to nothing

    def run(self) -> Solution:
        """As close to the shares as can be had."""
        import numpy as np
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_array

        size = self.one + 1
        rows = self._rows()
        entries = [(i, j, value) for i, (terms, _, _) in enumerate(rows) for j, value in terms.items()]
        at, of, values = zip(*entries, strict=True)
        matrix = coo_array((values, (at, of)), shape=(len(rows), size)).tocsc()
        cost = np.zeros(size)
        cost[self.off : self.excess], cost[self.excess : self.new] = 1, 100
        cost[self.invented], cost[self.one] = 0.5 / self.total, 1
        upper = np.full(size, np.inf)
        upper[: len(self.cells)] = self.caps
        upper[self.invented], upper[self.one] = self.total if self.may_invent else 0, 1
        lower = np.zeros(size)
        lower[self.one] = 1
        whole = np.zeros(size)
        whole[: len(self.cells)] = whole[self.new : self.one] = 1
        bounds: Any = (np.array([r[1] for r in rows]), np.array([r[2] for r in rows]))
        limits: Any = (lower, upper)
        found = milp(
            cost,
            constraints=LinearConstraint(matrix, *bounds),
            bounds=Bounds(*limits),
            integrality=whole,
            options={"node_limit": NODES, "mip_rel_gap": 1e-3},
        )
        if found.x is None:
            raise RuntimeError(f"no draw to the mix was found: {found.message}")
        return self._read([round(v) for v in found.x])

    def _rows(self) -> list[tuple[dict[int, float], float, float]]:
        """Constraints: (variable -> factor, at least, at most)."""
        infinite = float("inf")
        rows: list[tuple[dict[int, float], float, float]] = [
            ({**dict.fromkeys(range(len(self.cells)), 1.0), self.invented: 1.0}, self.total, self.total)
        ]
        where = {d: n for n, d in enumerate(self.targets)}
        for j, (dimension, word) in enumerate(self.names):
            wanted, goal = self.targets[dimension][word] * self.total, self.goals[dimension, word]
            scale = max(wanted, 1.0)
            least, most = wanted * (1 - TOLERANCE), wanted * (1 + TOLERANCE)
            have = {i: 1 / scale for i, cell in enumerate(self.cells) if cell[where[dimension]] == word}
            have[self.new + j] = 1 / scale
            rows.append(({**have, self.off + j: -1.0}, -infinite, goal / scale))
            rows.append(({**have, self.off + j: 1.0}, goal / scale, infinite))
            rows.append(({**have, self.excess + j: -1.0}, -infinite, most / scale))
            rows.append(({**have, self.excess + j: 1.0}, least / scale, infinite))
        for dimension in self.targets:
            parts = {self.new + j: 1.0 for j, (d, _) in enumerate(self.names) if d == dimension}
            if dimension in self.rests:
                parts[self.rest + self.rests.index(dimension)] = 1.0
            rows.append(({**parts, self.invented: -1.0}, 0, 0))
        return rows

    def _read(self, x: Sequence[int]) -> Solution:
        taken = {cell: x[i] for i, cell in enumerate(self.cells) if x[i]}
        missing: dict[str, dict[str | None, int]] = {d: {} for d in self.targets}
        made: Counter[Any] = Counter()
        for j, (dimension, word) in enumerate(self.names):
            missing[dimension][word] = x[self.new + j]
            made[dimension, word] += x[self.new + j]
        for n, dimension in enumerate(self.rests):
            missing[dimension][None] = x[self.rest + n]
        for cell, number in taken.items():
            made.update({(d, word): number for d, word in zip(self.targets, cell, strict=True) if word is not None})
        good = all(is_met(made[d, w], self.targets[d][w], self.total) for d, w in self.names)
        return Solution(taken, missing, good)
