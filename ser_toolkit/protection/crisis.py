"""Crisis content in a text, by span and level: self-harm, abuse, danger to others; direct and veiled, English and
Chinese.

The rules are data (`data/crisis_en.toml`, `data/crisis_zh.toml`), so that people who know crises can read and mend
them; no clinician has reviewed them yet. A text is read thus: idioms are
blotted out; each rule, and each combination of concepts (`crisis_concepts.py`), is tried; a find that is denied ("I'm
not suicidal") is dropped, so is one that tells a story of others' making or one that is well over; one told as long
past is lowered to "concern". Rules err towards finding: the precision is stated in `docs/protection.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass
from functools import cache

from ser_toolkit.schema import RISK_LEVELS, Lang, RiskCategory, RiskLevel

from .crisis_concepts import SIZES, find_combinations
from .prefilter import Prefilter, grams_of
from .tables import alternatives, compile_lines, filled, table

_CLAUSE = re.compile(r"[.!?;。！？；]|,\s*but\b|\bbut\b|，|但")
_SENTENCE_END = re.compile(r"[.!?。！？]")
_AROUND = 160  # characters on either side that a find is read with
_HAN = re.compile(r"[\u4e00-\u9fff]")
_QUOTED = re.compile(r"[\"“「『《][^\"”」』》\n]{2,200}[\"”」』》]|(?<!\w)'[^'\n]{8,200}'(?!\w)")


@dataclass(frozen=True, slots=True)
class CrisisSpan:
    """text[start:end] tells of a crisis. It holds no text."""

    start: int
    end: int
    category: RiskCategory
    level: RiskLevel
    rule: str


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    category: RiskCategory
    level: RiskLevel
    pattern: re.Pattern[str]
    wide: bool


@dataclass(frozen=True, slots=True)
class _Rules:
    """One language's rules. `lines`: their patterns one by one, by what `prefilter` calls them."""

    rules: tuple[_Rule, ...]
    lines: tuple[re.Pattern[str], ...]
    prefilter: Prefilter[int]
    idioms: re.Pattern[str]
    fiction: re.Pattern[str]
    first_person: re.Pattern[str]
    fiction_lifts: re.Pattern[str]
    negation: re.Pattern[str]
    negation_unless: re.Pattern[str]
    negation_after: re.Pattern[str]
    asked: re.Pattern[str]
    history: re.Pattern[str]
    resolved: re.Pattern[str]

    def may_find(self, plain: str, grams: Set[str]) -> bool:
        """Whether any rule matches."""
        return any(self.lines[n].search(plain) for n in self.prefilter.possible(grams))


def find_crisis(text: str, lang: Lang = "en") -> list[CrisisSpan]:
    """The crisis content of a text, in order, none overlapping; Chinese is read by Chinese rules, whatever `lang`."""
    found = _find(text, "en") if lang == "en" or not _HAN.search(text) else []
    if _HAN.search(text):
        found += _find(text, "zh")
    return _gravest_first(found)


def highest(levels: Iterable[RiskLevel | None]) -> RiskLevel | None:
    """The gravest of these levels; `None` where there is none."""
    known: list[RiskLevel] = [level for level in levels if level]
    return max(known, key=RISK_LEVELS.index) if known else None


def _find(text: str, lang: Lang) -> list[CrisisSpan]:
    rules = _rules(lang)
    plain = _plain(text)
    grams = grams_of(plain, SIZES[lang])
    met_together = [*find_combinations(plain, lang, grams)]
    if not met_together and not rules.may_find(plain, grams):
        return []
    found: list[CrisisSpan] = []
    together: list[CrisisSpan] = []
    view = rules.idioms.sub(lambda m: " " * len(m[0]), plain)
    for rule in rules.rules:
        for m in rule.pattern.finditer(view):
            at = m.span()
            if m[0].strip() and not _is_denied(view, at, rule.wide, rules) and not _is_told(plain, at, rules):
                found.append(CrisisSpan(*at, rule.category, _level(rule.level, plain, at, rules), rule.name))
    for met in met_together:
        at = (met.start, met.end)
        idle = any(view[a:b] != plain[a:b] or _is_denied(view, (a, b), False, rules) for a, b in met.deniable)
        if not idle and not _is_told(plain, at, rules):
            span = CrisisSpan(*at, met.category, _level(met.level, plain, at, rules), met.rule)
            if not any(_is_within(span, other) for other in found):
                together.append(span)
    return found + together


def _is_within(span: CrisisSpan, other: CrisisSpan) -> bool:
    """Whether a rule has told as much of the same words, and more exactly."""
    return (
        other.start < span.end
        and span.start < other.end
        and RISK_LEVELS.index(other.level) >= RISK_LEVELS.index(span.level)
    )


