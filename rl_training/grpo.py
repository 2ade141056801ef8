"""GRPO on TRL's GRPOTrainer with composed rewards: the hooks, and nothing of a loop.

How it differs from TRL 1.16.0, and by which hook (all private, so the version is pinned and each has its test):

* `_calculate_rewards`: the composed reward of whole groups (`ser_toolkit.rewards.composition`) instead of a sum over
  functions, so a part that is missing makes the reward missing; all judges of a step are asked at once.
* `_generate_and_score_completions`: advantages anew, with a floor under the deviation; a completion without a reward,
  and a group whose rewards are equal, leave the loss altogether (`tool_mask` 0), KL gradient included; photos stand
  in the last user message; a run in which most completions are cut is stopped.
* `_tokenize_prompts`: prompts with and without photos may stand in one batch.
* `_get_per_token_logps_and_entropies`, `_prepare_inputs`: optionally each prompt once for all completions that share
  it (`shared_update`); a generation is then cut into batches without a shuffle, so that groups stay together.
* `_get_train_sampler`: a permutation by epoch, so that a run resumed in a later epoch sees what it would have seen.

The loss is TRL's own, and so is its normaliser: rows out of the loss still count in it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

# Heavy imports stand at the top here: a subclass needs its parent, and only what trains imports this module.
import torch  # noqa: TID253
from accelerate.utils import gather_object
from trl.trainer.grpo_trainer import GRPOTrainer  # noqa: TID253
from trl.trainer.utils import (  # noqa: TID253
    RepeatSampler,
    split_pixel_values_by_grid,
    split_tensor_dict,
    unsplit_pixel_values_by_grid,
)

from ser_toolkit.rewards.base import Completion, Scene
from ser_toolkit.rewards.composition import Composer, Group, Reward, Rollout, Scored

from .advantages import group_advantages
from .prompts import with_photos
from .shared_update import reason_against_sharing, shared_logps
from .watching import Watch, reward_metrics, samples_page, text_metrics

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rules:
    """What this trainer adds to TRL's arguments. `std_floor` in points of reward; `max_clipped` a share of completions;
    `samples` the folder of the tables of samples.
    """

    std_floor: float = 0.01
    max_clipped: float = 0.5
    patience: int = 20
    share_prefix: bool = False
    samples: Path | None = None


class EpochSampler(RepeatSampler):
    """TRL's sampler, whose permutation hangs on the seed and the epoch alone."""

    def set_epoch(self, epoch: int) -> None:
        if self.shuffle:
            self.generator.manual_seed((self.seed or 0) + epoch)


def total(**_: Any) -> list[float | None]:
    """TRL wants a reward function for its columns; `_calculate_rewards` never calls it."""
    raise RuntimeError("TRL called a reward function: _calculate_rewards is no longer its hook")


