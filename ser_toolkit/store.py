"""Tables of a workspace: typed Parquet whose columns follow a pydantic record.

A table is written row group by row group into `NAME.parquet.part`, and takes its name only when it is whole and on
disk: a reader never sees half a table. Columns hold no times and no attempts, so equal records give equal bytes.
Fields of free JSON are stored as JSON text.
"""

from __future__ import annotations

import io
import json
import os
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.json import ParseOptions, ReadOptions, read_json
from pydantic import BaseModel, ValidationError

from .errors import DataError
from .schema import Json, Record
from .workspace import writing

R = TypeVar("R", bound=Record)
ROW_GROUP = 1024


class TableWriter(Generic[R]):
    """Append records of one class; `finish` makes the table appear, `abandon` leaves no trace."""

    def __init__(self, path: Path, record: type[R]) -> None:
        self.rows = 0
        self._path = path
        self._part = path.with_suffix(".parquet.part")
        self._schema, self._dump, _ = _plan(record)
        self._buffer: list[bytes] = []
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = pq.ParquetWriter(self._part, self._schema, compression="zstd", write_page_checksum=True)

    def append(self, record: R) -> None:
        self._buffer.append(self._dump(record))
        self.rows += 1
        if len(self._buffer) >= ROW_GROUP:
            self._spill()

    def finish(self) -> None:
        """Write what is left, sync, and put the table in its place."""
        with writing(self._path):
            self._spill()
            self._file.close()
            sync(self._part)
            self._part.replace(self._path)
            sync(self._path.parent)

    def abandon(self) -> None:
        """Leave the table that was there before, if any."""
        with writing(self._path):
            self._file.close()
            self._part.unlink(missing_ok=True)

    def _spill(self) -> None:
        if self._buffer:
            with writing(self._path):
                self._file.write_table(_read_lines(self._buffer, self._schema))
            self._buffer.clear()


def read_table(path: Path, record: type[R]) -> Iterator[R]:
    """The records of a table, in order, a batch at a time. A table that is not there has no rows. Raises DataError."""
    if not path.exists():
        return
    _, _, unpack = _plan(record)
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for batch in file.iter_batches(batch_size=ROW_GROUP):
                for row in batch.to_pylist():
                    yield record.model_validate(unpack(row))
    except (pa.ArrowException, ValidationError, KeyError, OSError) as exc:
        raise DataError(
            f"{path}: damaged, or of another version ({type(exc).__name__})",
            "delete it and run `ser build` again: the journal replays it without new calls",
        ) from exc


def write_table(path: Path, record: type[R], records: Iterable[R]) -> int:
    """A whole table at once; returns its number of rows."""
    writer = TableWriter(path, record)
    try:
        for item in records:
            writer.append(item)
    except BaseException:
        writer.abandon()
        raise
    writer.finish()
    return writer.rows


def write_json(path: Path, value: Any) -> None:
    """A small JSON file beside the tables, whole or not at all."""
    part = path.with_suffix(".json.part")
    with writing(part):
        part.write_text(json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True), encoding="utf-8")
        sync(part)
        part.replace(path)


def arrow_table(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows of plain values as an Arrow table.

    By way of JSON: pyarrow's own conversion of Python objects imports pandas, which takes a second of CPU.
    """
    return _read_lines([orjson.dumps(row) for row in rows], schema)


def _read_lines(lines: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    data = b"\n".join(lines)
    return read_json(
        io.BytesIO(data),
        read_options=ReadOptions(block_size=len(data) + 1, use_threads=False),
        parse_options=ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
    )


def sync(path: Path) -> None:
    """fsync a file or a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


Change = Callable[[Any], Any]


@cache
def _plan(record: type[Record]) -> tuple[pa.Schema, Callable[[Any], bytes], Change]:
    """A record class' Arrow schema, how its instances become lines of JSON, and how rows become instances' fields."""
    kind, pack, unpack = _record_plan(record)
    # pydantic writes the same line several times faster, but knows nothing of free JSON as text.
    dump = (lambda value: orjson.dumps(pack(value))) if _holds_json(record) else record.__pydantic_serializer__.to_json
    return pa.schema(list(kind)), dump, unpack


def _holds_json(annotation: Any) -> bool:
    if annotation == Json:
        return True
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return any(_holds_json(field.annotation) for field in annotation.model_fields.values())
    return any(_holds_json(a) for a in typing.get_args(annotation) if a is not Ellipsis)


def _record_plan(record: type[BaseModel]) -> tuple[pa.DataType, Change, Change]:
    plans = {name: _type_plan(field.annotation) for name, field in record.model_fields.items()}
    kind = pa.struct([pa.field(name, plan[0]) for name, plan in plans.items()])

    def pack(value: BaseModel) -> dict[str, Any]:
        return {name: plan[1](getattr(value, name)) for name, plan in plans.items()}

    def unpack(row: dict[str, Any]) -> dict[str, Any]:
        return {name: plan[2](row[name]) for name, plan in plans.items()}

    return kind, pack, unpack


def _type_plan(annotation: Any) -> tuple[pa.DataType, Change, Change]:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation == Json:
        return pa.string(), _dump_json, orjson.loads
    if origin in (typing.Union, types.UnionType):
        kind, pack, unpack = _type_plan(next(a for a in args if a is not type(None)))
        return kind, _unless_none(pack), _unless_none(unpack)
    if origin is typing.Literal:
        return (pa.string() if isinstance(args[0], str) else pa.int64()), _same, _same
    if origin is tuple:
        kind, pack, unpack = _type_plan(args[0])
        return pa.list_(kind), _each(pack), _each(unpack)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _record_plan(annotation)
    scalar = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    return scalar[annotation], _same, _same


def _dump_json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _same(value: Any) -> Any:
    return value


def _unless_none(change: Change) -> Change:
    return change if change is _same else lambda value: None if value is None else change(value)


def _each(change: Change) -> Change:
    return list if change is _same else lambda values: [change(v) for v in values]