def _level(level: RiskLevel, plain: str, at: tuple[int, int], rules: _Rules) -> RiskLevel:
    """What is told as long past is a concern."""
    return "concern" if level == "high" and rules.history.search(_sentence(plain, at)) else level


def _plain(text: str) -> str:
    """Small letters and straight apostrophes; as long as the text."""
    lower = text.lower()
    return (lower if len(lower) == len(text) else text).replace("’", "'").replace("\n", " ")


def _is_denied(view: str, at: tuple[int, int], wide: bool, rules: _Rules) -> bool:
    """Whether the words before a find (of a wide rule: before its last word) deny it, or the answer to a question."""
    first, end = at
    found = view[first:end]
    if rules.asked.search(view[max(0, first - _AROUND) : end]) and rules.negation_after.search(view[end : end + 80]):
        return True
    last = (found.rfind(" ") + 1) or max(0, len(found) - 2)
    start = first + (last if wide else 0)
    before = _CLAUSE.split(view[max(0, start - 70) : start])[-1]
    denied = rules.negation.search(before) is not None
    return denied and not rules.negation_unless.search(before + view[start:end])


def _is_told(plain: str, at: tuple[int, int], rules: _Rules) -> bool:
    """Whether a find is a story of others' making, or one that is long over and well ended."""
    return _is_fiction(plain, at, rules) or rules.resolved.search(_sentence(plain, at)) is not None


def _is_fiction(plain: str, at: tuple[int, int], rules: _Rules) -> bool:
    """Whether a find is of a film, a book, a song, a game: what it quotes, or what its persons do."""
    first = max(0, at[0] - _AROUND)
    around = plain[first : at[1] + _AROUND]
    start, end = at[0] - first, at[1] - first
    if not rules.fiction.search(around):
        return False
    quoted = [q.span() for q in _QUOTED.finditer(around)]
    if any(a < start and end < b for a, b in quoted):
        return True
    sentence = _sentence(plain, at)
    if not rules.fiction.search(sentence) and not rules.fiction.search(around[:start]):
        return False
    said = "".join(c for i, c in enumerate(plain[at[0] : at[1]], start) if not any(a <= i < b for a, b in quoted))
    return not rules.first_person.search(said) and not rules.fiction_lifts.search(_QUOTED.sub("", sentence))


def _sentence(plain: str, at: tuple[int, int]) -> str:
    start, end = at
    before = _SENTENCE_END.split(plain[max(0, start - _AROUND) : start])[-1]
    after = _SENTENCE_END.split(plain[end : end + _AROUND], maxsplit=1)[0]
    return before + plain[start:end] + after


def _gravest_first(found: list[CrisisSpan]) -> list[CrisisSpan]:
    """Of finds that overlap, the gravest (then the longest) stays."""
    kept: list[CrisisSpan] = []
    reach = 0
    for span in sorted(found, key=lambda s: (s.start, -s.end)):
        if span.start >= reach:
            kept.append(span)
        else:
            kept[-1] = max(kept[-1], span, key=lambda s: (RISK_LEVELS.index(s.level), s.end - s.start))
        reach = max(reach, span.end)
    return kept


@cache
def _rules(lang: Lang) -> _Rules:
    tree = table(f"crisis_{lang}")
    parts = tree["parts"]
    rules = tuple(
        _Rule(r["name"], r["category"], r["level"], compile_lines(r["patterns"], parts), r.get("wide", False))
        for r in tree["rule"]
    )
    lines = [a for r in tree["rule"] for a in alternatives(r["patterns"])]
    edge = r"\b" if lang == "en" else ""
    fiction = "|".join(tree["fiction"]["words"].split())
    return _Rules(
        rules=rules,
        lines=tuple(compile_lines(a, parts) for a in lines),
        prefilter=Prefilter(((n, filled(a, parts)) for n, a in enumerate(lines)), SIZES[lang]),
        idioms=compile_lines(tree["idioms"]["patterns"], parts),
        fiction=re.compile(f"{edge}(?:{fiction}){edge}"),
        first_person=re.compile(tree["fiction"]["first_person"]),
        fiction_lifts=re.compile(tree["fiction"]["lifts"]),
        negation=re.compile(tree["negation"]["before"]),
        negation_unless=re.compile(tree["negation"]["unless"]),
        negation_after=re.compile(tree["negation"]["after"]),
        asked=re.compile(tree["negation"]["asked"]),
        history=re.compile(tree["history"]["words"]),
        resolved=re.compile(tree["history"]["resolved"]),
    )
