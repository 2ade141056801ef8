"""A stream of bytes cut into the pieces that each hold one record, in bounded memory.

Cutting comes before parsing, so that a record that does not parse costs only itself: the next one is still
found. No piece longer than `limit` is ever held. May import: the standard library.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

CHUNK = 1 << 20
_BACKSLASH = 0x5C
# Each matches up to the next byte that matters: possessive, so that no text makes them slow.
_IN_STRING = re.compile(rb'(?s)[^"\\]*+(?:\\.[^"\\]*+)*+')
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_NESTED = re.compile(rb'(?s)(?:[^"{}\[\]]++|' + _STRING + rb")*+")
_TOP = re.compile(rb'(?s)(?:[^"{}\[\],]++|' + _STRING + rb")*+")


@dataclass(frozen=True, slots=True)
class Piece:
    """One record's bytes, `None` where they are too many; `start` is a byte offset, `line` counts from 1.

    `problem` says what is wrong with the file at this place, "" where nothing is.
    """

    data: bytes | None
    start: int
    line: int
    problem: str = ""


def split_lines(stream: io.BufferedIOBase, limit: int, start: int = 0) -> Iterator[Piece]:
    """Every line, with its line end."""
    line = 0
    while data := stream.readline(limit + 1):
        line += 1
        begin, start = start, start + len(data)
        if len(data) > limit and not data.endswith(b"\n"):
            while more := stream.readline(CHUNK):
                start += len(more)
                if more.endswith(b"\n"):
                    break
            yield Piece(None, begin, line)
        else:
            yield Piece(data, begin, line)


def split_json(stream: io.BufferedIOBase, limit: int, *, is_list: bool, start: int = 0) -> Iterator[Piece]:
    """Each element of the one list that the stream holds, or (not `is_list`) each value at the top level."""
    cutter = _Cutter(limit, start)
    floor = 1 if is_list else 0
    depth = skip = 0
    in_string = is_closed = False
    while chunk := stream.read(CHUNK):
        at, done = skip, 0
        while at < len(chunk):
            if in_string:
                match = _IN_STRING.match(chunk, at)
                at = match.end() if match else at
                if at < len(chunk):
                    in_string = chunk[at] == _BACKSLASH  # the chunk ends inside an escape
                    at += 2 if in_string else 1
                continue
            if is_closed:
                break
            match = (_TOP if depth <= 1 else _NESTED).match(chunk, at)
            at = (match.end() if match else at) + 1
            match chunk[at - 1 : at]:
                case b"":
                    at = len(chunk)
                case b'"':
                    in_string = True
                case b"{" | b"[":
                    depth += 1
                    if is_list and depth == 1:
                        cutter.drop(chunk[done:at])
                        done = at
                case b",":
                    if is_list and depth == 1:
                        yield cutter.cut(chunk[done : at - 1], b",")
                        done = at
                case closing:
                    depth = max(depth - 1, 0)
                    if depth == 0 and not is_list:
                        yield cutter.cut(chunk[done:at])
                        done = at
                    elif depth == 0 and closing == b"]":
                        is_closed = True
                        last = cutter.cut(chunk[done : at - 1], b"]")
                        if last.data != b"":
                            yield last
                        done = at
                    depth = max(depth, floor)
        skip = max(at - len(chunk), 0)
        cutter.hold(chunk[done:])
    rest = cutter.cut(b"")
    if is_closed and rest.data != b"":
        yield Piece(rest.data, rest.start, rest.line, "text follows the end of the list and was not read")
    elif rest.data != b"" and (is_list or depth):
        yield Piece(rest.data, rest.start, rest.line, "the file ends inside this record")
    elif rest.data != b"":
        yield rest
    elif is_list and not is_closed:
        yield Piece(b"", rest.start, rest.line, "the file ends before the list does")


class _Cutter:
    """Holds the bytes of the record under way, and knows where it began."""

    def __init__(self, limit: int, start: int) -> None:
        self._limit = limit
        self._held = bytearray()
        self._start = start
        self._line = 1
        self._lost = 0
        self._lost_lines = 0

    def hold(self, part: bytes) -> None:
        self._held += part
        if len(self._held) > self._limit:
            self._lost += len(self._held)
            self._lost_lines += self._held.count(b"\n")
            self._held.clear()

    def drop(self, part: bytes) -> None:
        """Bytes between records."""
        self._advance(bytes(self._held) + part)
        self._held.clear()

    def cut(self, part: bytes, separator: bytes = b"") -> Piece:
        """The record that ends with `part`; the separator belongs to none."""
        self.hold(part)
        data = bytes(self._held)
        if self._lost:
            piece = Piece(None, self._start, self._line)
            self._start += self._lost
            self._line += self._lost_lines
            self._lost = self._lost_lines = 0
        else:
            lead = data[: len(data) - len(data.lstrip())]
            piece = Piece(data.strip(), self._start + len(lead), self._line + lead.count(b"\n"))
        self.drop(separator)
        return piece

    def _advance(self, data: bytes) -> None:
        self._start += len(data)
        self._line += data.count(b"\n")
