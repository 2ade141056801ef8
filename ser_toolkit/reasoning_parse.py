"""Find headings, titles and boxes in four-part text, in time linear in its length.

Kept apart from `reasoning` so that what counts as a heading stands in one place: parsing looks for headings
here, and rendering refuses text in which one would be found. Lines end at "\\n" alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

_NUMBERS = {mark: n for n, marks in enumerate(("1１一", "2２二", "3３三", "4４四"), 1) for mark in marks}
_NUMBERS |= {"one": 1, "two": 2, "three": 3, "four": 4}

# Possessive quantifiers: no run of characters is scanned twice.
_HEADING = re.compile(
    r"""^(?P<open>[ \t\u00a0\u3000\ufeff\u200b\#>*_`~•\-\[【(（]*+)
    (?:
        step[ \t]*+(?P<en>[1-4１-４](?![\d０-９])|(?:one|two|three|four)\b)
      | 步[骤驟][ \t\u3000]*+(?P<zh>[1-4１-４一二三四])(?![\d０-９十])
      | 第[ \t\u3000]*+(?P<nth>[1-4１-４一二三四])[ \t\u3000]*+步[骤驟]?+
    )
    (?P<close>[ \t\u00a0\u3000*_`~\])】）]*+)
    (?P<separator>(?:[.．。:：、]|[-–—－―]{1,3}+)?+)
    (?P<gap>[ \t\u00a0\u3000]*+)
    """,
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)
_CJK = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
_SENTENCE_GOES_ON = "是的中里我先要需就也"  # what follows 第二步 in a sentence, not in a title
_GLUED_TITLE = re.compile(r"[^\n:：。，,]{1,14}(?=[:：\n]|\Z)")
_TITLE_END = re.compile(r"[。．:：】\n]|\.(?=[\s*_`~]|\Z)")
_EMPHASIS = re.compile(r"[*_`~]+")
# A box's opening; flat pairs, which change nothing; a run of braces.
_BRACES = re.compile(r"\\boxed[ \t]*+\{|(?P<flat>(?:\{[^{}\\]*+\}[^{}\\]*+)++)|\{++|\}++")
_RULES = ({"-"}, {"*"}, {"_"})
MAX_TITLE_WORDS, MAX_TITLE_CJK = 8, 14


class Heading(NamedTuple):
    """A heading: step 1 to 4, where its line begins, where its content begins, an emphasis still open there."""

    number: int
    start: int
    content: int
    emphasis: str


def headings(text: str) -> Iterator[Heading]:
    """Every line that opens a step, in order. "Step 2" inside a sentence is none."""
    for m in _HEADING.finditer(text):
        opening, close, separator, gap = m.group("open", "close", "separator", "gap")
        if _opens_step(text, m.end(), opening, close, separator, gap):
            emphasis = opening[len(opening.rstrip("*_`~")) :]
            mark = (m["en"] or m["zh"] or m["nth"]).casefold()
            yield Heading(_NUMBERS[mark], m.start(), m.end(), "" if emphasis in close else emphasis)


def _opens_step(text: str, end: int, opening: str, close: str, separator: str, gap: str) -> bool:
    """Whether what follows "Step N" at a line's start makes it a heading rather than the start of a sentence."""
    after = text[end : end + 1]
    if separator:
        is_number = not gap and after.isdigit() and separator[0] in ".．-–—－―"  # "Step 1.2", "Step 1-3"
        is_compound = not gap and not close and separator == "-" and after.islower()  # "Step 2-based"
        return not is_number and not is_compound
    if after in ("", "\n") or any(c in "*_`~])】）" for c in close):
        return True
    if "#" in opening or opening.endswith(("*", "_")):
        return True
    if _CJK.match(after):
        return after not in _SENTENCE_GOES_ON and (bool(close) or _GLUED_TITLE.match(text, end) is not None)
    return bool(close) and (after.isupper() or after in "\"'“‘「《([{（【\\*_")


def split_title(content: str, emphasis: str = "") -> tuple[str | None, str]:
    """A step's content as (title, text): a short phrase on the heading's line is the title if text follows it."""
    if emphasis:
        content = content.replace(emphasis, "", 1)
    body = content.strip()
    content = content.lstrip(" \t\u3000")
    end = _TITLE_END.search(content)
    if end is None:
        return None, body
    first, rest = content[: end.start()], content[end.end() :].strip()
    title = first.strip(" \t\u3000*_`~#[]()【】（）")
    lead = _EMPHASIS.match(first)
    if lead and rest.startswith(lead[0]) and not first.endswith(lead[0]):
        rest = rest[lead.end() :].lstrip()
    if not rest or not title or "\\boxed" in title or not _is_short(title):
        return None, body
    return title, rest


def _is_short(title: str) -> bool:
    words = _CJK.sub(" ", title).split()
    return len(words) <= MAX_TITLE_WORDS and len(_CJK.findall(title)) <= MAX_TITLE_CJK


def without_rule(text: str) -> str:
    """The text without a Markdown rule ("---") at its end, as it stands between two headed sections."""
    body, newline, last = text.rpartition("\n")
    mark = last.strip()
    return body.rstrip() if newline and len(mark) >= 3 and set(mark) in _RULES else text


@dataclass(frozen=True, slots=True)
class Boxes:
    """The closed, outermost boxes as (start, end) of the markup and their contents; starts of the unclosed ones."""

    closed: tuple[tuple[int, int], ...]
    contents: tuple[str, ...]
    unclosed: tuple[int, ...]


def find_boxes(text: str, start: int = 0) -> Boxes:
    """All `\\boxed{...}` from `start` on, by counting braces."""
    opened: list[tuple[int, int] | int] = []  # boxes, and how many plain braces opened in a row
    closed: list[tuple[int, int, int]] = []
    first = text.find("\\boxed", start)  # braces before the first box close nothing of it
    for m in _BRACES.finditer(text, first if first >= 0 else len(text)):
        if m.lastgroup:
            continue
        at, end = m.span()
        if text[at] != "}":
            opened.append(end - at if text[at] == "{" else (at, end))
            continue
        while at < end and opened:
            top = opened.pop()
            if isinstance(top, int):
                opened += [top - (end - at)] if top > end - at else []
                at += top
            else:
                while closed and closed[-1][0] > top[0]:
                    closed.pop()
                closed.append((*top, at))
                at += 1
    return Boxes(
        tuple((a, c + 1) for a, _, c in closed),
        tuple(text[b:c] for _, b, c in closed),
        tuple(box[0] for box in opened if not isinstance(box, int)),
    )


def without_box_markup(text: str) -> str:
    """The text with empty boxes and the markup of unclosed ones taken out."""
    return re.sub(r"\\{1,2}boxed[ \t]*+\{(?:\s*+\})?+", "", text).strip()


def is_balanced(text: str) -> bool:
    """Whether every brace is closed, and none before it is opened."""
    depth = 0
    for brace in re.findall(r"[{}]", text):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0
