"""Hand-marked sentences: "{name:Tom} left" -> the text and where something private stands in it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from ser_toolkit.protection.spans import Span

SETS = Path(__file__).parent / "sets"
_MARK = re.compile(r"\{(name|phone|email|address|handle|id|url):([^{}|]*)(?:\|([^{}|]*))?\}")


@dataclass(frozen=True, slots=True)
class Gold:
    start: int
    end: int
    kind: str


def read_marked(name: str, lang: str) -> tuple[list[tuple[str, list[Gold]]], list[str]]:
    """The marked texts of a set with their gold spans, and its texts that hold nothing private."""
    tree = tomllib.loads((SETS / f"{name}_{lang}.toml").read_text(encoding="utf-8"))
    return [unmark(t) for t in tree["texts"]], list(tree["none"])


def unmark(marked: str) -> tuple[str, list[Gold]]:
    """`{kind:text}`: text is private; `{kind:text|part}`: only `part` of it has to be found."""
    text, gold, at = "", [], 0
    for m in _MARK.finditer(marked):
        text += marked[at : m.start()]
        part = m[3] or m[2]
        start = len(text) + m[2].index(part)
        gold.append(Gold(start, start + len(part), m[1]))
        text += m[2]
        at = m.end()
    return text + marked[at:], gold


def is_covered(gold: Gold, found: list[Span]) -> bool:
    """Whether no character of it (spaces aside) is left outside the finds."""
    covered = {i for s in found for i in range(s.start, s.end)}
    return all(i in covered for i in range(gold.start, gold.end))


def is_right(span: Span, gold: list[Gold]) -> bool:
    """Whether a find is, at least in part, something private."""
    return any(span.start < g.end and g.start < span.end for g in gold)


def read_crisis(lang: str) -> tuple[list[str], list[str]]:
    """All messages of all sets that tell of a crisis, and all that do not."""
    risk: list[str] = []
    none: list[str] = []
    for file in sorted(SETS.glob(f"crisis*_{lang}.toml")):
        tree = tomllib.loads(file.read_text(encoding="utf-8"))
        none += tree.pop("none")
        tree.pop("imminent", None)
        risk += [text for texts in tree.values() for text in texts]
    return risk, none
