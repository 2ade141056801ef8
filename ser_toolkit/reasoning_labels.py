"""Read the taxonomy's labels from the text of the three steps, English or Chinese.

A label that the text states ("Sentiment: Negative", "the Exploration stage") counts before one that it merely
mentions; where statements, or else mentions, name more than one value, the label is `None`: a guess would be a
default in disguise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from .schema import Lang
from .taxonomy import EMOTIONS, INTENSITIES, SENTIMENTS, STAGE_OF, STAGES, STRATEGIES, ZH


@dataclass(frozen=True, slots=True)
class Labels:
    """What the steps name, in the taxonomy's words; `None` where they name none, or contradict themselves."""

    stage: str | None = None
    strategy: str | None = None
    sentiment: str | None = None
    intensity: str | None = None
    emotions: tuple[str, ...] = ()


_SPELLINGS = {
    "Reassurance": r"reassurance|comforting",
    "Progressive Questioning": r"progressive\s+question(?:ing|s)?",
    "Content Restatement": r"content\s+restate(?:ment|ments)",
    "Provide Suggestions": r"provid(?:e|ing)\s+suggestions?",
    "Provide Information": r"provid(?:e|ing)\s+information",
}
_FIELDS = {
    "stage": (tuple(STAGES), {"en": r"stages?|phases?", "zh": "阶段"}),
    "strategy": (STRATEGIES, {"en": r"strateg(?:y|ies)", "zh": "策略"}),
    "sentiment": (
        SENTIMENTS,
        {"en": r"sentiments?|polarity", "zh": "情感倾向|情感极性|情绪倾向|倾向|极性|情感"},
    ),
    "intensity": (INTENSITIES, {"en": r"intensity", "zh": "强度|程度"}),
    "emotion": (EMOTIONS, {"en": r"emotions?", "zh": "情绪|情感|情绪类别|情感类别"}),
}
_LINK = {
    "en": r"(?:[\s:=*_\"'“”‘’(\[—–-]|\b(?:is|was|are|of|the|an?|at|in|level|label|selected|chosen|use|be)\b){1,12}+",
    "zh": r"(?:[\s:：=*_\"'“”‘’「『【（(—–-]|应为|属于|处于|选择|采用|使用|为|是){1,12}+",
}
_OR = r"\W{0,3}(?:[/,|、;]|\bor\b|\band\b|\bto\b|或|和|到)\W{0,3}"
_NEGATED = re.compile(
    r"(?:\b(?:not|no|without|than|nor)\s+(?:(?:a|an|the|any|purely)\s+)?|不是|并非|没有|而非|不|无|非)\Z",
    re.I,
)
_EMOTION_LIST = {
    "en": r"\bemotions?\b[^\S\n]*(?:\([^)\n]{0,20}\))?[*_]{0,2}(?:[:：=]|\b(?:are|is|include|includes|of)\b)",
    "zh": r"(?:情绪|情感)(?:类别|标签|状态)?[*_]{0,2}(?:[:：=]|为|是|包括|有)",
}
_HAN = re.compile(r"[\u4e00-\u9fff]")
_MAX_LIST = 300  # characters
_LIST_END = re.compile(r"[.;。；\n]|sentiment|polarity|intensity|倾向|极性|强度|程度", re.I)


def read_labels(steps: Sequence[str | None], lang: Lang) -> Labels:
    """The labels that steps 1 to 3 name: the stage in 1 (or 3), the feelings in 2, the strategy in 3.

    Words of `lang` count first, the other language's where those say nothing. A strategy tells its stage where
    the steps do not; where both are named and disagree, the stage is `None`.
    """
    analysis, feeling, choice = (step or "" for step in steps)
    order: tuple[Lang, ...] = ("zh", "en") if lang == "zh" else ("en", "zh")
    if not any(_HAN.search(text) for text in (analysis, feeling, choice)):
        order = ("en",)
    strategy = _first(choice, "strategy", order)
    stage = _first(analysis, "stage", order) or _first(choice, "stage", order)
    implied = STAGE_OF.get(strategy or "")
    contradicted = implied and stage and stage != implied
    stage = None if contradicted else stage or implied
    emotions: tuple[str, ...] = ()
    rest = feeling
    for name in order:
        found, rest = _emotions(rest, name)
        emotions = emotions or found
    return Labels(
        stage,
        strategy,
        _first(rest, "sentiment", order),
        _first(rest, "intensity", order),
        emotions,
    )


