"""Names of private persons in text of Latin letters: word lists, and the words around (`data/names_en.toml`).

Three grades of first names. A plain one ("Sarah") is a name wherever it stands with a capital, and in small letters
where it is common. One that is also an ordinary word ("Grace") or a place ("Austin") needs its surroundings. A word
of no list is a name only where the text says so ("my name is", "my brother", "Mr."). Names of public figures,
brands and fiction stay, unless someone says that it is theirs. Months, days, faiths and peoples are no names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

from .spans import Span
from .tables import compile_lines, ordered_words, pattern, phrases, table, words

Grade = Literal["plain", "word", "place", "none"]

_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_TOKEN = re.compile(r"(?<![\w@#./-])(?<!\w['’])[^\W\d_][\w'’-]*(?![@/]|\.\w)")
_POSSESSIVE = re.compile(r"['’]s?$|-$")
_ORDINARY = re.compile(r"(?:ing|ed|ly|tion|ness|ful)$")
_BEFORE = 24  # characters before a word that tell what it is


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    triggers: frozenset[str]
    pattern: re.Pattern[str]
    small: bool
    unknown: bool
    unknown_after: re.Pattern[str] | None


def find_names_en(text: str) -> list[Span]:
    """Every name of a private person; finds may overlap."""
    tokens = [*_TOKEN.finditer(text)]
    bare = [_bare(m[0]) for m in tokens]
    seen = set(bare)
    found = [*_by_context(text, seen)]
    listed, common = _listed(), _common()
    if not seen.isdisjoint(common) or any(b in listed and m[0][0].isupper() for b, m in zip(bare, tokens, strict=True)):
        found += _by_list(text, tokens)
    if not found:
        return []
    public = _public_places(text)
    return [s for s in found if s.rule == "said" or not any(a <= s.start and s.end <= b for a, b in public)]


def may_name(text: str, start: int, word: str) -> bool:
    """Whether a word that is some known person's name may be meant as one here: not where it is an ordinary word."""
    bare = _bare(word)
    if word[0].islower():
        return bare in words("first_names") or (bare in words("surnames") and bare not in words("no_names"))
    ordinary = bare in words("first_names_words") or bare in words("no_names")
    opens = _around("starts").search(text[max(0, start - _BEFORE) : start]) is not None
    return not (ordinary and (opens or len(bare) < 3))


def bare_name(word: str) -> str:
    """A name without its possessive."""
    return word if word.isalpha() else _POSSESSIVE.sub("", word)


def _by_context(text: str, seen: set[str]) -> Iterator[Span]:
    """Names that the words around make names, even ones of no list."""
    for rule in _rules():
        if not seen.isdisjoint(rule.triggers):
            for m in rule.pattern.finditer(text):
                yield from _taken(m, rule)
    for m in _called().finditer(text):
        if _grade(_bare(m["name"])) != "none" and _bare(m["name"]) not in words("no_names"):
            yield Span(m.start("name"), m.end("name"), "name", "called")


def _taken(match: re.Match[str], rule: _Rule) -> Iterator[Span]:
    """The leading words of a match's name that can be a name."""
    group = next(g for g, found in match.groupdict().items() if found)
    start, end = match.start(group), 0
    listed, line, sure = (group.startswith(g) for g in ("name_listed", "name_line", "name_any"))
    unknown = not listed and (rule.unknown or bool(rule.unknown_after and rule.unknown_after.search(match[0])))
    for m in _WORD.finditer(match[group]):
        bare = _bare(m[0])
        grade = _grade(bare)
        if bare in words("no_names"):
            break
        surname = (end > 0 or listed) and bare in words("surnames")
        if m[0][0].isupper():
            fits = unknown or surname or grade != "none"
        else:
            alone = rule.name == "said" and grade == "word" and _ends(match.string, start + m.end())
            fits = rule.small and (
                surname or grade == "plain" or line or alone or (sure and not _ORDINARY.search(bare))
            )
        if not fits:
            break
        end = start + m.start() + len(bare_name(m[0]))
    if end:
        yield Span(start, end, "name", rule.name)


def _ends(text: str, offset: int) -> bool:
    rest = text[offset:].lstrip()
    return not rest or rest[0] in ".,!?;)"


def _by_list(text: str, tokens: list[re.Match[str]]) -> Iterator[Span]:
    """Names of the lists, with the surname after them."""
    shouted = text.isupper()
    taken = 0
    for i, m in enumerate(tokens):
        word, start, bare = bare_name(m[0]), m.start(), _bare(m[0])
        if start < taken:
            continue
        end = start + len(word)
        following = tokens[i + 1] if i + 1 < len(tokens) and text[m.end() : tokens[i + 1].start()] == " " else None
        if not word[0].isupper():
            if bare in _common():
                taken = _surname_end_small(following) or end
                yield Span(start, taken, "name", "listed_small")
            continue
        grade, before = _grade(bare), text[max(0, start - _BEFORE) : start]
        full = _full_name_end(grade, bare, following, before)
        if _around("in_a_title_before").search(before) or _around("place_after").match(text, full or end):
            continue
        if full:
            taken = full
            yield Span(start, full, "name", "listed_full")
        elif grade == "plain" and (not shouted or len(bare) > 4) and not before.endswith((" a ", " an ")):
            yield Span(start, end, "name", "listed")
        elif grade in ("word", "place") and not shouted and len(word) > 1 and _acts(text, start, end, grade):
            yield Span(start, end, "name", f"listed_{grade}")


