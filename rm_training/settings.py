"""What `ser train-rm` may be told with --set beside the trainer's own fields. Defaults are the paper's, or say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ser_toolkit.recipe_section import Section
from ser_toolkit.training.settings import OURS

DECIDED = OURS | {
    "label_smoothing_factor",  # the loss is of verdicts, each with the one right answer
    "train_sampling_strategy",  # batches are laid out by tree, not padded: there is nothing to group by length
    "remove_unused_columns",
    "label_names",
    "prediction_loss_only",
}
CASES = 16
"""Cases a step, by default: 32 chats in both orders of their replies (PEER trains on batches of 32 chats)."""


class JudgeTraining(Section):
    """Our keys of --set."""

    lora: bool = Field(default=True, description="train adapters (PEER), or all weights but the vision tower's")
    lora_r: int = Field(default=16, ge=1, description="rank of the adapters (PEER)")
    lora_alpha: int = Field(default=64, ge=1, description="scale of the adapters (PEER)")
    lora_dropout: float = Field(default=0.0, ge=0, lt=1, description="dropout in the adapters (the paper says nothing)")
    freeze_vision: bool = Field(default=True, description="without LoRA: leave the vision tower as it is")
    max_length: int = Field(default=8192, ge=128, description="longest chat, tokens; histories are cut at turn borders")
    position_swap: bool = Field(default=True, description="each case in both orders of its replies (ours)")
    rewrites: bool = Field(default=True, description="learn from rewritten dialogues too (PEER; false: its ablation)")
    false_weight: float | Literal["balanced"] = Field(
        default=1.0, description="weight of the rare False in the loss; balanced: as many True as False (ours)"
    )
    share_prefix: bool = Field(default=True, description="compute what the chats of a case share once")
    chat_template: Path | None = Field(default=None, description="a Jinja file in place of the model's own template")
    merge: bool = Field(default=True, description="after LoRA, also save the model with the adapter merged into it")
    verify: bool = Field(default=True, description="load what was saved in a fresh process and compare its verdicts")
    max_share: float = Field(default=0.1, ge=0, le=1, description="share of rows that may be unusable")


def trainer_defaults(settings: JudgeTraining, given: dict[str, Any], processes: int, on_gpu: bool) -> dict[str, Any]:
    """The trainer's fields where nothing was told. Learning rate and batch are the paper's; the rest is ours.

    A step takes `CASES` cases over all processes, accumulated where a device takes fewer at once.
    """
    cases = CASES if settings.position_swap else 2 * CASES
    at_once = given.get("per_device_train_batch_size", 2)
    accumulated = max(1, round(cases / (at_once * processes))) if isinstance(at_once, int) and at_once > 0 else 1
    return {
        "learning_rate": 2e-4 if settings.lora else 1e-5,
        "per_device_train_batch_size": at_once,
        "gradient_accumulation_steps": 1 if "per_device_train_batch_size" in given else accumulated,
        "per_device_eval_batch_size": at_once,
        "num_train_epochs": 3,
        "lr_scheduler_type": "cosine",
        "warmup_steps": 0.03,
        "logging_steps": 10,
        "logging_first_step": True,
        "save_strategy": "steps",
        "save_steps": 100,
        "eval_strategy": "epoch",
        "seed": 0,
        "bf16": on_gpu,
        "use_cpu": not on_gpu,
        "dataloader_pin_memory": on_gpu,
        "activation_checkpointing": on_gpu,
        "activation_checkpointing_kwargs": {"use_reentrant": False},
        "ddp_find_unused_parameters": False,
    }
