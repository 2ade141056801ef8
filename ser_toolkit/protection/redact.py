"""Placeholders in place of what is private, the same for the same person throughout one dialogue.

A Redactor serves one dialogue. It remembers who is who by salted hashes, under a salt that it drew for itself, so
it holds no original text, and neither its repr nor an exception can show any. Who is who: a full name and its first
name are one person while no second person shares that first name; so are a title with a surname and the one full
name with it. Case does not count. In Chinese a given name without its surname is the same person; "王老师" and "小王"
are each their own, since they are often not the person whose full name has that surname.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ser_toolkit.schema import Lang

from .names_en import bare_name, may_name
from .names_zh import split_name
from .pii import find_pii
from .spans import PLACEHOLDER, Kind, Span, masked, resolve

_TOKEN = re.compile(r"[^\W\d_](?:[^\W\d_]|['’-](?=[^\W\d_]))*")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_SPACING = re.compile(r"[\s().-]+")


@dataclass(slots=True, eq=False)
class _Person:
    """One person: hashes of the words that name it, and its number once it is mentioned."""

    first: int
    last: int | None = None
    number: int = 0


@dataclass(slots=True, repr=False)
class Redactor:
    """Redacts the texts of one dialogue. `counts` holds the replaced spans by kind."""

    lang: Lang = "en"
    counts: Counter[Kind] = field(default_factory=Counter)
    _salt: str = field(default_factory=lambda: secrets.token_hex(16))
    _people: list[_Person] = field(default_factory=list)
    _whole: dict[int, Kind] = field(default_factory=dict)
    _numbers: dict[tuple[Kind, int], int] = field(default_factory=dict)
    _last_number: Counter[str] = field(default_factory=Counter)

    def redact(self, text: str) -> str:
        """The text with placeholders; what it tells of names holds from here on."""
        return self.redact_all([text])[0]

    def redact_all(self, texts: Sequence[str], *, count: bool = True) -> list[str]:
        """The texts with placeholders; what any of them tells of names holds in all, whatever the order."""
        found = [self._learn(text) for text in texts]
        return [self._replace(text, spans, count) for text, spans in zip(texts, found, strict=True)]

    def know(self, value: str, kind: Kind) -> None:
        """A field of a record says that this whole value is private ("name": "Tom Becker")."""
        value = value.strip()
        if value and not PLACEHOLDER.search(value):
            self._whole[self._digest(value)] = kind
            if kind == "name":
                self._meet(value)

    def __repr__(self) -> str:
        return f"Redactor(counts={dict(self.counts)})"

    def _learn(self, text: str) -> list[Span]:
        """Its finds. Names among them are remembered; a number that an earlier redaction gave is not given again."""
        for m in PLACEHOLDER.finditer(text):
            self._last_number[m[1]] = max(self._last_number[m[1]], int(m[2]))
        stripped = text.strip()
        if stripped and (kind := self._whole.get(self._digest(stripped))):
            start = text.index(stripped)
            return [Span(start, start + len(stripped), kind, "field")]
        return self._met(text, find_pii(text, self.lang))

    def _met(self, text: str, spans: list[Span]) -> list[Span]:
        for span in spans:
            if span.kind == "name":
                self._meet(text[span.start : span.end])
        return spans

    def _replace(self, text: str, spans: list[Span], count: bool) -> str:
        """The text with these spans, and all mentions of known people, replaced, until nothing is left to find."""
        if not spans and not self._people:
            return text
        view = masked(text, spans)
        while new := resolve(self._known(view)):
            spans = resolve([*spans, *new])
            view = masked(text, spans)
            spans = resolve([*spans, *self._met(view, find_pii(view, self.lang))])
            view = masked(text, spans)
        parts, at = [], 0
        for span in spans:
            number = self._number(text[span.start : span.end], span.kind)
            parts += [text[at : span.start], f"[{span.kind.upper()}_{number}]"]
            at = span.end
            self.counts[span.kind] += count
        return "".join([*parts, text[at:]])

    def _known(self, text: str) -> Iterator[Span]:
        """Further mentions of people met elsewhere, by a word of their name."""
        names = {d for p in self._people for d in (p.first, p.last) if d}
        if not names:
            return
        for m in _TOKEN.finditer(text):
            if _HAN.match(m[0]):
                yield from self._known_zh(m[0], m.start(), names)
            elif self._digest(bare := bare_name(m[0])) in names and may_name(text, m.start(), m[0]):
                yield Span(m.start(), m.start() + len(bare), "name", "known")

    def _known_zh(self, run: str, start: int, names: set[int]) -> Iterator[Span]:
        at = 0
        while at < len(run) - 1:
            sizes = (n for n in (4, 3, 2) if at + n <= len(run) and self._digest(run[at : at + n]) in names)
            size = next(sizes, 0)
            if size:
                yield Span(start + at, start + at + size, "name", "known")
            at += size or 1

    def _meet(self, name: str) -> _Person:
        """The person of this name, new or known."""
        first, last = self._parts(name)
        same = [p for p in self._people if first in (p.first, p.last)] if last is None else []
        if last is None:
            fitting = [p for p in same if p.first == first] or same
            if len(fitting) == 1:
                return fitting[0]
            alone = [p for p in fitting if p.last is None]
            return alone[0] if alone else self._new(first, None)
        for person in self._people:
            if (person.first, person.last) == (first, last):
                return person
        for person in self._people:
            if person.first in (first, last) and person.last is None and not self._shared(first, person):
                person.first, person.last = first, last
                return person
        return self._new(first, last)

    def _shared(self, first: int, person: _Person) -> bool:
        return any(p.first == first for p in self._people if p is not person)

    def _new(self, first: int, last: int | None) -> _Person:
        self._people.append(_Person(first, last))
        return self._people[-1]

    def _parts(self, name: str) -> tuple[int, int | None]:
        """Digests of first name and surname; of a Chinese name, of the given name and the whole."""
        if _HAN.match(name):
            given = split_name(name)[1]
            return (
                (self._digest(given), self._digest(name))
                if len(given) > 1 and given != name
                else (self._digest(name), None)
            )
        tokens = [bare_name(t) for t in _TOKEN.findall(name)] or [name]
        return self._digest(tokens[0]), self._digest(tokens[-1]) if len(tokens) > 1 else None

    def _number(self, original: str, kind: Kind) -> int:
        if kind == "name":
            person = self._meet(original)
            person.number = person.number or self._next(kind)
            return person.number
        key = (kind, self._digest(_SPACING.sub("", original)))
        if key not in self._numbers:
            self._numbers[key] = self._next(kind)
        return self._numbers[key]

    def _next(self, kind: Kind) -> int:
        self._last_number[kind.upper()] += 1
        return self._last_number[kind.upper()]

    def _digest(self, text: str) -> int:
        return hash(self._salt + text.casefold())
