"""The embedded model (SmolLM2-135M-Instruct) as one that can be trained: its GGUF, converted once to safetensors.

The weights are those of the Q4_1 file, dequantised, in float32 (540 MB beside the 98 MB file). A first use takes about
a minute on one core, later ones read the cache.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import DataError, UsageError
from ..llm.embedded_files import MODEL_FILE, MODEL_SHA256, builtin_model, cache_folder
from .extra import PIP_LINE

FORM = "1"
"""A change of how it is converted is a new folder in the cache."""


def embedded_folder() -> Path:
    """The folder of the converted model, made where the cache lacks it.

    Raises RemoteError where the GGUF cannot be fetched, DataError where the cache cannot be written.
    """
    file = builtin_model()
    folder = cache_folder() / "models" / f"{MODEL_FILE.removesuffix('.gguf')}-{MODEL_SHA256[:12]}-hf{FORM}"
    try:
        with _one_at_a_time(folder.with_suffix(".lock")):
            if not folder.is_dir():
                part = Path(tempfile.mkdtemp(prefix=".convert-", dir=folder.parent))
                try:
                    _convert(file, part)
                    part.chmod(0o755)
                    part.replace(folder)
                finally:
                    shutil.rmtree(part, ignore_errors=True)
    except OSError as exc:
        raise DataError(
            f"{folder.parent}: cannot be written: {exc}", "set SER_CACHE to a folder with 1 GB free"
        ) from exc
    return folder


def _convert(file: Path, folder: Path) -> None:
    try:
        import gguf
    except ImportError as exc:
        raise UsageError(f"training the embedded model needs gguf: {exc}", PIP_LINE) from exc
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    print("converting the embedded model for training (once, about a minute) ...", file=sys.stderr, flush=True)
    plain = gguf.GGUFReader
    gguf.GGUFReader = functools.cache(plain)  # it is slow, and transformers reads the same file four times
    try:
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
        model: Any = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    finally:
        gguf.GGUFReader = plain
    model.hf_quantizer = None  # else it refuses to be saved
    del model.config.quantization_config
    model.config._name_or_path = "embedded"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for saved in folder.iterdir():
        saved.chmod(0o644)


@contextmanager
def _one_at_a_time(lock: Path) -> Iterator[None]:
    """Two processes that need the model at once: one converts, the other waits."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
