"""Sequences that grow step by step behind a beginning that they share: no token is ever computed twice.

    lines = Lines(Trunk(model, tree, length, []))
    logps, ends = lines.grown([Line()] * 2, [tail_a, tail_b], [1, 1])     # then ends[0] may grow, or ends[1], or both

What a line does not go on with (other answers, rounds under a wrong assumption) stays among the kept keys, masked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .layout import Tokens, rows_of, tree_of
from .shared_prefix import Trunk, filled, logits_at, mask_of, told_at


@dataclass(frozen=True, slots=True)
class Line:
    """Where a sequence stands behind the trunk: its row of the kept keys, and there the place of each of its tokens."""

    row: int = 0
    places: tuple[int, ...] = ()


class Lines:
    """The kept keys and values of lines, a batch of rows that grows to the right."""

    def __init__(self, trunk: Trunk) -> None:
        self._trunk = trunk
        self._cache: Any = None
        self._width = trunk.length

    def grown(
        self, lines: Sequence[Line], tails: Sequence[Tokens], told: Sequence[int]
    ) -> tuple[list[float], list[Line]]:
        """Each line with its tail: the log-probability of the last `told` tokens of it, and where it then stands.

        A line may stand there several times, with a tail each. What equal lines' tails share is computed once. A tail
        begins with at least one token that is not told. Lines that are not given are given up.
        """
        import torch

        model, heads = self._trunk.model, self._trunk.heads
        groups = {line: number for number, line in enumerate(dict.fromkeys(lines))}
        tree = tree_of(tails, [groups[line] for line in lines])
        line_of = {root: list(groups)[group] for root, group in zip(tree.roots, tree.groups, strict=True)}
        rows = rows_of(tree.roots) if self._cache is None else [[root] for root in tree.roots]
        self._take([line_of[row[0]].row for row in rows])
        kept = torch.zeros(len(rows), self._width, dtype=torch.bool)
        kept[:, : self._trunk.length] = True
        before = torch.zeros(len(tree.tokens), dtype=torch.long)
        place: dict[int, tuple[int, int]] = {}
        for number, row in enumerate(rows):
            at = 0
            for root in row:
                kept[number, list(line_of[root].places)] = True
                before[root.start : root.stop] = self._trunk.length + len(line_of[root].places)
                place |= {i: (number, at + n) for n, i in enumerate(root)}
                at += len(root)
        width = max(sum(map(len, row)) for row in rows)
        answers = [path[len(path) - n :] for path, n in zip(tree.paths, told, strict=True)]
        parents = sorted({tree.parents[i] for answer in answers for i in answer})
        wanted = [i for answer in answers for i in answer]
        rank = {index: number for number, index in enumerate(parents)}
        inputs = {
            "input_ids": filled(torch.tensor(tree.tokens), rows, model.device),
            "attention_mask": mask_of(model, tree, rows, kept),
            "position_ids": filled(self._positions(torch.tensor(tree.depths) + before, heads), rows, model.device),
        }
        flat = torch.tensor([place[i][0] * width + place[i][1] for i in parents], dtype=torch.long)
        logits = logits_at(model, inputs, flat, cache=self._cache, use_cache=True)
        logps = told_at(logits, [rank[tree.parents[i]] for i in wanted], [tree.tokens[i] for i in wanted])
        values = iter(logps.double().tolist())
        sums = [math.fsum(next(values) for _ in answer) for answer in answers]
        ends = [
            Line(place[path[0]][0], (*line.places, *(self._width + place[i][1] for i in path)))
            for line, path in zip(lines, tree.paths, strict=True)
        ]
        self._width += width
        return sums, ends

    def _take(self, rows: Sequence[int]) -> None:
        """Keep these rows, in this order, some perhaps several times."""
        import torch

        if self._cache is None:
            self._cache = self._trunk.expanded(len(rows))
        else:
            self._cache.batch_select_indices(torch.tensor(rows, device=self._trunk.model.device))

    @staticmethod
    def _positions(depths: Any, heads: Any) -> Any:
        """The tokens' positions: their depth, or three axes beyond the trunk's pictures."""
        if not heads:
            return depths
        ((_, beyond),) = heads.values()
        return (depths + beyond).expand(3, -1)
