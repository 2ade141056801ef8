"""What a text may have suffered on its way into a file, and the mending of it.

Only damage that is beyond doubt is mended: bytes that were decoded by the wrong table, their visible escapes,
control characters. Never quotes, width, normal form or anything of a clean text. May import: ftfy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import ftfy

from ser_toolkit.schema import Lang

_FIXES = ftfy.TextFixerConfig(replace_lossy_sequences=False)
_ESCAPED_BYTES = re.compile(r"(?:\\x[89a-fA-F][0-9a-fA-F])+")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
# What UTF-8 becomes when a table of one byte a character reads it always holds one of these: Latin with marks,
# Greek, Cyrillic. Chinese, emoji and typographic quotes are none, so a clean text of them is never touched.
_SUSPECT = re.compile(r"[\x80-\u024f\u0370-\u04ff]")
_HAN = re.compile(r"[\u3400-\u9fff]")
_LANG_SAMPLE = 4000
_LATIN = re.compile(r"[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A text as it is to be used, and what was done or seen."""

    text: str
    flags: tuple[str, ...]


def clean_text(text: str, *, repair: bool) -> Cleaned:
    """Mojibake mended ("mojibake_repaired"; only flagged, "mojibake", where not `repair`), control characters
    other than newline and tab removed ("control_chars_removed"), line ends as newlines, no outer white space.
    """
    flags: list[str] = []
    mended = repair_mojibake(text)
    if mended != text:
        flags.append("mojibake_repaired" if repair else "mojibake")
        text = mended if repair else text
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    bare = _CONTROLS.sub("", text)
    if bare != text:
        flags.append("control_chars_removed")
    return Cleaned(bare.strip(), tuple(flags))


def repair_mojibake(text: str) -> str:
    """UTF-8 that was decoded as Latin-1 or Windows-1252, or escaped (`\\xe2\\x80\\x99`), read rightly."""
    text = _ESCAPED_BYTES.sub(_unescape, text)
    if not _SUSPECT.search(text):
        return text
    fixed = ftfy.fix_encoding(text, _FIXES)
    return text if fixed.count("\ufffd") > text.count("\ufffd") else fixed


def detect_lang(texts: Iterable[str]) -> Lang:
    """zh where Chinese characters outweigh Latin letters, five letters to a word; else en. Looks at the start."""
    start = " ".join(texts)[:_LANG_SAMPLE]
    return "zh" if len(_HAN.findall(start)) * 5 > len(_LATIN.findall(start)) else "en"


def _unescape(match: re.Match[str]) -> str:
    try:
        return bytes.fromhex(match[0].replace("\\x", "")).decode("utf-8")
    except UnicodeDecodeError:
        return match[0]
