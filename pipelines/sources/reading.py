"""Files -> raw records: JSON in all its layouts, CSV and plain text, one record at a time.

Whatever cannot be read is a `Failure` at its place, and reading goes on behind it where that is possible:
a line or an element of a list fails alone. Memory is bounded by the longest record allowed (`RECORD_LIMIT`).
"""

from __future__ import annotations

import csv
import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from ser_toolkit.errors import RecordError, UsageError
from ser_toolkit.schema import Failure

from .base import ReadContext
from .encoding import HEAD, Opened, open_utf8, suggest_encoding
from .splitting import Piece, split_json, split_lines

RECORD_LIMIT = 32 << 20
"""Bytes of the longest record (line, list element, whole-file text) that is read."""
ROW_LINES = 500
"""Lines that one CSV row may span; past them a quote counts as never closed."""
JSON_SUFFIXES = (".json", ".jsonl", ".ndjson", ".txt")

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_BAD_BYTE = re.compile(r"[\udc80-\udcff]")


@dataclass(frozen=True, slots=True)
class Raw:
    """One record as the file holds it: a JSON value, a row (dict) or a text.

    `file` is relative to the path given; `position` is "line 7", "record 3", or "" for a whole file. `flags`
    names what reading had to mend: "decoded_utf-16", "lone_surrogates_replaced". `files` holds the bytes of a table's
    row by their SHA-256, by which the value names them.
    """

    value: Any
    file: str
    position: str
    flags: tuple[str, ...] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)


def files_of(path: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """The file itself, or a folder's files with these suffixes, at any depth, sorted. Raises UsageError."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise UsageError(f"{path}: no such file or folder", "check the path after the colon of FORMAT:PATH")
    files = sorted(
        p
        for p in path.rglob("*")
        if p.suffix.lower() in suffixes
        and p.is_file()
        and not any(part.startswith(".") for part in p.relative_to(path).parts)
    )
    if not files:
        raise UsageError(f"{path}: the folder holds no {' or '.join(suffixes)} file", "name the file itself")
    return files


def json_records(path: Path, context: ReadContext) -> Iterator[Raw | Failure]:
    """The records of JSON files: a list, JSON Lines or an object, told apart by content, not by suffix."""
    return _each_file(path, JSON_SUFFIXES, context, _json_records)


def json_files(path: Path, context: ReadContext) -> Iterator[Raw | Failure]:
    """One JSON value a file, whole."""
    return _each_file(path, (".json",), context, _json_file)


def text_files(path: Path, context: ReadContext) -> Iterator[Raw | Failure]:
    """One text a file, its line ends as newlines."""
    return _each_file(path, (".txt",), context, _text_file)


def csv_rows(path: Path, context: ReadContext) -> Iterator[Raw | Failure]:
    """The rows of CSV files as dicts of text; comma, semicolon or tab, as the header has it.

    A row with more or fewer fields than the header, with bytes of another encoding or with a quote that never
    closes is a Failure of its own line.
    """
    return _each_file(path, (".csv", ".tsv"), context, _csv_rows)


@dataclass(frozen=True, slots=True)
class _File:
    """A file that is being read: makes its Raws and its Failures."""

    name: str
    format: str
    opened: Opened

    def raw(self, value: Any, position: str, *flags: str) -> Raw:
        return Raw(value, self.name, position, (*self.opened.flags, *flags))

    def failure(self, kind: str, reason: str, position: str = "", text: str = "") -> Failure:
        return import_failure(self.format, self.name, kind, reason, position, text)

    def undecoded(self, data: bytes, piece: Piece, position: str) -> Failure:
        """What to say of bytes that are no UTF-8: where, which, and what would read them."""
        try:
            data.decode("utf-8")
            bad = 0
        except UnicodeDecodeError as exc:
            bad = exc.start
        text = data.decode("utf-8", "replace")
        if self.opened.encoding != "utf-8":
            return self.failure("unreadable", f"not valid {self.opened.encoding}", position, text)
        line = piece.line + data[:bad].count(b"\n")
        found = suggest_encoding(data, bad)
        cure = f"reads as {found}: set `encoding: {found}`" if found else "no other encoding fits either"
        return self.failure(
            "unreadable",
            f"not UTF-8: line {line}, byte {piece.start + bad} of the file (0x{data[bad]:02x}); {cure}",
            f"{position}, byte {piece.start + bad}" if position else f"line {line}, byte {piece.start + bad}",
            text,
        )


def import_failure(
    format: str, file: str, kind: str, reason: str, position: str = "", text: str = "", record_id: str = ""
) -> Failure:
    """The row for a record, a line or a file that could not be read; text and reason shortened."""
    return Failure(
        kind=kind,
        stage="import",
        reason=shorten(reason),
        record_id=shorten(record_id, 200),
        source=format,
        file=file,
        position=position,
        text=shorten(text),
    )


def shorten(text: str, length: int = 500) -> str:
    """At most `length` characters, valid as UTF-8."""
    text = text if len(text) <= length else text[: length - 1] + "…"
    return valid_text(text)


def valid_text(text: str) -> str:
    """The text with U+FFFD for every lone surrogate (pairs are joined)."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _each_file(
    path: Path,
    suffixes: tuple[str, ...],
    context: ReadContext,
    read: Callable[[_File], Iterator[Raw | Failure]],
) -> Iterator[Raw | Failure]:
    format = context.spec.format
    for file in files_of(path, suffixes):
        name = file.name if file == path else file.relative_to(path).as_posix()
        try:
            opened = open_utf8(file, context.spec.encoding)
            with opened.stream:
                yield from read(_File(name, format, opened))
        except RecordError as exc:
            yield import_failure(format, name, exc.kind, exc.reason, text=exc.text)
        except OSError as exc:
            yield import_failure(format, name, "unreadable", f"the file cannot be read: {exc.strerror or exc}")


