"""Log-probabilities of sequences that share their beginnings, each shared token computed once; with gradients, too.

    tree_logps(model, tree, wanted)            any tree: trainers' batches, a judge's answers
    group_logps(model, prompt, completions)    one prompt, many completions: a policy's group

Two ways, equal to the plain one: *one pass* over rows with a tree's mask; and *kept keys*: the trunk that all share is
computed once, then the branches as rows behind its keys and values, gradients flowing back through them. The first is
a single forward pass, so it goes with DDP, FSDP and gradient checkpointing; the second wastes no attention, so it is
for long prompts. A model that neither fits (`sharing.py`) is asked plainly. Bound of what sharing can give for G
completions of R tokens after P: G(P+R)/(P+GR).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from .layout import Tokens, Tree, branches, rows_of, tree_of, trunk_length
from .pictures import Media, heads_of, laid_out, positions_of, shape_of, stacked
from .sharing import base_of, reason_against, unwrapped

if TYPE_CHECKING:
    from torch import Tensor

Way = Literal["auto", "cache", "row", "plain"]
PLAIN_BATCH = 8
CACHE_FROM = 64
"""The length of a trunk from which keeping its keys pays."""


def tree_logps(
    model: Any, tree: Tree, wanted: Sequence[int], *, media: Mapping[int, Media] | None = None, way: Way = "auto"
) -> Tensor:
    """log p of the `wanted` tokens (indices in the tree, no roots), each after what stands before it: (N,), float32.

    `media`: by group of the tree, what its pictures need; they stand in the group's first tokens, before any branch.
    """
    import torch

    media = media or {}
    if way == "auto" and reason_against(model, max(tree.depths, default=0) + 1, media):
        way = "plain"
    if way == "auto":
        single_pass = hasattr(model, "module") or (
            torch.is_grad_enabled() and getattr(unwrapped(model), "is_activation_checkpointing", False)
        )
        way = "row" if single_pass or trunk_length(tree) < CACHE_FROM else "cache"
    return {"cache": through_cache, "row": through_row, "plain": through_plain}[way](model, tree, wanted, media)


def group_logps(
    model: Any,
    prompt: Tokens,
    completions: Sequence[Tokens],
    *,
    media: Media | None = None,
    temperature: float = 1.0,
    way: Way = "auto",
) -> list[Tensor]:
    """log p of each completion's tokens after the prompt, the prompt computed once: by completion (R,), float32."""
    import torch

    tree = tree_of([[*prompt, *c] for c in completions])
    wanted = sorted({i for path in tree.paths for i in path[len(prompt) :]})
    place = {index: number for number, index in enumerate(wanted)}
    with tempered(model, temperature):
        logps = tree_logps(model, tree, wanted, media={0: media} if media else None, way=way)
    return [logps[torch.tensor([place[i] for i in path[len(prompt) :]], dtype=torch.long)] for path in tree.paths]


def through_row(model: Any, tree: Tree, wanted: Sequence[int], media: Mapping[int, Media] | None = None) -> Tensor:
    """One pass: the tree's roots, packed into rows of like length, under a mask by which each token sees its past."""
    rows = rows_of(branches(tree, 0))
    return _rows_logps(model, tree, rows, wanted, media or {})


def through_cache(model: Any, tree: Tree, wanted: Sequence[int], media: Mapping[int, Media] | None = None) -> Tensor:
    """Two passes: the trunk, then the branches behind its keys and values."""
    trunk = trunk_length(tree)
    if not trunk:
        return through_row(model, tree, wanted, media)
    parents = {tree.parents[i] for i in wanted if tree.parents[i] < trunk}
    return Trunk(model, tree, trunk, sorted(parents), media).logps(tree, wanted)


