"""A verdict on two replies: by position as shown, or by what it says of the generated and the corpus' own reply."""

from __future__ import annotations

from typing import Literal, get_args

from .errors import RecordError
from .taxonomy import fold

Shown = Literal["first_better", "second_better", "almost_equal", "neither"]
"""By position as shown."""
Better = Literal["generated", "reference", "almost_equal", "neither"]
"""Unblinded."""
Position = Literal[1, 2]


def is_pair(generated: str, reference: str) -> bool:
    """Whether there are two different replies to compare."""
    return bool(reference.strip()) and reference.strip() != generated.strip()


def unblinded(verdict: Shown | None, generated_position: Position | None) -> Better | None:
    """What a verdict by position says of the two replies; `None` for none."""
    if verdict is None or generated_position is None:
        return None
    if verdict == "almost_equal" or verdict == "neither":
        return verdict
    return "generated" if (verdict == "first_better") == (generated_position == 1) else "reference"


def as_shown(better: Better, generated_position: Position) -> Shown:
    """The inverse of `unblinded`."""
    if better == "almost_equal" or better == "neither":
        return better
    return "first_better" if (better == "generated") == (generated_position == 1) else "second_better"


_WORDS: dict[Shown, tuple[str, ...]] = {
    "first_better": ("first_better", "first better", "first", "the first is better", "第一个更好", "回复一更好"),
    "second_better": ("second_better", "second better", "second", "the second is better", "第二个更好", "回复二更好"),
    "almost_equal": (
        "almost_equal", "almost equally good", "almost equal", "almost good", "almost", "equally good", "差不多",
        "差不多一样好",
    ),
    "neither": (
        "neither", "neither acceptable", "neither is acceptable", "neither available", "available", "都不可接受",
        "都不行",
    ),
}  # fmt: skip
_SPELLINGS: dict[str, Shown] = {fold(word): verdict for verdict, words in _WORDS.items() for word in words}


def read_verdict(text: str) -> Shown:
    """A verdict as people and files spell it. Raises RecordError for any other word: it is no tie, and no zero.

    "almost good" and "(neither) available" are spellings of published data. Case, hyphens and a full stop do not count.
    """
    found = _SPELLINGS.get(fold(text.strip().rstrip(".。!！")))
    if found is None:
        raise RecordError("malformed", f"{text[:80]!r} is no verdict: one of {', '.join(get_args(Shown))}", text=text)
    return found
