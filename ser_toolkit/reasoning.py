"""The four-part text and its parts: read it (tolerantly), write it (strictly), check its format, read its labels.

    Step 1. Conversation History Analysis
    ...
    Step 4. Response Generation
    \\boxed{the reply}

Source: PEER, arXiv 2508.09521, section 3. Titles vary in the wild, so steps are found by number; a missing part
is reported, never an exception. May import: the schema, the taxonomy, its own two parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .errors import RecordError
from .reasoning_labels import Labels, read_labels
from .reasoning_parse import (
    Heading,
    find_boxes,
    headings,
    is_balanced,
    split_title,
    without_box_markup,
    without_rule,
)
from .schema import Lang

__all__ = [
    "TITLES",
    "Labels",
    "ParsedTrace",
    "UnrenderableTrace",
    "format_ok",
    "parse_trace",
    "read_labels",
    "render_trace",
]

TITLES: dict[Lang, tuple[str, str, str, str]] = {
    "en": (
        "Conversation History Analysis",
        "Multimodal Emotional State Inference",
        "Strategy Selection",
        "Response Generation",
    ),
    "zh": ("对话历史分析", "多模态情绪状态推断", "策略选择", "回复生成"),
}
"""The titles that `render_trace` writes."""

OUT_OF_ORDER = "the steps are out of order"
Steps = tuple[str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class ParsedTrace:
    """What was found in a text: steps 1 to 3 and the reply, each `None` where absent or empty.

    `titles` are those of steps 1 to 4 as written; `problems` are sentences for people; `boxed` says whether the
    reply stood in a closed box.
    """

    steps: Steps
    titles: tuple[str | None, str | None, str | None, str | None]
    reply: str | None
    problems: tuple[str, ...]
    boxed: bool

    @property
    def complete(self) -> bool:
        """Whether all four parts have text: only then is it a Trace."""
        return self.reply is not None and None not in self.steps


class UnrenderableTrace(RecordError, ValueError):
    """Parts that would not parse back."""

    def __init__(self, reason: str, text: str = "") -> None:
        super().__init__("format", reason, text=text)


def parse_trace(text: str) -> ParsedTrace:
    """The parts of any text; never raises, in linear time.

    A step counts once, the first time. Of several boxes in step 4 the last that holds text is the reply; where
    none is closed, step 4's text is the reply, and `problems` says so.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    found, problems = _sections(text)
    steps: list[str | None] = []
    titles: list[str | None] = []
    for number in (1, 2, 3):
        heading, end = found.get(number, (None, 0))
        title, body = split_title(text[heading.content : end], heading.emphasis) if heading else (None, "")
        if text[end : end + 1] in ("#", "*"):  # only Markdown puts rules between sections
            body = without_rule(body)
        if heading is None:
            problems.append(f"step {number} is missing")
        elif not body:
            problems.append(f"step {number} is empty")
        steps.append(body or None)
        titles.append(title)
    title, reply, boxed, trouble = _reply(text, *found[4]) if 4 in found else (None, None, False, ["step 4 is missing"])
    return ParsedTrace(
        (steps[0], steps[1], steps[2]),
        (titles[0], titles[1], titles[2], title),
        reply,
        (*problems, *trouble),
        boxed,
    )


def _sections(text: str) -> tuple[dict[int, tuple[Heading, int]], list[str]]:
    """Step number -> its first heading and where its section ends; and what is wrong with their sequence."""
    marks = list(headings(text))
    first_reply = next((h for h in marks if h.number == 4), None)
    if first_reply and first_reply is not marks[-1]:
        # A reply may itself list steps: a heading inside a closed box is part of what is said.
        inside = iter(find_boxes(text, first_reply.content).closed)
        box = next(inside, None)
        kept: list[Heading] = []
        for h in marks:
            while box and box[1] <= h.start:
                box = next(inside, None)
            if not (box and box[0] < h.start):
                kept.append(h)
        marks = kept
    found: dict[int, tuple[Heading, int]] = {}
    repeated: dict[int, None] = {}
    for i, h in enumerate(marks):
        end = marks[i + 1].start if i + 1 < len(marks) else len(text)
        if h.number in found:
            repeated[h.number] = None
        else:
            found[h.number] = (h, end)
    problems = [f"step {n} is repeated" for n in repeated]
    if list(found) != sorted(found):
        problems.append(OUT_OF_ORDER)
    return found, problems


def _reply(text: str, heading: Heading, end: int) -> tuple[str | None, str | None, bool, list[str]]:
    """(title, reply, boxed, problems) of step 4's section."""
    section = text[heading.content : end]
    title, body = split_title(section, heading.emphasis)
    boxes = find_boxes(section)
    full = [c.strip() for c in boxes.contents if c.strip()]
    if full:
        return title, full[-1], True, []
    what = "not closed" if boxes.unclosed else "empty" if boxes.contents else "missing"
    reply = without_box_markup(body) or None
    return title, reply, False, [f"the box is {what}", *(["the reply is empty"] if reply is None else [])]


def render_trace(steps: Sequence[str], reply: str, lang: Lang) -> str:
    """The four-part text. Parsing it gives the same parts, up to outer white space.

    Raises UnrenderableTrace (a RecordError and a ValueError) for what would not parse back: an empty part, a
    line that looks like a heading, a carriage return, unbalanced braces in the reply.
    """
    if len(steps) != 3:
        raise UnrenderableTrace(f"a trace has three steps, not {len(steps)}")
    parts = [part.strip() for part in (*steps, reply)]
    for number, part in enumerate(parts, 1):
        if not part:
            raise UnrenderableTrace(f"step {number} is empty")
        if "\r" in part:
            raise UnrenderableTrace(f"step {number} holds a carriage return: end lines with \\n", part)
    if any(headings("\n".join(parts))):
        number, part = next((n, p) for n, p in enumerate(parts, 1) if any(headings(p)))
        raise UnrenderableTrace(f"step {number} holds a line that looks like a heading", part)
    if not is_balanced(parts[3]):
        raise UnrenderableTrace("the reply's braces are not balanced", parts[3])
    parts[3] = f"\\boxed{{{parts[3]}}}"
    word, dot = ("步骤", "：") if lang == "zh" else ("Step ", ". ")
    return "\n\n".join(f"{word}{n}{dot}{TITLES[lang][n - 1]}\n{part}" for n, part in enumerate(parts, 1))


def format_ok(text: str, require_box: bool = True) -> bool:
    """Whether all three steps and then a non-empty reply are there, in order; boxed, unless relaxed."""
    parsed = parse_trace(text)
    return parsed.complete and OUT_OF_ORDER not in parsed.problems and (parsed.boxed or not require_box)
