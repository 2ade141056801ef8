"""What pictures add to a batch: pixels in the order of the rows, marks of which tokens are theirs, and positions.

A processor's outputs for one sequence ("media") are of two kinds: pixels and their shapes, one behind another along the
first axis, and one mark a token (`*token_type_ids`), as long as the sequence's beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .layout import Tree

if TYPE_CHECKING:
    from torch import Tensor

Media = Mapping[str, "Tensor"]
Heads = Mapping[int, "tuple[Tensor, int]"]
"""By group: the positions (3, n) of its first tokens, and what the later ones have beyond their depth."""


def is_per_token(name: str) -> bool:
    """Whether a processor's output has one value a token."""
    return name.endswith("token_type_ids")


def shape_of(media: Media) -> tuple[Any, ...]:
    """What two sequences in one batch must have in common: the shapes of their pixels but for the first axis."""
    return tuple((k, tuple(v.shape[1:])) for k, v in sorted(media.items()) if not is_per_token(k))


def stacked(rows: Sequence[Media], width: int, device: Any) -> dict[str, Tensor]:
    """The media of a batch of sequences of one shape; tokens behind the marked ones are text (0), up to `width`."""
    return laid_out([[(0, row)] for row in rows], width, device)


def laid_out(rows: Sequence[Sequence[tuple[int, Media]]], width: int, device: Any) -> dict[str, Tensor]:
    """The media of rows of sequences, each with the place in its row where it begins."""
    import torch

    out: dict[str, Tensor] = {}
    for name in {n: None for row in rows for _, media in row for n in media}:
        if not is_per_token(name):
            out[name] = torch.cat([media[name] for row in rows for _, media in row if name in media]).to(device)
            continue
        marks = torch.zeros(len(rows), width, dtype=torch.long)
        for number, row in enumerate(rows):
            for start, media in row:
                if name in media:
                    marks[number, start : start + media[name].shape[1]] = media[name][0]
        out[name] = marks.to(device)
    return out


def heads_of(base: Any, tree: Tree, media: Mapping[int, Media]) -> Heads:
    """The positions inside pictures, where the model (`base`, without its head) has such (three axes); else nothing."""
    import torch

    found: dict[int, tuple[Tensor, int]] = {}
    for root, group in zip(tree.roots, tree.groups, strict=True):
        own = media.get(group, {})
        if "image_grid_thw" in own:
            kinds = own["mm_token_type_ids"].cpu()
            ids = torch.tensor([tree.tokens[root.start : root.start + kinds.shape[1]]])
            made, beyond = base.get_rope_index(ids, kinds, image_grid_thw=own["image_grid_thw"].cpu())
            found[group] = made[:, 0], int(beyond[0])
    return found


def positions_of(tree: Tree, heads: Heads) -> Tensor:
    """Each token's position: its depth (T,), or (3, T) where some group has positions in pictures."""
    import torch

    depths = torch.tensor(tree.depths, dtype=torch.long)
    if not heads:
        return depths
    out = depths.expand(3, -1).clone()
    for root, group in zip(tree.roots, tree.groups, strict=True):
        if group in heads:
            made, beyond = heads[group]
            out[:, root.start : root.stop] += beyond
            out[:, root.start : root.start + made.shape[1]] = made
    return out
