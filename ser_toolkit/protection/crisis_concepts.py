"""Crisis content that no single phrase tells: things said together in one sentence, in any order, English and Chinese.

The concepts and which of them tell of a crisis together are data (`data/crisis_concepts.toml`); one list of
combinations serves both languages. May import: this package.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from functools import cache
from operator import attrgetter

from ser_toolkit.schema import Lang, RiskCategory, RiskLevel

from .prefilter import Prefilter, grams_of
from .tables import alternatives, table

_SENTENCE = re.compile(r"[^.!?;。！？；\n]+")
_STAR = re.compile(r"(?<=[a-z])\*")
SIZES: dict[Lang, tuple[int, ...]] = {"en": (6, 4, 3), "zh": (2, 1)}
"""Letters that stand for a word, to `Prefilter`."""
_Place = Callable[[str], tuple[int, int] | None]
_LONGEST = 400  # characters of a sentence that are read
_SHORT = 160  # of two that are read as one


@dataclass(frozen=True, slots=True)
class Met:
    """text[start:end]: where the concepts of a combination stand together. `deniable`: where those of them do that a
    "not" before them would take back.
    """

    start: int
    end: int
    category: RiskCategory
    level: RiskLevel
    rule: str
    deniable: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Combination:
    order: int
    name: str
    category: RiskCategory
    level: RiskLevel
    all: tuple[tuple[str, ...], ...]
    none: tuple[str, ...]

    def is_possible(self, spoken_of: set[str]) -> bool:
        return all(not spoken_of.isdisjoint(either) for either in self.all)


def find_combinations(text: str, lang: Lang, grams: Set[str] | None = None) -> Iterator[Met]:
    """Every combination in a text of small letters, sentence by sentence; finds may overlap.

    `grams`: `grams_of(text, SIZES[lang])`, where the caller has them.
    """
    concepts = _concepts(lang)
    spoken_of = _prefilter(lang).possible(grams_of(text, SIZES[lang]) if grams is None else grams)
    maybe = [c for first in spoken_of for c in _by_first().get(first, ()) if c.is_possible(spoken_of)]
    if not maybe:
        return
    maybe.sort(key=attrgetter("order"))
    for first, end in _windows(text):
        part = text[first:end]
        where: dict[str, tuple[int, int] | None] = {}

        def place(
            name: str, part: str = part, where: dict[str, tuple[int, int] | None] = where
        ) -> tuple[int, int] | None:
            if name not in where:
                m = concepts[name].search(part) if name in spoken_of else None
                where[name] = m.span() if m else None
            return where[name]

        for combination in maybe:
            told = _told(combination, place)
            if told and not any(place(n) for n in combination.none):
                start, end = min(a for a, _ in told.values()), max(b for _, b in told.values())
                deniable = tuple((first + a, first + b) for n, (a, b) in told.items() if n in _deniable())
                level, name = combination.level, combination.name
                yield Met(first + start, first + end, combination.category, level, name, deniable)


def _windows(text: str) -> Iterator[tuple[int, int]]:
    """Each sentence, together with the next where both are short."""
    spans = [m.span() for m in _SENTENCE.finditer(text)]
    for i, (start, end) in enumerate(spans):
        last = spans[i + 1][1] if i + 1 < len(spans) else end
        yield start, last if last - start <= _SHORT else min(end, start + _LONGEST)


def _told(combination: _Combination, place: _Place) -> dict[str, tuple[int, int]] | None:
    """Where each concept of a combination stands, no two of them at the same words; `None` where one is missing."""
    told: dict[str, tuple[int, int]] = {}
    for either in combination.all:
        found = [(n, span) for n in either if (span := place(n)) and span not in told.values()]
        if not found:
            return None
        told[found[0][0]] = found[0][1]
    return told


@cache
def _deniable() -> frozenset[str]:
    return frozenset(table("crisis_concepts")["deniable"].split())


@cache
def _combinations() -> tuple[_Combination, ...]:
    found = []
    for category, lines in table("crisis_concepts")["combinations"].items():
        for line in lines.split("\n"):
            if line.strip():
                high = line.startswith("high: ")
                yes, _, no = line.removeprefix("high: ").partition(" ! ")
                all_ = tuple(tuple(part.split("|")) for part in yes.strip().split(" + "))
                level: RiskLevel = "high" if high else "concern"
                found.append(_Combination(len(found), yes.strip(), category, level, all_, tuple(no.split())))
    return tuple(found)


@cache
def _by_first() -> dict[str, list[_Combination]]:
    """The combinations by each of the concepts that their first place takes."""
    found: dict[str, list[_Combination]] = {}
    for combination in _combinations():
        found.setdefault(combination.all[0][0], []).append(combination)
    return found


@cache
def _concepts(lang: Lang) -> dict[str, re.Pattern[str]]:
    edge = r"(?<![\w'])(?:{})(?![\w])" if lang == "en" else "(?:{})"
    return {name: re.compile(edge.format(words)) for name, words in _words(lang).items()}


@cache
def _prefilter(lang: Lang) -> Prefilter[str]:
    return Prefilter(((name, a) for name, words in _words(lang).items() for a in alternatives(words)), SIZES[lang])


def _words(lang: Lang) -> dict[str, str]:
    return {name: _STAR.sub(r"\\w*", words) for name, words in table("crisis_concepts")[lang].items()}