class Trunk:
    """The beginning that all sequences of a tree share, computed once: trees that begin with it need only the rest."""

    def __init__(
        self, model: Any, tree: Tree, length: int, at: Sequence[int], media: Mapping[int, Media] | None = None
    ) -> None:
        """The first `length` tokens of `tree`; logits are kept of the tokens `at`."""
        import torch
        from transformers import DynamicCache

        self.length = length
        self.model = model
        self._at = {index: number for number, index in enumerate(at)}
        self._cache = DynamicCache()
        self.heads = heads_of(base_of(unwrapped(model)), tree, media or {})
        row = [[range(length)]]
        inputs = {
            "input_ids": filled(torch.tensor(tree.tokens), row, model.device),
            "position_ids": filled(positions_of(tree, self.heads), row, model.device),
            **laid_out(_media_rows(tree, row, media or {}), length, model.device),
        }
        self._logits = logits_at(
            model, inputs, torch.tensor(list(at), dtype=torch.long), cache=self._cache, use_cache=True
        )

    def logps(self, tree: Tree, wanted: Sequence[int]) -> Tensor:
        """As `tree_logps`, for a tree that begins with this trunk; its tokens `at` are the only ones to go on from."""
        import torch

        inside = [n for n, i in enumerate(wanted) if tree.parents[i] < self.length]
        beyond = [n for n, i in enumerate(wanted) if tree.parents[i] >= self.length]
        at = [self._at[tree.parents[wanted[n]]] for n in inside]
        told = told_at(self._logits, at, [tree.tokens[wanted[n]] for n in inside])
        if not beyond:
            return told
        rows = rows_of(branches(tree, self.length))
        rest = _rows_logps(self.model, tree, rows, [wanted[n] for n in beyond], {}, self)
        back = torch.tensor(inside + beyond, device=rest.device).argsort()
        return torch.cat([told, rest])[back]

    def expanded(self, rows: int) -> Any:
        """The kept keys and values for a batch of `rows`; gradients flow back to the trunk."""
        from transformers import DynamicCache

        kept = [(keys, values) for keys, values, *_ in self._cache if keys is not None and values is not None]
        return DynamicCache([(k.expand(rows, -1, -1, -1), v.expand(rows, -1, -1, -1)) for k, v in kept])


def through_plain(model: Any, tree: Tree, wanted: Sequence[int], media: Mapping[int, Media] | None = None) -> Tensor:
    """Each sequence whole, in right-padded batches: the reference, and what is done where sharing does not fit."""
    import torch

    missing = set(wanted)
    of = {i: g for root, g in zip(tree.roots, tree.groups, strict=True) for i in root}
    chosen: list[tuple[int, ...]] = []
    for path in sorted(tree.paths, key=len, reverse=True):
        if not missing.isdisjoint(path):
            chosen.append(path)
            missing.difference_update(path)
    found: dict[int, Tensor] = {}
    for batch in _batches(chosen, [shape_of((media or {}).get(of[path[0]], {})) for path in chosen]):
        width = max(map(len, batch))
        ids = torch.zeros(len(batch), width, dtype=torch.long)
        seen = torch.zeros_like(ids)
        for number, path in enumerate(batch):
            ids[number, : len(path)] = torch.tensor([tree.tokens[i] for i in path])
            seen[number, : len(path)] = 1
        places = {i: (r, p) for r, path in enumerate(batch) for p, i in enumerate(path)}
        own = [i for i in wanted if i in places and i not in found]
        at = torch.tensor([places[i][0] * width + places[i][1] - 1 for i in own], dtype=torch.long)
        pictures = [(media or {}).get(of[path[0]], {}) for path in batch]
        inputs = {"input_ids": ids.to(model.device), "attention_mask": seen.to(model.device)}
        logits = logits_at(model, inputs | stacked(pictures, width, model.device), at, use_cache=False)
        logps = told_at(logits, range(len(own)), [tree.tokens[i] for i in own])
        found |= dict(zip(own, logps.unbind(), strict=True))
    return torch.stack([found[i] for i in wanted])


def _batches(paths: Sequence[tuple[int, ...]], kinds: Sequence[Any]) -> Iterator[list[tuple[int, ...]]]:
    """Paths of one kind together, PLAIN_BATCH at most."""
    for kind in dict.fromkeys(kinds):
        alike = [path for path, own in zip(paths, kinds, strict=True) if own == kind]
        for start in range(0, len(alike), PLAIN_BATCH):
            yield alike[start : start + PLAIN_BATCH]


def _rows_logps(
    model: Any,
    tree: Tree,
    rows: Sequence[Sequence[range]],
    wanted: Sequence[int],
    media: Mapping[int, Media],
    trunk: Trunk | None = None,
) -> Tensor:
    """One pass over rows of pieces of a tree, alone or behind a trunk."""
    import torch

    width = max(sum(len(p) for p in row) for row in rows)
    place: dict[int, int] = {}
    for number, row in enumerate(rows):
        at = number * width
        for piece in row:
            place |= zip(piece, range(at, at + len(piece)), strict=True)
            at += len(piece)
    parents = sorted({tree.parents[i] for i in wanted})
    rank = {index: number for number, index in enumerate(parents)}
    heads = trunk.heads if trunk else heads_of(base_of(unwrapped(model)), tree, media)
    inputs = {
        "input_ids": filled(torch.tensor(tree.tokens), rows, model.device),
        "attention_mask": mask_of(model, tree, rows, torch.ones(len(rows), trunk.length) if trunk else None),
        "position_ids": filled(positions_of(tree, heads), rows, model.device),
        **laid_out(_media_rows(tree, rows, media), width, model.device),
    }
    kept = {"cache": trunk.expanded(len(rows)), "use_cache": True} if trunk else {"use_cache": False}
    logits = logits_at(model, inputs, torch.tensor([place[i] for i in parents], dtype=torch.long), **kept)
    return told_at(logits, [rank[tree.parents[i]] for i in wanted], [tree.tokens[i] for i in wanted])


