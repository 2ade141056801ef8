"""Untrusted text on a person's screen: what would act on a terminal, or cannot be seen, is shown as an escape.

Escape sequences, characters that turn the direction of reading, zero-width and control characters can hide words or
change what a reader takes them for. May import: the standard library.
"""

from __future__ import annotations

import re
import unicodedata

_ACTING = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
_BLANK_LETTERS = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
"""Letters and marks by Unicode's book, and nothing to the eye."""
_PICTURE = "\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
_JOINED = re.compile(f"(?<=[{_PICTURE}\ufe0f])\u200d(?=[{_PICTURE}])")
"""The joiner inside an emoji of several parts: it is seen, as one picture."""
_PLAIN = re.compile(r"[\n\t -~\u00a1-\u00ac\u00ae-\u02ff\u2010-\u2027\u3000-\u3163\u3165-\u9fff\uff00-\uff9f]*")


def visible(text: str, *, one_line: bool = False) -> str:
    """The text with escapes (`\\x1b`, `\\u202e`) for what acts or hides; newlines and tabs stay.

    `one_line`: line ends are escapes too, for a place where a second line could be taken for ours.
    """
    if not _PLAIN.fullmatch(text):
        joiners = {m.start() for m in _JOINED.finditer(text)}
        text = "".join(c if i in joiners else _shown(c) for i, c in enumerate(text))
    return text.replace("\n", "\\n").replace("\t", "\\t") if one_line else text


def visible_json(text: str) -> str:
    """JSON text with such characters as JSON's own escapes: the same value to a machine. Layout stays."""
    return text if text.isascii() and "\x7f" not in text else "".join(_json_shown(c) for c in text)


def _hides(c: str) -> bool:
    return c not in "\n\t" and (unicodedata.category(c) in _ACTING or c in _BLANK_LETTERS)


def _shown(c: str) -> str:
    if not _hides(c):
        return c
    return f"\\x{ord(c):02x}" if ord(c) < 0x100 else c.encode("ascii", "backslashreplace").decode()


def _json_shown(c: str) -> str:
    if not _hides(c):
        return c
    units = c.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