# JSON


def _json_records(file: _File) -> Iterator[Raw | Failure]:
    stream, start = file.opened.stream, file.opened.start
    layout = _layout(stream.peek(HEAD)[:HEAD])
    if layout == "lines":
        pieces = (p for p in split_lines(stream, RECORD_LIMIT, start) if p.data is None or p.data.strip())
        results = (_parse(file, p, f"line {p.line}") for p in pieces)
    else:
        pieces = split_json(stream, RECORD_LIMIT, is_list=layout == "list", start=start)
        results = (_parse(file, p, f"record {n}") for n, p in enumerate(pieces, 1))
    if layout == "list":
        yield from results
        return
    first, second = next(results, None), next(results, None)
    if first is not None:
        alone = second is None and isinstance(first, Raw) and isinstance(first.value, dict)
        yield replace(first, position="") if alone and isinstance(first, Raw) else first
    if second is not None:
        yield second
    yield from results


def _layout(head: bytes) -> Literal["list", "lines", "objects"]:
    """How records lie in a file that begins like this."""
    first, newline, rest = head.lstrip().partition(b"\n")
    rest = rest.lstrip()
    is_line = bool(newline) and _is_json(first)
    if first[:1] == b"[":
        return "lines" if is_line and rest[:1] in (b"[", b"{") else "list"
    if first[:1] != b"{" or is_line or (not newline and len(head) >= HEAD):
        return "lines"
    next_is_line = rest[:1] == b"{" and _is_json(rest.partition(b"\n")[0])
    return "lines" if next_is_line else "objects"


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return False
    return True


def _json_file(file: _File) -> Iterator[Raw | Failure]:
    data = file.opened.stream.read(RECORD_LIMIT + 1)
    yield _parse(file, Piece(data if len(data) <= RECORD_LIMIT else None, file.opened.start, 1), "")


def _parse(file: _File, piece: Piece, position: str) -> Raw | Failure:
    if piece.data is None:
        return file.failure("unreadable", _TOO_LONG, position)
    try:
        text = piece.data.decode("utf-8")
    except UnicodeDecodeError:
        return file.undecoded(piece.data, piece, position)
    if piece.problem:
        return file.failure("unreadable", f"{piece.problem} (line {piece.line}, byte {piece.start})", position, text)
    try:
        value = json.loads(text, strict=False, parse_constant=_constant, object_pairs_hook=_object)
        if _SURROGATE.search(text):
            mended = _mend(value)
            return file.raw(mended, position, *(() if mended == value else ("lone_surrogates_replaced",)))
    except json.JSONDecodeError as exc:
        reason = f"not valid JSON: {exc.msg[:1].lower()}{exc.msg[1:]} (character {exc.pos + 1} of the record)"
        return file.failure("unreadable", reason, position, text)
    except RecursionError:
        return file.failure("unreadable", "not readable JSON: nested too deeply", position, text)
    except ValueError as exc:
        return file.failure("unreadable", f"not readable JSON: {exc}", position, text)
    return file.raw(value, position)


