"""Read a score or a verdict out of a judge's words. What cannot be read is `None`: no score, not 0, not a tie.

Whole words, and of several anchored verdicts the last: what comes before is thought. "4/5", "4 out of 5" and
"[85] / 100" name their scale, and a scale other than the one asked for is no answer to the question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_MARKUP = r"[\s*_`~\"'“”‘’\[\](){}【】（）「」]*"
_ANCHOR = r"(?:score|rating|grade|points?|total|level|评分|得分|分数|总分|打分|等级)"
_NUMBER = re.compile(
    rf"(?:\b|(?<=[\u4e00-\u9fff])){_ANCHOR}(?:\b|(?=[\u4e00-\u9fff:：]))(?:{_MARKUP}(?:is|was|of|为|是))?{_MARKUP}[:：=\-–—]?{_MARKUP}"
    rf"(?P<value>[+\-−]?\d+(?:\.\d+)?)(?![\d.]*\d)"
    rf"(?:{_MARKUP}(?:/|／|out\s+of|of|分之){_MARKUP}(?P<scale>\d+))?",
    re.IGNORECASE,
)
_BARE = re.compile(
    rf"{_MARKUP}(?P<value>[+\-−]?\d+(?:\.\d+)?)(?:{_MARKUP}(?:/|／|out\s+of){_MARKUP}(?P<scale>\d+))?{_MARKUP}[.。分]?{_MARKUP}",
    re.IGNORECASE,
)
_TRUTH = re.compile(
    r"(?P<denied>(?:\b(?:not|never|neither)|n't)\s+)?\b(?P<word>true|false)\b|(?P<zh>不正确|正确|错误)", re.IGNORECASE
)
_FULL_WIDTH = str.maketrans("０１２３４５６７８９．", "0123456789.")


def read_score(text: str, low: int, high: int) -> int | None:
    """The last anchored whole number in [low, high], or a text that is nothing but such a number; else `None`."""
    text = text.translate(_FULL_WIDTH)
    found = list(_NUMBER.finditer(text))
    if not found:
        bare = _BARE.fullmatch(text.strip())
        found = [bare] if bare else []
    if not found:
        return None
    value, scale = found[-1]["value"].replace("−", "-"), found[-1]["scale"]
    if scale is not None and int(scale) != high:
        return None
    number = float(value)
    return int(number) if number.is_integer() and low <= number <= high else None


def read_bool(text: str) -> bool | None:
    """The last "True" or "False" as a whole word (or 正确, 错误); `None` where there is none, or where it is denied."""
    found = list(_TRUTH.finditer(text))
    if not found or found[-1]["denied"]:
        return None
    return (found[-1]["word"] or found[-1]["zh"]).lower() in ("true", "正确")


def read_choice(text: str, choices: Sequence[str]) -> str | None:
    """The one of `choices` that stands last in the text as whole words; `None` where none does, or two end together."""
    folded = " ".join(text.casefold().split())
    ends = {choice: _last_end(folded, " ".join(choice.casefold().split())) for choice in choices}
    latest = max(ends.values(), default=-1)
    if latest < 0:
        return None
    # "almost equal" inside "almost equally good": the longest of those that end last counts
    last = sorted((c for c, end in ends.items() if end == latest), key=len)
    return last[-1]


def _last_end(text: str, phrase: str) -> int:
    found = list(re.finditer(rf"(?<![0-9a-z]){re.escape(phrase)}(?![0-9a-z])", text))
    return found[-1].end() if found else -1
