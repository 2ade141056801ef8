"""A run of either trainer, from its settings to its model: the folder, the arguments, resume, what is kept at the end.

What a resumed run computes must be what the uninterrupted one would have: same settings, same rows, and checkpoints at
steps where nothing is under way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ser_toolkit.errors import SerError
from ser_toolkit.releases.load import Release
from ser_toolkit.training.models import Loaded, Lora, load, merged, save
from ser_toolkit.training.runs import RunFolder, follow, model_hash, newest_checkpoint, open_run
from ser_toolkit.training.settings import make_arguments, read_sets

from .settings import Tuning

CHECKPOINTS_KEPT = 2


class Nothing(Tuning):
    """`read_sets` wants a type of own settings; ours are read before, since they nest."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that is open: its folder, TRL's arguments, whether it goes on with an earlier one."""

    run: RunFolder
    arguments: Any
    resume: bool


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run came to."""

    out: Path
    model: Path
    steps: int
    metrics: Mapping[str, Any]
    rows: Mapping[str, Any]
    hash: str

    def to_json(self) -> dict[str, Any]:
        return {
            "out": str(self.out), "model": str(self.model), "steps": self.steps, "rows": dict(self.rows),
            "metrics": dict(self.metrics), "model_hash": self.hash,
        }  # fmt: skip

    def render(self) -> str:
        shown = ", ".join(f"{k} {v:.4g}" for k, v in self.metrics.items() if isinstance(v, int | float))
        used = ", ".join(f"{v} {k.replace('_', ' ')}" for k, v in self.rows.items() if isinstance(v, int))
        return f"{self.model}\n  {self.steps} steps; rows: {used}\n  {shown}"


@contextmanager
def run_arguments(
    command: str,
    release: Release,
    model: str,
    out: Path,
    settings: Tuning,
    sets: Sequence[str],
    arguments_type: type[Any],
    defaults: Mapping[str, Any],
    *,
    text_only: bool,
    resume: bool,
    told: Mapping[str, Any] | None = None,
) -> Iterator[Begun]:
    """The run's folder, locked, and TRL's arguments; a failure is written into its record."""
    import torch
    from accelerate import PartialState

    _, given = read_sets(sets, Nothing, arguments_type)
    on_gpu = torch.cuda.is_available() and not given.get("use_cpu", False)
    device = {
        "use_cpu": not on_gpu,
        "bf16": on_gpu,
        "gradient_checkpointing": on_gpu and not getattr(settings, "share_prefix", False),
        "logging_steps": 1,
        "save_strategy": "steps",
        "save_steps": 50,
        "seed": 0,
    }
    arguments = make_arguments(
        arguments_type,
        given,
        {**device, **defaults},
        output_dir=str(out / "checkpoints"),
        report_to=[],
        disable_tqdm=True,
        **({"max_length": None} if command == "train-sft" else {}),
    )
    facts = {
        "command": command,
        "model": model,
        "release": {"name": release.path.name, "content_hash": release.manifest["content_hash"]},
        "settings": settings.model_dump(mode="json"),
        "trainer": dict(given),
        "text_only": text_only,
        **(told or {}),
    }
    with open_run(out, facts, resume=resume, is_main=PartialState().is_main_process) as run:
        yield Begun(run, arguments, resume)


def load_policy(model: str, settings: Tuning, *, text_only: bool) -> Loaded:
    """The policy to train, with adapters where the settings ask for them."""
    return load(
        model,
        text_only=text_only,
        lora=Lora(settings.lora_r, settings.lora_alpha) if settings.tune == "lora" else None,
        dtype=settings.dtype,
        freeze_vision=settings.freeze_vision,
        chat_template=Path(settings.chat_template) if settings.chat_template else None,
    )


def trained(trainer: Any, begun: Begun, *, quiet: bool) -> None:
    """Train to the end, from the newest whole checkpoint where the run goes on. A SerError is noted in run.json."""
    follow(trainer, begun.run, keep=CHECKPOINTS_KEPT, quiet=quiet)
    checkpoint = newest_checkpoint(begun.run) if begun.resume else None
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    except SerError as exc:
        begun.run.note(stopped=exc.message)
        raise


def finish(trainer: Any, loaded: Loaded, begun: Begun) -> RunResult:
    """Save what the run came to: a plain model, and the adapter beside it where there is one."""
    run, state = begun.run, trainer.state
    metrics = dict(state.log_history[-1]) if state.log_history else {}
    trainer.accelerator.wait_for_everyone()
    if run.is_main:
        if loaded.has_adapter:
            save(loaded, run.adapter)
        save(merged(loaded), run.model)
    trainer.accelerator.wait_for_everyone()
    result = RunResult(
        run.root,
        run.model,
        state.global_step,
        {k: v for k, v in metrics.items() if k in ("train_loss", "train_runtime", "epoch")},
        run.record.get("rows", {}),
        model_hash(run.model),
    )
    run.note(result={k: v for k, v in result.to_json().items() if k not in ("out", "model")})
    return result
