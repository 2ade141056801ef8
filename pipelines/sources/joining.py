"""Tables in which a row is a turn: neighbouring rows with one dialogue id joined to one record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, groupby
from typing import Any

from ser_toolkit.errors import RecordError, UsageError
from ser_toolkit.schema import Failure

from .columns import key_of, missing, turns_key
from .finish import short_hash
from .reading import Raw, import_failure

_HOW = (
    "map them (`columns:` in ser.yaml, --column FIELD=COLUMN): turns, where a row is a dialogue; "
    "dialogue_id, speaker and text, where a row is a turn"
)


ROWS_LIMIT = 10_000
"""Rows of the longest dialogue: a wrong column must not gather a whole table in memory."""


class Joined(dict[str, Any]):
    """A dialogue made of rows: {"id": its id or "", "turns": its rows}."""


def join_rows(
    raws: Iterator[Raw | Failure], columns: Mapping[str, str], name: str, *, is_table: bool
) -> Iterator[Raw | Failure]:
    """Records of files in which a row is a turn, joined; those of others as they are.

    Which it is, the first record of a file tells. Raises UsageError where a table lacks a column (`is_table`: all
    its rows have the same). A row that could not be read leaves a gap: the dialogue that it stood in, or next to,
    is flagged "row_missing". A JSON list of turns without dialogue ids is one dialogue.
    """
    for _, part in groupby(raws, key=lambda raw: raw.file):
        yield from _one_file(part, columns, name, is_table=is_table)


def _one_file(
    raws: Iterator[Raw | Failure], columns: Mapping[str, str], name: str, *, is_table: bool
) -> Iterator[Raw | Failure]:
    is_gap = False
    for raw in raws:  # up to the first record
        if isinstance(raw, Failure):
            is_gap = True
            yield raw
            continue
        by_row = _is_turn(raw.value, columns)
        if is_table:
            _require_columns(raw, columns, by_row=by_row)
        rest = chain([raw], raws)
        is_one = not is_table and raw.position.startswith("record") and by_row and not _has_ids(raw, columns)
        joiner = _Joiner(columns, name, is_one=is_one, is_gap=is_gap)
        yield from joiner.join(rest) if by_row else rest


def _is_turn(value: Any, columns: Mapping[str, str]) -> bool:
    if not isinstance(value, dict):
        return False
    if not columns.keys().isdisjoint(("dialogue_id", "speaker", "text")):
        return True
    if any(field.startswith("turns") for field in columns) or turns_key(value, columns) is not None:
        return False
    return key_of(value, "speaker", columns) is not None and key_of(value, "text", columns) is not None


def _require_columns(raw: Raw, columns: Mapping[str, str], *, by_row: bool) -> None:
    needed = ("dialogue_id", "speaker", "text") if by_row else ("turns",)
    inside = {field for field in columns if field.startswith("turns.")}  # keys of a turn, no columns
    for field in dict.fromkeys((*needed, *(columns.keys() - inside))):
        found = (
            turns_key(raw.value, {}) if field == "turns" and "turns" not in columns else _column(raw, field, columns)
        )
        if found is None:
            raise UsageError(f"{raw.file}: {missing(field, columns.get(field), raw.value)}", _HOW)


def _column(raw: Raw, field: str, columns: Mapping[str, str]) -> str | None:
    try:
        return key_of(raw.value, field, columns)
    except RecordError:
        return None


def _has_ids(raw: Raw, columns: Mapping[str, str]) -> bool:
    return "dialogue_id" in columns or key_of(raw.value, "dialogue_id", columns) is not None


class _Joiner:
    """Joins the rows of one file; `is_one`: they have no ids, and the file is one dialogue."""

    def __init__(self, columns: Mapping[str, str], name: str, *, is_one: bool, is_gap: bool) -> None:
        self._columns = columns
        self._name = name
        self._is_one = is_one
        self._is_gap = is_gap
        self._has_gap = False
        self._start: Raw | None = None
        self._id = ""
        self._rows: list[Any] = []
        self._files: dict[str, bytes] = {}
        self._count = 0
        self._seen: set[int] = set()

    def join(self, raws: Iterable[Raw | Failure]) -> Iterator[Raw | Failure]:
        for raw in raws:
            own_id = "" if isinstance(raw, Failure) else self._id_of(raw)
            if isinstance(raw, Failure) or own_id is None:
                self._is_gap = True
                yield raw if isinstance(raw, Failure) else self._failure(raw, "malformed", "the row has no dialogue id")
                continue
            if self._start is None or own_id != self._id:
                yield from self._close()
                self._start, self._id, self._rows, self._count, self._has_gap = raw, own_id, [], 0, False
                self._files = {}
            self._count += 1
            if self._count <= ROWS_LIMIT:
                self._rows.append(raw.value)
                self._files.update(raw.files)
            self._has_gap |= self._is_gap
            self._is_gap = False
        yield from self._close()

    def _close(self) -> Iterator[Raw | Failure]:
        start, rows = self._start, self._rows
        if start is None:
            return
        if self._count > ROWS_LIMIT:
            reason = f"{self._count} neighbouring rows have the dialogue id {self._id!r}: is that the right column?"
            yield self._failure(start, "malformed", reason, self._id)
            return
        key = short_hash(self._id)
        if key in self._seen:
            reason = f"the dialogue id {self._id!r} was there before, with others between: sort the rows by it"
            yield self._failure(start, "duplicate_id", reason, self._id)
            return
        self._seen.add(key)
        has_gap = self._has_gap or self._is_gap
        flags = (*start.flags, "row_missing") if has_gap else start.flags
        yield Raw(Joined(id=self._id, turns=rows), start.file, start.position, flags, self._files)

    def _id_of(self, raw: Raw) -> str | None:
        if self._is_one:
            return ""
        key = _column(raw, "dialogue_id", self._columns) if isinstance(raw.value, dict) else None
        found = raw.value[key] if key else None
        return str(found).strip() or None if isinstance(found, str | int) else None

    def _failure(self, raw: Raw, kind: str, reason: str, own_id: str = "") -> Failure:
        return import_failure(self._name, raw.file, kind, reason, raw.position, str(raw.value), own_id)