_TOO_LONG = f"longer than {RECORD_LIMIT >> 20} MB, or never closed"


def _constant(name: str) -> None:
    """NaN is how pandas writes a missing value; the infinities mean nothing here."""
    if name != "NaN":
        raise ValueError(f"{name} is no value")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise ValueError(f"the key {shorten(twice, 60)!r} stands twice in one object")
    return found


def _mend(value: Any) -> Any:
    if isinstance(value, str):
        return valid_text(value)
    if isinstance(value, list):
        return [_mend(v) for v in value]
    if isinstance(value, dict):
        return {valid_text(k): _mend(v) for k, v in value.items()}
    return value


# Text and tables


def _text_file(file: _File) -> Iterator[Raw | Failure]:
    data = file.opened.stream.read(RECORD_LIMIT + 1)
    if len(data) > RECORD_LIMIT:
        yield file.failure("unreadable", f"longer than {RECORD_LIMIT >> 20} MB")
        return
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        yield file.undecoded(data, Piece(data, file.opened.start, 1), "")
        return
    yield file.raw(text.replace("\r\n", "\n").replace("\r", "\n"), "")


def _csv_rows(file: _File) -> Iterator[Raw | Failure]:
    csv.field_size_limit(RECORD_LIMIT)
    lines = _Lines(split_lines(file.opened.stream, RECORD_LIMIT, file.opened.start))
    first = lines.peek()
    if first is None or first.data is None:
        yield file.failure("unreadable", "the header line is too long: is this a CSV?")
        return
    delimiter = max(",;\t", key=first.data.decode("utf-8", "replace").count)
    header: list[str] = []
    while (piece := lines.peek()) is not None:
        position = f"line {piece.line}"
        row = _csv_row(file, lines, delimiter, position)
        if isinstance(row, Failure):
            yield row
            if not header:
                return
        elif not row:
            continue
        elif not header:
            header = [name.strip() for name in row]
            if len(set(header)) < len(header):
                yield file.failure("malformed", f"two columns have one name: {', '.join(header)}", position)
                return
        elif len(row) != len(header):
            reason = f"{len(row)} fields where the header has {len(header)}: a quote or a delimiter may be amiss"
            yield file.failure("malformed", reason, position, delimiter.join(row))
        else:
            yield file.raw(dict(zip(header, row, strict=True)), position)


class _Lines:
    """The lines ahead, which a row may take and, where it proves to be none, give back."""

    def __init__(self, pieces: Iterator[Piece]) -> None:
        self._pieces = pieces
        self._ahead: deque[Piece] = deque()

    def peek(self) -> Piece | None:
        if not self._ahead:
            self._ahead.extend(p for p in (next(self._pieces, None),) if p)
        return self._ahead[0] if self._ahead else None

    def take(self) -> Piece | None:
        piece = self.peek()
        if piece:
            self._ahead.popleft()
        return piece

    def give_back(self, pieces: list[Piece]) -> None:
        self._ahead.extendleft(reversed(pieces))


def _csv_row(file: _File, lines: _Lines, delimiter: str, position: str) -> list[str] | Failure:
    """The row that begins at the next line; where it is none, that line alone is used up."""
    taken: list[Piece] = []

    def feed() -> Iterator[str]:
        size = 0
        while len(taken) < ROW_LINES and size < RECORD_LIMIT and (piece := lines.take()):
            taken.append(piece)
            size += len(piece.data or b"")
            yield (piece.data or b"").decode("utf-8", "surrogateescape")

    try:
        row = next(csv.reader(feed(), delimiter=delimiter, strict=True))
    except csv.Error as exc:
        lines.give_back(taken[1:])
        text = (taken[0].data or b"").decode("utf-8", "replace")
        return file.failure("unreadable", f"not a CSV row: {exc} (a quote that is not closed?)", position, text)
    for piece in taken:
        if piece.data is None:
            return file.failure("unreadable", _TOO_LONG, position)
        if _BAD_BYTE.search(piece.data.decode("utf-8", "surrogateescape")):
            return file.undecoded(piece.data, piece, position)
    return row