def _first(text: str, field: str, order: Sequence[Lang]) -> str | None:
    for lang in order:
        value = _one(text, field, lang)
        if value:
            return value
    return None


@cache
def _vocabulary(field: str, lang: Lang) -> tuple[re.Pattern[str], dict[str, str], re.Pattern[str]]:
    """(any word of the field, group name -> word, a statement of the field)."""
    words, anchor = _FIELDS[field][0], _FIELDS[field][1][lang]
    groups = {f"w{i}": word for i, word in enumerate(words)}
    if lang == "zh":
        spelled = [ZH[w] for w in words]
        edge = ("", "")
    else:
        spelled = [_SPELLINGS.get(w, re.sub(r"[\s-]+", r"[\\s-]+", w)) for w in words]
        edge = (r"(?<![A-Za-z])", r"(?![A-Za-z])")
    any_word = f"{edge[0]}(?:{'|'.join(spelled)}){edge[1]}"
    named = f"{edge[0]}(?:{'|'.join(f'(?P<{g}>{s})' for g, s in zip(groups, spelled, strict=True))}){edge[1]}"
    space = r"[*_\"'”’」』】）)\]\s-]{0,4}"
    stated_after = rf"{edge[0]}(?:{anchor}){edge[1]}{_LINK[lang]}(?P<a>{any_word})(?!{_OR}{any_word})"
    stated_before = rf"(?P<b>{any_word}){space}(?:{anchor}){edge[1]}"
    statement = f"{stated_after}|{stated_before}"
    return re.compile(named, re.I), groups, re.compile(statement, re.I)


def _mentions(text: str, field: str, lang: Lang) -> list[tuple[int, str, str]]:
    """(position, word of the taxonomy, as written) of each mention that is not denied."""
    pattern, groups, _ = _vocabulary(field, lang)
    return [
        (m.start(), groups[m.lastgroup], m[0])
        for m in pattern.finditer(text)
        if m.lastgroup and not _NEGATED.search(text, max(0, m.start() - 20), m.start())
    ]


def _one(text: str, field: str, lang: Lang) -> str | None:
    """The field's one value: what the text states, else what alone it mentions."""
    mentions = _mentions(text, field, lang)
    if not mentions:
        return None
    named = {word for _, word, _ in mentions}
    if len(named) < 2 and field != "stage":
        return named.pop()
    at = {position: word for position, word, _ in mentions}
    starts = [m.start("a") if m["a"] else m.start("b") for m in _vocabulary(field, lang)[2].finditer(text)]
    stated = {at[s] for s in starts if s in at}
    if not stated:
        stated = {word for _, word, written in mentions if _is_distinct(field, lang, written)}
    return stated.pop() if len(stated) == 1 else None


def _is_distinct(field: str, lang: Lang, written: str) -> bool:
    """Whether a word alone names a label: "action" in a sentence names no stage, "Action" does."""
    return field != "stage" or (lang == "en" and written[:1].isupper())


def _emotions(text: str, lang: Lang) -> tuple[tuple[str, ...], str]:
    """The emotions named, in the text's order, and the text without the lists that name them.

    Outside a list "neutral" is a sentiment.
    """
    listed: list[str] = []
    rest: list[str] = []
    position = read = 0
    for m in re.finditer(_EMOTION_LIST[lang], text, re.I):
        if m.start() < read:
            continue
        limit = min(len(text), m.end() + _MAX_LIST)
        end = _LIST_END.search(text, m.end(), limit)
        read = end.start() if end else limit
        words = [word for _, word, _ in _mentions(text[m.end() : read], "emotion", lang)]
        if words:
            listed += words
            rest.append(text[position : m.start()])
            position = read
    rest.append(text[position:])
    found = listed or [word for _, word, _ in _mentions(text, "emotion", lang) if word != "Neutral"]
    return tuple(dict.fromkeys(found)), " ".join(rest)
