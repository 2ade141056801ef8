"""Sequences that share beginnings, each token once: trees of tokens, laid out as rows that a model reads in one pass.

In depth-first order a token is seen by exactly the tokens of its own subtree, which stand right behind it: `ends` says
how far. So a row of the tree needs positions by depth and a mask, and gives each sequence what it would get alone.
Pure: no torch here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

Tokens = Sequence[int]


@dataclass(frozen=True, slots=True)
class Tree:
    """Tokens in depth-first order. By token: `parents` (the index of the one before, -1 at a root), `depths` (its
    position in its sequences), `ends` (one past the last token that sees it). `paths`: by sequence, where its tokens
    stand.

    `roots` are the trees in it, as ranges of tokens; `groups` say of each root whose sequences stand there.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    depths: tuple[int, ...]
    ends: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]
    roots: tuple[range, ...]
    groups: tuple[int, ...]


def tree_of(sequences: Sequence[Tokens], groups: Sequence[int] | None = None) -> Tree:
    """The prefix tree of the sequences; those of different `groups` share nothing (chats with other pictures)."""
    of = groups or [0] * len(sequences)
    keyed = [(g, tuple(s)) for g, s in zip(of, sequences, strict=True)]
    tokens: list[int] = []
    parents: list[int] = []
    depths: list[int] = []
    ends: list[int] = []
    paths: list[tuple[int, ...]] = [()] * len(keyed)
    starts: list[tuple[int, int]] = []
    previous: tuple[int, Tokens] = (-1, ())
    path: list[int] = []
    for i in sorted(range(len(keyed)), key=keyed.__getitem__):
        group, sequence = keyed[i]
        shared = common_prefix(previous[1], sequence) if previous[0] == group else 0
        here = len(tokens)
        for closed in path[shared:]:
            ends[closed] = here
        if not shared and sequence:
            starts.append((here, group))
        added = range(here, here + len(sequence) - shared)
        tokens += sequence[shared:]
        parents += [path[shared - 1] if shared else -1, *added[:-1]] if added else []
        depths += range(shared, len(sequence))
        ends += [0] * len(added)
        path = [*path[:shared], *added]
        paths[i] = tuple(path)
        previous = (group, sequence)
    for closed in path:
        ends[closed] = len(tokens)
    borders = [*(s for s, _ in starts), len(tokens)]
    roots = tuple(range(a, b) for a, b in pairwise(borders))
    return Tree(
        tuple(tokens), tuple(parents), tuple(depths), tuple(ends), tuple(paths), roots, tuple(g for _, g in starts)
    )


def common_prefix(left: Tokens, right: Tokens) -> int:
    """How many first tokens two sequences share."""
    low, high = 0, min(len(left), len(right))
    while low < high:  # slices compare in C, so halving beats walking
        middle = (low + high + 1) // 2
        low, high = (middle, high) if left[low:middle] == right[low:middle] else (low, middle - 1)
    return low


def trunk_length(tree: Tree) -> int:
    """How many first tokens stand in one line that all the rest hangs on; 0 where there is no rest."""
    whole = len(tree.tokens)
    length = 0
    while length < whole and tree.ends[length] == whole and tree.parents[length] == length - 1:
        length += 1
    return 0 if length == whole else length


def branches(tree: Tree, trunk: int) -> list[range]:
    """The subtrees right below the first `trunk` tokens, in order; the roots for a trunk of 0."""
    out: list[range] = []
    start = trunk
    while start < len(tree.tokens):
        out.append(range(start, tree.ends[start]))
        start = tree.ends[start]
    return out


def pack(lengths: Sequence[int], capacity: int = 0) -> list[list[int]]:
    """Which items stand in one row: the longest first, each in the first row that has room (first fit).

    A row holds `capacity` tokens, or the longest item where that is more. Items of a row are in ascending order.
    """
    capacity = max([capacity, *lengths])
    rows: list[list[int]] = []
    room: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        row = next((r for r, free in enumerate(room) if free >= lengths[i]), None)
        if row is None:
            row = len(rows)
            rows.append([])
            room.append(capacity)
        rows[row].append(i)
        room[row] -= lengths[i]
    return [sorted(row) for row in rows]


def rows_of(pieces: Sequence[range], capacity: int = 0) -> list[list[range]]:
    """The pieces of a tree (`branches`), packed into rows of like length."""
    return [[pieces[i] for i in row] for row in pack([len(p) for p in pieces], capacity)]