def told_at(logits: Tensor, rows: Sequence[int], tokens: Sequence[int]) -> Tensor:
    """log p of `tokens`, each by its row of the logits (N, V): float32."""
    import torch

    which = torch.tensor(list(rows), dtype=torch.long, device=logits.device)
    logits = logits.float()
    picked = logits[which, torch.tensor(list(tokens), dtype=torch.long, device=logits.device)]
    return picked - logits.logsumexp(-1)[which]


def logits_at(model: Any, inputs: Mapping[str, Any], at: Tensor, **kept: Any) -> Tensor:
    """The model's logits at the flat places `at` (N,) of its batch: (N, V). The language head sees no other place."""
    head = unwrapped(model).get_output_embeddings()
    at = at.to(model.device)

    def pick(_: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (args[0].flatten(0, -2)[at][None], *args[1:])

    hook = head.register_forward_pre_hook(pick)
    try:
        logits = model(**inputs, **kept).logits
    finally:
        hook.remove()
    flat = logits.flatten(0, -2)
    return flat if len(flat) == len(at) else flat[at]


@contextmanager
def tempered(model: Any, temperature: float) -> Iterator[None]:
    """Logits divided by `temperature` while this runs, as where the completions were sampled."""
    if temperature == 1.0:
        yield
        return
    head = unwrapped(model).get_output_embeddings()
    hook = head.register_forward_hook(lambda module, args, logits: logits / temperature)
    try:
        yield
    finally:
        hook.remove()


def filled(values: Tensor, rows: Sequence[Sequence[range]], device: Any) -> Tensor:
    """Values by token, (T,) or (3, T), as rows of the pieces' tokens, 0 where one ends early: (B, W) or (3, B, W)."""
    import torch

    if values.ndim > 1:
        return torch.stack([filled(axis, rows, device) for axis in values])
    lines = [torch.cat([values[p.start : p.stop] for p in row]) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(lines, batch_first=True).to(device)


def _media_rows(
    tree: Tree, rows: Sequence[Sequence[range]], media: Mapping[int, Media]
) -> list[list[tuple[int, Media]]]:
    """By row: where each of its roots begins, and that group's media."""
    group_at = {root.start: group for root, group in zip(tree.roots, tree.groups, strict=True)}
    out: list[list[tuple[int, Media]]] = []
    for row in rows:
        starts = [sum(len(p) for p in row[:n]) for n in range(len(row))]
        out.append([(at, media.get(group_at.get(p.start, -1), {})) for at, p in zip(starts, row, strict=True)])
    return out


def mask_of(model: Any, tree: Tree, rows: Sequence[Sequence[range]], kept: Tensor | None = None) -> Tensor:
    """(B, 1, W, K + W): each token sees itself, its ancestors, and what `kept` (B, K) says of its row's kept keys.
    Padding sees itself (and those keys), since a softmax over nothing is NaN, and is seen by nobody.
    """
    import torch

    ends = []
    for row in rows:
        shifted: list[int] = []
        for piece in row:
            offset = len(shifted) - piece.start
            shifted += [end + offset for end in tree.ends[piece.start : piece.stop]]
        ends.append(torch.tensor(shifted))
    until = torch.nn.utils.rnn.pad_sequence(ends, batch_first=True).to(model.device)
    place = torch.arange(until.shape[1], device=model.device)
    sees = (place[None, :] <= place[:, None]) & (place[:, None] < until[:, None, :])
    sees |= torch.eye(len(place), dtype=torch.bool, device=model.device)
    if kept is not None:
        behind = kept.to(sees)[:, None].expand(-1, sees.shape[1], -1)
        sees = torch.cat([behind, sees], dim=-1)
    if unwrapped(model).config.get_text_config()._attn_implementation == "sdpa":
        return sees[:, None]
    dtype = model.dtype
    return torch.zeros(sees.shape, dtype=dtype, device=model.device).masked_fill(~sees, torch.finfo(dtype).min)[:, None]
