"""Parquet files and folders of `datasets.save_to_disk` -> raw records, a batch of rows in memory at a time."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from ser_toolkit.errors import UsageError
from ser_toolkit.schema import Failure

from .base import ReadContext
from .reading import Raw, files_of, import_failure

BATCH = 256
"""Rows that are held at once."""


def parquet_rows(path: Path, context: ReadContext) -> Iterator[Raw | Failure]:
    """The rows of Parquet files. A file that is none, or is damaged, is a Failure."""
    for file in files_of(path, (".parquet",)):
        name = file.name if file == path else file.relative_to(path).as_posix()
        yield from _rows(_parquet_batches(file), name, context)


def dataset_rows(path: Path, context: ReadContext) -> Iterator[Raw | Failure]:
    """The rows of a dataset on disk; `file` is the split's name where there are splits. Raises UsageError."""
    from datasets import DatasetDict, load_from_disk

    try:
        found = load_from_disk(str(path))
    except (OSError, ValueError, KeyError, TypeError) as exc:
        hint = "name a folder written by `save_to_disk`; for Parquet files use the format parquet"
        raise UsageError(f"{path}: not a dataset folder: {exc}", hint) from exc
    splits = found.items() if isinstance(found, DatasetDict) else [("", found)]
    for name, split in splits:
        tables: Any = split.with_format("arrow").iter(BATCH)
        yield from _rows((table.to_pylist() for table in tables), str(name), context)


def _parquet_batches(file: Path) -> Iterator[list[Any]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file, pre_buffer=False) as table:
        for batch in table.iter_batches(BATCH):
            yield batch.to_pylist()


def _rows(batches: Iterator[list[Any]], name: str, context: ReadContext) -> Iterator[Raw | Failure]:
    import pyarrow as pa

    row = 0
    try:
        for batch in batches:
            for value in batch:
                row += 1
                files: dict[str, bytes] = {}
                yield Raw(plain(value, files), name, f"record {row}", files=files)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as exc:
        reason = f"not readable after record {row}: {exc}"
        yield import_failure(context.spec.format, name, "unreadable", reason)


def plain(value: Any, files: dict[str, bytes]) -> Any:
    """A value of a table as JSON has it: NaN is missing, times are text, bytes their hash and length.

    The bytes themselves go into `files`, by their hash.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): plain(v, files) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, files) for v in value]
    if isinstance(value, bytes):
        sha = hashlib.sha256(value).hexdigest()
        files[sha] = value
        return {"sha256": sha, "bytes": len(value)}
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    return value
