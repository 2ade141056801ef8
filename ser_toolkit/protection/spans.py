"""Where something private stands in a text, and how finds that overlap become one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["name", "phone", "email", "address", "handle", "id", "url"]
KINDS: tuple[Kind, ...] = ("name", "phone", "email", "address", "handle", "id", "url")

PLACEHOLDER = re.compile(rf"\[({'|'.join(k.upper() for k in KINDS)})_(\d{{1,4}})\]")
"""What stands in a text in place of a find: [NAME_1], in every language."""

MASK = "\ufffc"
"""Fills the place of what is found already, so that no rule finds it, or a part of it, again."""


@dataclass(frozen=True, slots=True)
class Span:
    """text[start:end] is of this kind, by that rule. It holds no text."""

    start: int
    end: int
    kind: Kind
    rule: str


def resolve(spans: Iterable[Span]) -> list[Span]:
    """The spans in order, none overlapping: those that overlap become one, of the longest's kind (then the first's)."""
    resolved: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        if resolved and span.start < resolved[-1].end:
            last = resolved[-1]
            main = span if span.end - span.start > last.end - last.start else last
            resolved[-1] = Span(last.start, max(last.end, span.end), main.kind, main.rule)
        else:
            resolved.append(span)
    return resolved


def masked(text: str, spans: Iterable[Span]) -> str:
    """The text, as long as before, with nothing to find in these spans (none overlapping) or in a placeholder."""
    parts, at = [], 0
    for span in sorted(spans, key=lambda s: s.start):
        parts += [text[at : span.start], MASK * (span.end - span.start)]
        at = span.end
    text = "".join([*parts, text[at:]]) if at else text
    return PLACEHOLDER.sub(lambda m: MASK * len(m[0]), text) if "[" in text else text
