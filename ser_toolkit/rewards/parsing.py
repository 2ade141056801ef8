"""Read a score out of a judge's words. What cannot be read is `None`: no score, and not 0.

Of several anchored scores the last counts: what comes before is thought. "4/5", "4 out of 5" and
"[85] / 100" name their scale, and a scale other than the one asked for is no answer to the question.
"""

from __future__ import annotations

import re

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
