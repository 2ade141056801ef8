"""Bytes of unknown make -> a stream of UTF-8, or a clear word on why not.

A file is taken as UTF-8 (with or without BOM), as what its byte-order mark says, or as the recipe's
`encoding`. Bytes that do not fit stay visible: each is left as a byte that is no UTF-8, so only the record
that holds it fails. May import: the standard library and charset-normalizer.
"""

from __future__ import annotations

import codecs
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from charset_normalizer import from_bytes

from ser_toolkit.errors import RecordError, UsageError

HEAD = 1 << 20
"""Bytes of a file that are looked at to tell what it is."""
SAMPLE = 1 << 16
"""Bytes that an encoding is guessed from."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SIGNATURES = (
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"RIFF", "a RIFF file (sound, video or WebP)"),
    (b"PK\x03\x04", "a zip archive (or an Office file)"),
    (b"\x1f\x8b", "gzip-compressed"),
    (b"%PDF", "a PDF"),
    (b"PAR1", "a Parquet file"),
    (b"SQLite format 3", "an SQLite database"),
)
_CONTROLS = bytes(b for b in range(32) if b not in b"\t\n\r\f\x1b")
_HIGH_RUNS = re.compile(rb"[\x80-\xff]+")


@dataclass(frozen=True, slots=True)
class Opened:
    """A file as UTF-8 bytes. `start` is the offset of the first byte after a BOM."""

    stream: io.BufferedReader[Any]
    encoding: str
    start: int
    flags: tuple[str, ...]


def open_utf8(path: Path, encoding: str | None) -> Opened:
    """The file as a stream of UTF-8. Raises RecordError where it is empty, binary, or needs an `encoding`;
    UsageError where `encoding` is no encoding; OSError.
    """
    with path.open("rb") as file:
        head = file.read(HEAD)
    bom, marked = next(((bom, name) for bom, name in _BOMS if head.startswith(bom)), (b"", ""))
    if not head[len(bom) :].strip():
        raise RecordError("unreadable", "the file holds only white space" if head else "the file is empty")
    if encoding is None and not marked:
        _refuse_binary(head)
    name = encoding or marked or "utf-8"
    try:
        codec = codecs.lookup(name)
        "".encode(name)  # refuses codecs that are none of text, such as base64
    except LookupError as exc:
        raise UsageError(f"no encoding is called {name!r}", "for example gb18030, windows-1252, utf-16-le") from exc
    if codec.name in ("utf-8", "utf-8-sig"):
        start = len(bom) if marked == "utf-8" else 0
        stream = io.BufferedReader(path.open("rb", buffering=0), HEAD)
        stream.seek(start)
        return Opened(stream, "utf-8", start, ())
    recoded = io.BufferedReader(_Recoded(path.open("rb", buffering=0), codec), HEAD)
    return Opened(recoded, name, 0, () if encoding else (f"decoded_{marked}",))


def suggest_encoding(data: bytes, bad: int = 0) -> str | None:
    """The encoding that most likely reads `data`, which is no UTF-8 from `bad` on; None where none does.

    English and Chinese only. In a short text nearly every encoding fits, so how the bytes above 0x7F lie
    tells first: alone (Windows-1252), or as pairs that make everyday Chinese (GB 18030).
    """
    sample = data if len(data) <= SAMPLE else data[bad : bad + SAMPLE]
    if len(data) > SAMPLE:  # end at a byte that is never half a character
        sample = sample[: max(sample.rfind(b) for b in (b'"', b",", b"\n")) + 1] or sample
    if wide := _utf16(sample):
        return wide
    if _is_everyday_chinese(sample):
        return "gb18030"
    if all(len(run) == 1 for run in _HIGH_RUNS.findall(sample)):
        candidates = ["cp1252"]
    else:
        best = from_bytes(sample, cp_isolation=["big5", "gb18030", "cp1252"]).best()
        candidates = [best.encoding] if best else []
    for name in candidates:
        try:
            sample.decode(name)
        except UnicodeDecodeError:
            continue
        return "windows-1252" if name == "cp1252" else name
    return None


def _is_everyday_chinese(sample: bytes) -> bool:
    try:
        odd = [c for c in sample.decode("gb18030") if c > "\x7f"]
    except UnicodeDecodeError:
        return False
    return bool(odd) and sum(bool(c.encode("gb2312", "ignore")) for c in odd) >= 0.9 * len(odd)


def _refuse_binary(head: bytes) -> None:
    for signature, what in _SIGNATURES:
        if head.startswith(signature):
            raise RecordError("unreadable", f"the file is {what}, no text")
    if b"\0" not in head:
        return
    wide = _utf16(head)
    if wide:
        raise RecordError("unreadable", f"the file has no byte-order mark and reads as {wide}: set `encoding: {wide}`")
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if controls > len(head) / 100:
        raise RecordError("unreadable", f"the file is binary, no text (NUL byte at {head.index(0)})")


def _utf16(head: bytes) -> str | None:
    """utf-16-le or utf-16-be, where the bytes make nothing but English and Chinese text that way."""
    nuls = head.count(0)
    if not nuls or (nuls < len(head) / 10 and _is_utf8(head)):
        return None
    for name in ("utf-16-le", "utf-16-be"):
        text = head[: len(head) & ~1].decode(name, "replace")
        usual = sum(
            " " <= c <= "~" or c in "\t\n\r" or "\u2010" <= c <= "\u2030" or "\u3000" <= c <= "\u9fff" or c >= "\uff00"
            for c in text.replace("\ufffd", "\0")
        )
        if usual >= 0.97 * len(text):
            return name
    return None


def _is_utf8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _mark_bad(exc: UnicodeError) -> tuple[str, int]:
    if not isinstance(exc, UnicodeDecodeError):
        raise exc
    return "\udcff", exc.end


codecs.register_error("ser_toolkit.mark_bad", _mark_bad)


class _Recoded(io.RawIOBase):
    """Another encoding's bytes as UTF-8; what cannot be decoded becomes 0xFF, which no UTF-8 holds."""

    def __init__(self, raw: io.FileIO, codec: codecs.CodecInfo) -> None:
        super().__init__()
        self._raw = raw
        self._decoder = codecs.getincrementaldecoder(codec.name)("ser_toolkit.mark_bad")
        self._rest = b""
        self._done = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:  # pyright: ignore[reportMissingParameterType]
        while not self._rest and not self._done:
            chunk = self._raw.read(HEAD)
            self._done = not chunk
            try:
                text = self._decoder.decode(chunk, final=self._done)
            except UnicodeError as exc:  # utf-16 and utf-32 insist on a byte-order mark
                raise RecordError("unreadable", f"not readable in the encoding that the recipe names: {exc}") from exc
            self._rest = text.encode("utf-8", "surrogateescape")
        part = self._rest[: len(buffer)]
        self._rest = self._rest[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._raw.close()
        super().close()
