"""transformers' Trainer with a judge's loss: the one place where the loss of a judge is computed.

Cross-entropy on the judged tokens alone, each by its weight, over all of them in the step (also over accumulated
batches and processes). What the chats of a case share is computed once (`training/shared_prefix.py`), which changes no
number beyond rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ser_toolkit.training.layout import tree_of
from ser_toolkit.training.shared_prefix import Way, tree_logps

from .data import IGNORED, Item
from .rounds import ChatEncoder

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """Some cases: their sequences, the case of each one, by case what its pictures need; `weights` as in Example."""

    sequences: tuple[tuple[int, ...], ...]
    weights: tuple[tuple[float, ...], ...]
    cases: tuple[int, ...]
    media: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)


class ItemSet:
    """Items as a map-style data set. Pictures become pixels when they are asked for, so that they need no room."""

    def __init__(self, items: Sequence[Item], processing: Any) -> None:
        self._items = items
        self._encoder = ChatEncoder(processing)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> tuple[Item, Mapping[str, Any]]:
        item = self._items[index]
        chat = item[0].chat
        return item, self._encoder.encode(chat).media if chat.images else {}


def collate(rows: Sequence[tuple[Item, Mapping[str, Any]]]) -> dict[str, Any]:
    """A batch, and beside it `labels`, of which the trainer counts those that bear a loss: (1, 1 + judged tokens)."""
    import torch

    examples = [(case, example) for case, (item, _) in enumerate(rows) for example in item]
    judged = sum(label != IGNORED for _, example in examples for label in example.labels)
    batch = Batch(
        tuple(example.ids for _, example in examples),
        tuple(example.weights for _, example in examples),
        tuple(case for case, _ in examples),
        {case: media for case, (_, media) in enumerate(rows) if media},
    )
    # The first column is never counted: a causal model's loss is of what comes after a token.
    return {"batch": batch, "labels": torch.tensor([[IGNORED, *[1] * judged]])}


def batch_loss(model: Any, batch: Batch, way: Way) -> Tensor:
    """The weighted sum of -log p over the judged tokens of a batch."""
    import torch

    tree = tree_of(batch.sequences, batch.cases)
    weights: dict[int, float] = {}
    for path, row in zip(tree.paths, batch.weights, strict=True):
        for index, weight in zip(path, row, strict=True):
            if weight:
                weights[index] = weights.get(index, 0.0) + weight
    wanted = sorted(weights)
    logps = tree_logps(model, tree, wanted, media=batch.media, way=way)
    return -(logps * torch.tensor([weights[i] for i in wanted], device=logps.device)).sum()


def make_trainer(*, way: Way, **options: Any) -> Any:
    """A Trainer of transformers (its `options`) that learns from batches of `collate`."""
    from transformers import Trainer

    class JudgeTrainer(Trainer):
        def __init__(self, **more: Any) -> None:
            super().__init__(**more)
            self.model_accepts_loss_kwargs = True  # the loss is summed, and divided by the whole step's tokens here

        def compute_loss(
            self,
            model: Any,
            inputs: dict[str, Any],
            return_outputs: bool = False,
            num_items_in_batch: Any = None,
        ) -> Any:
            count = num_items_in_batch if num_items_in_batch is not None else (inputs["labels"] != IGNORED).sum()
            loss = batch_loss(model, inputs["batch"], way) / count
            if num_items_in_batch is not None and self.args.average_tokens_across_devices:
                loss = loss * self.accelerator.num_processes  # which will average the gradients
            return (loss, {}) if return_outputs else loss

        def prediction_step(
            self, model: Any, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: Any = None
        ) -> tuple[Any, None, None]:
            import torch

            with torch.no_grad():
                return self.compute_loss(model, self._prepare_inputs(inputs)).detach(), None, None

    return JudgeTrainer(**options)
