"""Trees of tokens hold each shared beginning once and give every sequence back; rows lose nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ser_toolkit.training.layout import Tree, branches, common_prefix, pack, rows_of, tree_of, trunk_length

sequences = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8), min_size=1, max_size=8)


def sees(tree: Tree, reader: int, read: int) -> bool:
    """What `ends` promises: a token is seen by its own subtree."""
    return read <= reader < tree.ends[read]


@given(sequences)
def test_every_sequence_is_a_path_and_every_beginning_stands_once(given_: list[list[int]]) -> None:
    tree = tree_of(given_)
    for sequence, path in zip(given_, tree.paths, strict=True):
        assert [tree.tokens[i] for i in path] == sequence
        assert [tree.depths[i] for i in path] == list(range(len(sequence)))
        assert [tree.parents[i] for i in path] == [-1, *path[:-1]]
    beginnings = {tuple(s[:n]) for s in given_ for n in range(1, len(s) + 1)}
    assert len(tree.tokens) == len(beginnings)


@given(sequences)
def test_a_token_sees_what_stands_before_it_in_its_sequence_and_nothing_else(given_: list[list[int]]) -> None:
    tree = tree_of(given_)
    for path in tree.paths:
        for place, reader in enumerate(path):
            assert [i for i in range(len(tree.tokens)) if sees(tree, reader, i)] == list(path[: place + 1])


@given(sequences, st.data())
def test_groups_share_nothing(given_: list[list[int]], data: st.DataObject) -> None:
    groups = data.draw(st.lists(st.integers(0, 2), min_size=len(given_), max_size=len(given_)))
    tree = tree_of(given_, groups)
    of = {i: group for root, group in zip(tree.roots, tree.groups, strict=True) for i in root}
    for path, group in zip(tree.paths, groups, strict=True):
        assert {of[i] for i in path} == {group}
    assert [i for root in tree.roots for i in root] == list(range(len(tree.tokens)))
    assert len(tree.tokens) == sum(
        len(tree_of([s for s, g in zip(given_, groups, strict=True) if g == one]).tokens) for one in set(groups)
    )


@given(sequences, st.integers(0, 20))
def test_trunk_and_rows_hold_each_token_once(given_: list[list[int]], capacity: int) -> None:
    tree = tree_of(given_)
    trunk = trunk_length(tree)
    assert all(path[:trunk] == tuple(range(min(trunk, len(path)))) for path in tree.paths)
    pieces = branches(tree, trunk)
    rows = rows_of(pieces, capacity)
    held = sorted(i for row in rows for piece in row for i in piece)
    assert held == list(range(trunk, len(tree.tokens)))
    limit = max([capacity, *(len(p) for p in pieces)])
    assert all(sum(len(p) for p in row) <= limit for row in rows)
    for piece in pieces:  # a piece is whole: its tokens see the trunk and one another, nothing of other pieces
        assert all(tree.ends[i] <= piece.stop for i in piece)


def test_a_group_of_completions_with_one_prompt() -> None:
    tree = tree_of([[5, 6, 7, 1, 2], [5, 6, 7, 3], [5, 6, 7, 1, 4]])
    assert tree.tokens == (5, 6, 7, 1, 2, 4, 3)
    assert trunk_length(tree) == 3
    assert branches(tree, 3) == [range(3, 6), range(6, 7)]
    assert tree.parents == (-1, 0, 1, 2, 3, 3, 2)


def test_one_sequence_alone_has_no_trunk() -> None:
    assert trunk_length(tree_of([[1, 2, 3]])) == 0 and branches(tree_of([[1, 2, 3]]), 0) == [range(0, 3)]


def test_packing_puts_short_rows_together() -> None:
    assert pack([100, 30, 60, 40]) == [[0], [2, 3], [1]]
    assert pack([10, 10, 10], 30) == [[0, 1, 2]]
    assert pack([]) == []


@given(st.lists(st.integers(0, 1), max_size=60), st.lists(st.integers(0, 1), max_size=60))
def test_common_prefix_is_what_walking_finds(left: list[int], right: list[int]) -> None:
    walked = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    assert common_prefix(left, right) == walked