def _full_name_end(grade: Grade, first: str, following: re.Match[str] | None, before: str) -> int:
    """Where a full name that begins with this word ends; 0 where none does."""
    if following is None or not following[0][0].isupper() or first in words("no_names"):
        return 0
    last = bare_name(following[0])
    bare = last.lower()
    if grade == "none":
        opens = _around("starts").search(before) or _around("place_before").search(before)
        fits = bare in _frequent_surnames() and not opens and len(first) > 2 and first not in words("surnames")
    else:
        odd = bare in words("no_names") or len(last) < 2 or last.isupper() or _grade(bare) == "plain"
        fits = bare in words("surnames") or (grade == "plain" and not odd)
    return following.start() + len(last) if fits else 0


def _surname_end_small(following: re.Match[str] | None) -> int:
    last = bare_name(following[0]) if following else ""
    return following.start() + len(last) if following and last in words("surnames") else 0


def _acts(text: str, start: int, end: int, grade: Grade) -> bool:
    """Whether an ambiguous word stands where only a person's name stands."""
    word, before = text[start:end], text[max(0, start - _BEFORE) : start]
    bare = word.lower()
    if (
        word.isupper()
        or bare in words("no_names")
        or _around("place_before").search(before)
        or _around("capital_after").match(text, end)
    ):
        return False
    opens = _around("starts").search(before) is not None
    inside = grade == "word" and not opens
    does = "does" if inside and bare not in words("dates") else "does_as_person"
    if (not opens and _around("with_before").search(before)) or _around(does).match(text, end):
        return True
    return inside and bare not in words("often_capital") and not _after_a_capital(before)


def _after_a_capital(before: str) -> bool:
    """Whether a capitalised word stands just before; not one that only opens the sentence ("Is Hunter ...")."""
    found = _around("capital_before").search(before)
    if found is None:
        return False
    opens = _around("starts").search(before[: found.start()]) is not None
    return not (opens and _bare(found[0].strip()) in words("no_names"))


def _around(section: str) -> re.Pattern[str]:
    return pattern("names_en", section)


@cache
def _rules() -> tuple[_Rule, ...]:
    tree = table("names_en")
    return tuple(
        _Rule(
            r["name"],
            frozenset(r["triggers"].split()),
            compile_lines(r["patterns"], tree["parts"], re.IGNORECASE if "i" in r["flags"] else re.NOFLAG),
            r.get("small", False),
            r.get("unknown", False),
            re.compile(r["unknown_after"]) if "unknown_after" in r else None,
        )
        for r in tree["rule"]
    )


@cache
def _called() -> re.Pattern[str]:
    """Someone spoken to at a sentence's end: "I hear you, Anna."."""
    return re.compile(r",\s+(?P<name>[A-ZÀ-ÖØ-Þ][\w’'-]*)\s*(?=[.!?]|$)")


@cache
def _listed() -> frozenset[str]:
    return words("first_names") | words("first_names_words") | words("first_names_places") | _frequent_surnames()


@cache
def _common() -> frozenset[str]:
    """First names common enough, and no word besides, to be one without a capital."""
    return frozenset(n for n in ordered_words("first_names")[:1100] if len(n) > 3) - words("not_small")


@cache
def _frequent_surnames() -> frozenset[str]:
    return frozenset(ordered_words("surnames")[:1000])


def _grade(word: str) -> Grade:
    if word in words("first_names"):
        return "plain"
    if word in words("first_names_words"):
        return "word"
    if word in words("first_names_places"):
        return "place"
    head, hyphen, tail = word.partition("-")
    return "plain" if hyphen and tail.isalpha() and _grade(head) == "plain" else "none"


def _bare(word: str) -> str:
    """A word for look-up: small letters, no possessive; "i'm" and its like stay whole."""
    lower = word.lower()
    if lower.isalpha():
        return lower
    lower = lower.replace("’", "'")
    return lower if lower in words("no_names") else _POSSESSIVE.sub("", lower)


@cache
def _public() -> re.Pattern[str]:
    names = sorted(phrases("public_names"), key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(re.escape(n) for n in names)})(?!\w)")


def _public_places(text: str) -> list[tuple[int, int]]:
    lower = text.lower().replace("’", "'")
    return [m.span() for m in _public().finditer(lower)] if len(lower) == len(text) else []
