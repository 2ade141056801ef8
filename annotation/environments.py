"""An environment of its own for an annotation server, whose pins would not agree with ours: a venv of its own.

    argilla-2f4c81d0/        the venv; the name hangs on what is installed and on the Python
    argilla-2f4c81d0/.whole  written last: without it the folder is a killed install's, and is made anew
    argilla-2f4c81d0.log     what pip said

They stand in `environments/` of the venv that runs us, so that they go when it goes; where we run in none, or where
$SER_CACHE is set, in that of the cache of models. What stands there may be deleted at any time; the next start makes it
again. May import: ser_toolkit.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ser_toolkit.errors import AnnotationError, DataError
from ser_toolkit.llm.embedded_files import cache_folder

WHOLE = ".whole"
SAY_EVERY_S = 15.0
PIP_OPTIONS = ("--no-input", "--disable-pip-version-check", "--progress-bar=off", "--no-compile")


def environment(name: str, requirements: Sequence[str]) -> Path:
    """The Python of an environment that holds exactly these pip requirements, installed now where it is not there.

    Two processes may ask at once: one installs, the other waits. Raises AnnotationError where the install fails (with
    pip's own words), DataError where the cache cannot be written.
    """
    digest = hashlib.sha256("\n".join([sys.version, sys.base_prefix, *requirements]).encode()).hexdigest()[:12]
    folder = _home() / f"{name}-{digest}"
    python = folder / "bin" / "python"
    if _is_whole(folder, python):
        return python
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder):
            if not _is_whole(folder, python):
                _make(name, folder, python, requirements)
    except OSError as exc:
        raise DataError(
            f"{folder}: cannot be written: {exc}", "set SER_CACHE to a writable folder with 2 GB free"
        ) from exc
    return python


def _home() -> Path:
    is_in_venv = sys.prefix != sys.base_prefix
    return (Path(sys.prefix) if is_in_venv and "SER_CACHE" not in os.environ else cache_folder()) / "environments"


def _is_whole(folder: Path, python: Path) -> bool:
    return (folder / WHOLE).exists() and python.exists()  # a link to a Python that is gone does not exist


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold this environment; the kernel lets go when the process ends, however it ends."""
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(name: str, folder: Path, python: Path, requirements: Sequence[str]) -> None:
    log = folder.with_name(f"{folder.name}.log")
    print(f"installing {requirements[0]} into an environment of its own (once): {folder}", file=sys.stderr, flush=True)
    began = time.monotonic()
    try:
        shutil.rmtree(folder, ignore_errors=True)
        log.unlink(missing_ok=True)
        has_pip = (
            importlib.util.find_spec("pip") is not None
        )  # then the new one needs none of its own, which takes time
        _run([sys.executable, "-m", "venv", *(["--without-pip"] if has_pip else []), str(folder)], name, log)
        pip = [sys.executable, "-m", "pip", "--python", str(python)] if has_pip else [str(python), "-m", "pip"]
        _run([*pip, "install", *PIP_OPTIONS, *requirements], name, log)
        (folder / WHOLE).write_text("\n".join(requirements) + "\n", encoding="utf-8")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    print(f"installed in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


def _run(command: Sequence[str], name: str, log: Path) -> None:
    """Run one step, its output into the log; now and then a line of where it is. Raises AnnotationError."""
    keep = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    began = said = time.monotonic()
    lines: list[str] = []
    with (
        log.open("a", encoding="utf-8") as out,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", env=keep,
        ) as process,
    ):  # fmt: skip
        try:
            for line in process.stdout or ():
                out.write(line)
                lines.append(line.strip())
                if time.monotonic() - said >= SAY_EVERY_S:
                    said = time.monotonic()
                    print(f"  {_stage(lines)}, {said - began:.0f} s", file=sys.stderr, flush=True)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        errors = [line for line in lines if line.startswith("ERROR")] or lines[-3:]
        raise AnnotationError(
            f"the environment of {name} could not be made: {' '.join(errors)[:600] or 'no word of why'}",
            f"it needs the package index once; the whole story is in {log}, and the same command tries again",
        )


def _stage(lines: Sequence[str]) -> str:
    if any(line.startswith("Installing collected packages") for line in lines):
        return "unpacking"
    return f"{sum(line.startswith('Collecting') for line in lines)} packages found"
