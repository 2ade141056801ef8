"""Stock phrases: what models say in every second reply of emotional support, whoever the seeker is.

A phrase is not wrong by itself; a data set full of them teaches one voice. The lists, `en.txt` and `zh.txt`, hold one
phrase a line and are shared by synthesis (which asks again) and by the measures (which count). May import: the standard
library.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ser_toolkit.schema import Lang


@cache
def phrases(lang: Lang) -> tuple[str, ...]:
    """The phrases of a language, folded; "#" begins a comment."""
    text = (Path(__file__).parent / f"{lang}.txt").read_text(encoding="utf-8")
    return tuple(fold(line) for line in text.splitlines() if line.strip() and not line.startswith("#"))


def fold(text: str) -> str:
    """Case and the kind of apostrophe do not count."""
    return text.strip().lower().replace("’", "'")


def find_phrases(text: str, lang: Lang) -> list[str]:
    """The phrases that stand in a text, in the order of the list."""
    folded = fold(text)
    return [p for p in phrases(lang) if p in folded]
