"""Supervised fine-tuning on a release's `traces/`: TRL's SFTTrainer, loss on the completion alone.

    result = train_sft(release, "Qwen/Qwen3-VL-8B-Instruct", Path("runs/sft"))

The loss covers the four-part text and its end of turn. A row too long for `max_tokens` loses the front of its history,
never a part of the trace; where even that does not help it is left out and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ser_toolkit.releases.load import Release
from ser_toolkit.training.extra import require_train

from .prompts import Fitted, Measure, fit_rows, with_photos
from .running import RunResult, finish, load_policy, run_arguments, trained
from .settings import SftSettings, split_sets

CONFIG = "traces"
DEFAULTS = {
    "learning_rate": 1e-4,
    "num_train_epochs": 3,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 8,
    "warmup_steps": 0.03,
    "lr_scheduler_type": "cosine",
}
"""The paper states none of these for its SFT stage."""


def train_sft(
    release: Release,
    model: str,
    out: Path,
    sets: Sequence[str] = (),
    *,
    text_only: bool = False,
    resume: bool = False,
    quiet: bool = False,
) -> RunResult:
    """A model trained on the traces of `release`, in `out/model`.

    Raises UsageError (a wrong setting, no traces, no such model), DataError (nothing fits), CheckpointError.
    """
    require_train()
    from trl.trainer.sft_config import SFTConfig

    settings, theirs = split_sets(sets, SftSettings)
    with run_arguments(
        "train-sft", release, model, out, settings, theirs, SFTConfig, DEFAULTS, text_only=text_only, resume=resume
    ) as begun:
        loaded = load_policy(model, settings, text_only=text_only)
        rows = fit_rows(
            release,
            CONFIG,
            Measure(loaded.processing, takes_photos=loaded.is_vision),
            settings.max_tokens,
            at_most=settings.max_rows,
            seed=begun.arguments.seed,
        )
        begun.run.note(rows=rows.counts())
        trainer = make_trainer(loaded, rows, begun.arguments)
        trained(trainer, begun, quiet=quiet)
        return finish(trainer, loaded, begun)


def make_trainer(loaded: Any, rows: Fitted, arguments: Any) -> Any:
    """TRL's trainer over rows that fit. `arguments.max_length` is off: nothing is left to cut."""
    from trl.trainer.sft_trainer import DataCollatorForVisionLanguageModeling, SFTTrainer

    dataset = rows.dataset.remove_columns(["row"])
    collator = None
    if "images" in dataset.column_names:
        inner = DataCollatorForVisionLanguageModeling(processor=loaded.processing, completion_only_loss=True)
        collator = PhotoCollator(inner)
    return SFTTrainer(
        model=loaded.model,
        args=arguments,
        train_dataset=dataset,
        processing_class=loaded.processing
        if "images" in dataset.column_names or loaded.is_vision
        else loaded.tokenizer,
        data_collator=collator,
    )


@dataclass(frozen=True, slots=True)
class PhotoCollator:
    """TRL's collator, with the photos in the last user message, as the policy meets them later."""

    inner: Any

    def __call__(self, examples: list[dict[str, Any]]) -> Any:
        return self.inner([{**e, "prompt": with_photos(e["prompt"], len(e["images"]))} for e in examples])
