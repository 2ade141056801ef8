"""Stock phrases: what models say in every second reply of emotional support, whoever the seeker is.

A phrase is not wrong by itself; a data set full of them teaches one voice. The lists, `en.txt` and `zh.txt`, hold one
phrase a line and are shared by synthesis (which asks again) and by the measures (which count). May import: the standard
library.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ser_toolkit.schema import Lang


@cache
def phrases(lang: Lang) -> tuple[str, ...]:
    """The bundled phrases of a language, folded."""
    return read(Path(__file__).parent / f"{lang}.txt")


def read(path: Path) -> tuple[str, ...]:
    """The phrases of a list, folded; "#" begins a comment. Raises OSError, UnicodeDecodeError."""
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    return tuple(fold(line) for line in lines if line.strip() and not line.startswith("#"))


def fold(text: str) -> str:
    """Case and the kind of apostrophe do not count."""
    return text.strip().lower().replace("’", "'")


def find_phrases(text: str, lang: Lang) -> list[str]:
    """The bundled phrases that stand in a text, in the order of the list."""
    return find_in(text, phrases(lang))


def find_in(text: str, known: Iterable[str]) -> list[str]:
    """Those of these folded phrases that stand in a text, in their order."""
    folded = fold(text)
    return [p for p in known if p in folded]