class PolicyTrainer(GRPOTrainer):
    """TRL's GRPOTrainer with composed rewards. `scenes(row)` gives the scene of a prompt by its column `row`."""

    args: Any
    model: Any
    train_dataset: Any
    num_generations: Any
    num_generations_eval: Any
    max_completion_length: Any
    scale_rewards: Any
    shuffle_dataset: Any

    def __init__(
        self, composer: Composer, scenes: Callable[[int], Scene], rules: Rules | None = None, **trl: Any
    ) -> None:
        self._composer = composer
        self._scenes = scenes
        self._rules = rules or Rules()
        self._watch = Watch(self._rules.max_clipped, self._rules.patience)
        self._judging = asyncio.Runner()
        self._told_why = ""
        self._scored: list[Scored] = []
        self._rewards: list[Reward] = []
        super().__init__(reward_funcs=[total], **trl)

    def _get_train_sampler(self, dataset: Any = None) -> EpochSampler:
        return EpochSampler(
            data_source=dataset if dataset is not None else self.train_dataset,
            mini_repeat_count=self.num_generations,
            batch_size=self.args.generation_batch_size // self.num_generations,
            repeat_count=self.num_iterations * self.args.steps_per_generation,
            shuffle=self.shuffle_dataset,
            seed=self.args.seed,
        )

    def _set_signature_columns_if_needed(self) -> None:
        if self._signature_columns is None:
            self._signature_columns = ["prompt", "images", "row"]

    def _calculate_rewards(
        self,
        inputs: list[dict[str, Any]],
        prompts: list[Any],
        completions: list[Any],
        completion_ids_list: list[list[int]],
    ) -> torch.Tensor:
        """(N, 1) over all processes, NaN where missing; what it was made of is kept for the metrics."""
        said = [self._rollout(*one) for one in zip(inputs, completions, completion_ids_list, strict=True)]
        groups = [
            Group(self._scenes(row), tuple(said[i] for i in places))
            for row, places in ((r, list(p)) for r, p in groupby(range(len(inputs)), lambda i: inputs[i]["row"]))
        ]
        judged = self._judging.run(self._composer.judge(groups))
        self._scored = gather_object([s for group in judged for s in group])
        size = self._group_size
        whole = [self._scored[i : i + size] for i in range(0, len(self._scored), size)]
        self._rewards = [r for group in self._composer.weigh(whole) for r in group]
        values = [float("nan") if r.value is None else r.value for r in self._rewards]
        return torch.tensor(values, dtype=torch.float32, device=self.accelerator.device).unsqueeze(1)

    def _rollout(self, row: Mapping[str, Any], completion: Any, ids: Sequence[int]) -> Completion:
        """A completion as the rewards read it. One of many turns says itself what is judged, and how much it wrote."""
        text = completion if isinstance(completion, str) else str(completion[-1].get("content") or "")
        said, tokens = row.get("said", text), row.get("tokens", len(ids))
        return Rollout(self._composer.recipe.prefill + said, tokens, row.get("emotion"))

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        if any(row.get("images") for row in inputs):
            inputs = [{**row, "prompt": with_photos(row["prompt"], len(row["images"]))} for row in inputs]
        output = super()._generate_and_score_completions(inputs)
        values = [float("nan") if r.value is None else r.value for r in self._rewards]
        rewards = torch.tensor(values, dtype=torch.float32, device=self.accelerator.device)
        advantages, alive = group_advantages(rewards, self._group_size, self.scale_rewards, self._rules.std_floor)
        start = self.accelerator.process_index * len(inputs)
        mine = slice(start, start + len(inputs))
        output["advantages"] = advantages[mine]
        if not alive.all():
            mask = output.get("tool_mask", torch.ones_like(output["completion_mask"]))
            output["tool_mask"] = mask * alive[mine].unsqueeze(1).to(mask.dtype)
        self._note(inputs, output["completion_mask"], advantages, alive)
        return output

    def _tokenize_prompts(self, prompts: list[Any]) -> Any:
        """As TRL's, which says `None` for a prompt without photos in a batch with some; processors want a list."""
        ids, photos, fields = super()._tokenize_prompts(prompts)
        return ids, photos and [p or [] for p in photos], fields

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        """As TRL's, but without its shuffle where prompts are shared. TRL counts micro-batches in `_step`."""
        if not (self._rules.share_prefix and self.model.training):
            return super()._prepare_inputs(generation_batch)
        size = self.args.steps_per_generation
        if self._step % (size * self.num_iterations) == 0 or self._buffered_inputs is None:
            made: Any = split_pixel_values_by_grid(self._generate_and_score_completions(generation_batch))
            batches: list[Any] = split_tensor_dict(made, size)
            self._buffered_inputs = [unsplit_pixel_values_by_grid(b) for b in batches]
        return self._buffered_inputs[self._step % size]

    def _get_per_token_logps_and_entropies(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **media: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """TRL's (log-probabilities, entropies, auxiliary loss), with shared prompts where they can be."""
        given = {k: v for k, v in media.items() if v is not None}
        if not self._rules.share_prefix or not self._can_share(model, input_ids, given, compute_aux_loss):
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, batch_size, compute_entropy, compute_aux_loss, **media
            )
        step = batch_size or len(input_ids)
        with self.accelerator.autocast():
            parts = [
                shared_logps(
                    model,
                    input_ids[at : at + step],
                    attention_mask[at : at + step],
                    logits_to_keep,
                    temperature=self.temperature,
                    media={k: v[at : at + step] for k, v in given.items()},
                    with_entropy=compute_entropy,
                )
                for at in range(0, len(input_ids), step)
            ]
        entropies = [e for _, e in parts if e is not None]
        return torch.cat([p for p, _ in parts]), torch.cat(entropies) if entropies else None, None

    def _can_share(self, model: Any, input_ids: torch.Tensor, media: Mapping[str, Any], wants_aux: bool) -> bool:
        reason = "it wants an auxiliary loss" if wants_aux else ""
        reason = reason or reason_against_sharing(model, len(input_ids), input_ids.size(1), media)
        if reason and reason != self._told_why:
            self._told_why = reason
            log.warning("share_prefix: each completion is computed with its prompt: %s", reason)
        return not reason

    def close(self) -> None:
        """End the loop that the judges ran in."""
        self._judging.close()

    @property
    def _is_logged(self) -> bool:
        return self.state.global_step % max(1, int(self.args.logging_steps)) == 0

    @property
    def _group_size(self) -> int:
        return self.num_generations if self.model.training else self.num_generations_eval

    def _note(
        self, inputs: list[dict[str, Any]], mask: torch.Tensor, advantages: torch.Tensor, alive: torch.Tensor
    ) -> None:
        """Metrics of the step, its table of samples, and whether the run goes on. Raises SerError."""
        mode = "train" if self.model.training else "eval"
        texts = [self._text(c) for c in list(self._logs["completion"])[-len(self._rewards) :]]
        values = [r.value for r in self._rewards]
        lengths: list[int] = gather_object(mask.sum(1).tolist())
        replies = [Completion(self._composer.recipe.prefill + text).reply for text in texts]
        found = reward_metrics(self._composer.names, self._scored, self._rewards, self._group_size)
        found |= text_metrics(replies, values, lengths)
        found["groups/equal"] = 1 - alive.view(-1, self._group_size).any(1).float().mean().item()
        found["completions/out_of_loss"] = 1 - alive.float().mean().item()
        for name, value in found.items():
            self._metrics[mode][name].append(float("nan") if value is None else value)
        for _ in range(len(advantages)):
            self._logs["advantages"].pop()
        self._logs["advantages"].extend(advantages.tolist())
        folder = self._rules.samples
        if folder is not None and self.accelerator.is_main_process and self._is_logged:
            folder.mkdir(parents=True, exist_ok=True)
            step, size = self.state.global_step + 1, self._group_size
            table = (texts[:size], self._scored[:size], self._rewards[:size], advantages[:size].tolist())
            page = samples_page(step, _plain(inputs[0]["prompt"]), *table)
            (folder / f"{mode}-{step:06d}.md").write_text(page, encoding="utf-8")
        if mode == "train":
            clipped = self._metrics[mode]["completions/clipped_ratio"][-1]
            missing = sum(v is None for v in values) / len(values)
            notes = [note for s in self._scored for note in s.notes]
            self._watch.step(clipped, missing, notes, self.max_completion_length)

    @staticmethod
    def _text(completion: Any) -> str:
        return completion if isinstance(completion, str) else str(completion[-1].get("content") or "")


def _plain(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Messages with their text alone."""
    return [
        {
            "role": m["role"],
            "content": m["content"]
            if isinstance(m["content"], str)
            else " ".join(part.get("text", "[photo]") for part in m["content"]),
        }
        for m in messages
    ]
