"""The folder of a training run: what it was told, what it measured, its checkpoints, what it came to.

    RUN/run.json          command, settings as given and as resolved, data, model, versions; at the end the result
        metrics.jsonl     a line for each report of the trainer: the run's truth; `tensorboard/` shows the same
        checkpoints/      checkpoint-N; one that bears no seal was being written when the run was killed, and is dropped
        model/            a plain Hugging Face model with its card; `adapter/` beside it where LoRA was trained

A lock of the kernel's keeps two runs out of one folder. With several processes the first one alone writes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, UsageError
from ..workspace import Workspace, writing
from .models import RESULT

RECORD, METRICS, SEAL = "run.json", "metrics.jsonl", "sealed.json"
HASHED_BYTES = 64 << 20
"""A checkpoint's files up to this size are compared by hash, larger ones by size alone."""
_TOLD = ("torch", "transformers", "trl", "peft", "accelerate", "datasets", "ser-toolkit")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The paths of a run, and its record. `is_main`: whether this process may write."""

    root: Path
    record: dict[str, Any]
    is_main: bool = True

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def metrics(self) -> Path:
        return self.root / METRICS

    @property
    def tensorboard(self) -> Path:
        return self.root / "tensorboard"

    @property
    def model(self) -> Path:
        """The plain model that the run came to."""
        return self.root / RESULT

    @property
    def adapter(self) -> Path:
        return self.root / "adapter"

    @property
    def result(self) -> dict[str, Any] | None:
        """What a finished run came to; `None` while it is not finished."""
        return self.record.get("result")

    def note(self, **facts: Any) -> None:
        """Put facts into run.json; `result=` finishes the run."""
        self.record.update(facts)
        if self.is_main:
            _write_json(self.root / RECORD, self.record)

    def lines(self) -> list[dict[str, Any]]:
        """What metrics.jsonl holds; a last line that was cut off by a kill is left out."""
        return _lines(self.metrics)


@contextmanager
def open_run(root: Path, told: Mapping[str, Any], *, resume: bool, is_main: bool = True) -> Iterator[RunFolder]:
    """The folder of a run, locked. `told` is JSON: `command`, and whatever decides what the run computes.

    A new run wants a folder that holds none. `resume` goes on with the run that stands there, if it was told the same.
    Raises UsageError where a run stands there, CheckpointError where none does, or another one; DataError where the
    folder is locked or cannot be written.
    """
    told = json.loads(json.dumps(told))
    with ExitStack() as held:
        if is_main:
            if resume and not (root / RECORD).is_file():
                raise CheckpointError(f"{root}: there is no run to go on with", "leave --resume out to begin one")
            held.enter_context(Workspace(root).locked())
        file = root / RECORD
        if not file.is_file():
            record: dict[str, Any] = {"told": told, "versions": _versions(), "began": _now()}
        else:
            record = _read_record(file)
            if is_main and not resume:
                done = "a finished run" if "result" in record else "an unfinished run"
                raise UsageError(f"{root}: {done} stands here", "--resume goes on with it; --out names another folder")
            if is_main:
                _same_run(root, record["told"], told)
        run = RunFolder(root, record, is_main)
        if is_main:
            with writing(root):
                run.checkpoints.mkdir(exist_ok=True)
                run.note(resumed=[*record.get("resumed", []), _now()] if resume else [])
        yield run


def newest_checkpoint(run: RunFolder) -> Path | None:
    """The last whole checkpoint; `None` where none was finished. What a kill left half written is removed.

    Raises CheckpointError for one that was whole and is not any more.
    """
    for folder in reversed(checkpoints_of(run.checkpoints)):
        if not (folder / SEAL).is_file():
            if run.is_main:
                shutil.rmtree(folder)
            continue
        for name, kept in _sealed(folder).items():
            if not (folder / name).is_file() or _print_of(folder / name) != kept:
                raise CheckpointError(
                    f"{folder / name}: is not as it was saved",
                    f"delete {folder} to go on from the checkpoint before it",
                )
        return folder
    return None


def _sealed(folder: Path) -> dict[str, list[Any]]:
    try:
        return json.loads((folder / SEAL).read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise CheckpointError(
            f"{folder / SEAL}: cannot be read: {exc}", f"delete {folder} to go on from the checkpoint before it"
        ) from exc


def checkpoints_of(folder: Path) -> list[Path]:
    """checkpoint-N in the order of their steps."""
    found = [c for c in folder.glob("checkpoint-*") if c.name.rpartition("-")[2].isdigit()]
    return sorted(found, key=lambda c: int(c.name.rpartition("-")[2]))


def seal(checkpoint: Path) -> None:
    """Say that a checkpoint is whole: all its files are on the disk, and listed."""
    told: dict[str, list[Any]] = {}
    for file in sorted(p for p in checkpoint.rglob("*") if p.is_file()):
        handle = os.open(file, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        told[str(file.relative_to(checkpoint))] = _print_of(file)
    _write_json(checkpoint / SEAL, told)


def cut_metrics(run: RunFolder, step: int) -> None:
    """Drop what was reported after `step`: a resumed run reports it again."""
    kept = [line for line in run.lines() if line.get("step", 0) <= step]
    part = run.metrics.with_suffix(".part")
    part.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
    part.replace(run.metrics)


def follow(trainer: Any, run: RunFolder, *, keep: int | None = 2, quiet: bool = False) -> None:
    """Have a trainer of transformers or TRL report to the run: metrics.jsonl, sealed checkpoints, progress on stderr.

    `keep` checkpoints stay; the trainer's own `save_total_limit` must be unset, since it would count unsealed ones.
    Nothing that it prints reaches stdout.
    """
    from transformers.trainer_callback import PrinterCallback, ProgressCallback

    from .following import leave_no_trace, make_callback

    leave_no_trace(trainer)
    for own in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(own)
    trainer.add_callback(make_callback(run, keep=keep, quiet=quiet))


def append_metrics(run: RunFolder, step: int, logs: Mapping[str, Any]) -> None:
    """One line of metrics.jsonl. A number that is none becomes null: missing, never zero."""
    line = {"step": step, "time": round(time.time(), 3), **{k: _plain(v) for k, v in logs.items()}}
    with run.metrics.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def model_hash(folder: Path) -> str:
    """SHA-256 over the weights of a saved model or adapter."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _same_run(root: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    differ = sorted(_differences(before, now))
    if differ:
        raise CheckpointError(
            f"{root}: that run was told otherwise: {'; '.join(differ[:4])}",
            "give the same arguments as at first, or begin another run with another --out",
        )


def _differences(before: Any, now: Any, at: str = "") -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in {*before, *now}:
            yield from _differences(before.get(key), now.get(key), f"{at}.{key}" if at else key)
    elif before != now:
        yield f"{at} was {before!r}, is {now!r}"


def _read_record(file: Path) -> dict[str, Any]:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        record["told"]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise CheckpointError(f"{file}: cannot be read: {exc}", "the run is damaged: begin another one") from exc
    return record


def _lines(file: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if file.is_file():
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                break
    return found


def _print_of(file: Path) -> list[Any]:
    size = file.stat().st_size
    if size > HASHED_BYTES:
        return [size]
    with file.open("rb") as stream:
        return [size, hashlib.file_digest(stream, "sha256").hexdigest()]


def _write_json(file: Path, value: Any) -> None:
    part = file.with_name(f".{file.name}.part")
    with part.open("w", encoding="utf-8") as stream:
        json.dump(value, stream, indent=1, ensure_ascii=False)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(file)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": sys.platform}
    for name in _TOLD:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
