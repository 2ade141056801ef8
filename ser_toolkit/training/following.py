"""What a trainer tells while it runs: one callback that keeps the run's books, and a line of progress for people."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any

from .runs import RunFolder, append_metrics, checkpoints_of, cut_metrics, seal

PLAIN_EVERY_S, LIVE_EVERY_S = 30.0, 0.2


def make_callback(run: RunFolder, *, keep: int | None, quiet: bool) -> Any:
    """A TrainerCallback (transformers is imported here, not with this module)."""
    from accelerate import PartialState
    from transformers import TrainerCallback

    class Following(TrainerCallback):
        def __init__(self) -> None:
            self._line = ProgressLine(quiet=quiet or not run.is_main)

        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            if run.is_main:
                cut_metrics(run, state.global_step)
            self._line.begin(state.global_step, state.max_steps)

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **more: Any) -> None:
            if run.is_main and logs:
                append_metrics(run, state.global_step, logs)
                self._line.loss = logs.get("loss", self._line.loss)

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self._line.at(state.global_step)

        def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            PartialState().wait_for_everyone()  # each process writes a part of a checkpoint
            if run.is_main:
                seal(run.checkpoints / f"checkpoint-{state.global_step}")
                best = state.best_model_checkpoint
                old = [c for c in checkpoints_of(run.checkpoints) if str(c) != best]
                for folder in old[: len(old) - keep] if keep else ():
                    shutil.rmtree(folder)

        def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            self._line.end(state.global_step)

    return Following()


def leave_no_trace(trainer: Any) -> None:
    """Have an evaluation give the random state back as it was.

    Even a loader that does not shuffle draws a seed. A run that is resumed from a checkpoint at the end of an epoch
    never makes the evaluation that came after it, and would go on with other dropout than one that was not interrupted.
    """
    import torch

    evaluate = trainer.evaluate
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []

    def undisturbed(*args: Any, **named: Any) -> Any:
        with torch.random.fork_rng(devices):
            return evaluate(*args, **named)

    trainer.evaluate = undisturbed


class ProgressLine:
    """Steps, loss, time left: on a terminal a line that changes, elsewhere a line every 30 s."""

    def __init__(self, *, quiet: bool) -> None:
        self.loss: float | None = None
        self._quiet, self._live = quiet, sys.stderr.isatty()
        self._first = self._total = 0
        self._began = self._said = time.monotonic()

    def begin(self, step: int, total: int) -> None:
        self._first, self._total = step, total
        self._began = self._said = time.monotonic()

    def at(self, step: int) -> None:
        now = time.monotonic()
        if not self._quiet and now - self._said >= (LIVE_EVERY_S if self._live else PLAIN_EVERY_S):
            self._said = now
            self._say(step, "\r\033[K" if self._live else "", "" if self._live else "\n")

    def end(self, step: int) -> None:
        if not self._quiet:
            self._say(step, "\r\033[K" if self._live else "", "\n")

    def _say(self, step: int, before: str, after: str) -> None:
        done, seconds = step - self._first, time.monotonic() - self._began
        parts = [f"training   step {step}/{self._total}"]
        if self.loss is not None:
            parts.append(f"loss {self.loss:.4f}")
        if done:
            parts.append(f"{seconds / done:.2f} s a step")
            left = seconds / done * (self._total - step)
            parts.append(f"{left:.0f} s left" if step < self._total else f"{seconds:.0f} s")
        print(before + "  ".join(parts), end=after, file=sys.stderr, flush=True)
