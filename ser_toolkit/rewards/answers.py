"""A judge's answer out of its words or its log-probabilities. What cannot be read is no answer: not 0, and no tie.

Whole words only. The answer may be the whole text, follow an anchor ("Verdict: True"; the last one that can be read
counts, since what comes before is thought), be the last line, or open the text before a full stop or a line's end.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import RecordError
from ..releases.judging import REPLY_ANSWERS, STEP_ANSWERS
from ..taxonomy import fold
from ..verdicts import read_verdict

_MARKUP = " \t*_`~\"'“”‘’()（）【】「」{}[]"
_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_ANCHOR = re.compile(
    r"(?:\b(?:answer|verdict|judge?ment|decision|conclusion|result)\b|答案|结论|判断|评判|回答)"
    r"[\s*_`\"']*(?:is\b|[:：=]|为|是)[:：]?",
    re.IGNORECASE,
)
_END = re.compile(r"[.。,，;；:：!！?？\n]|\s[-–—]\s")
_STEP_WORDS = {
    **dict.fromkeys(map(fold, ("true", "yes", "correct", "正确", "对", "是")), STEP_ANSWERS[0]),
    **dict.fromkeys(map(fold, ("false", "no", "incorrect", "wrong", "错误", "不正确", "错", "否")), STEP_ANSWERS[1]),
}


def read_answer(text: str, allowed: Sequence[str]) -> str | None:
    """The one of the `allowed` answers that the text gives, `None` where it gives none.

    For True and False, and for the four verdicts on replies, other spellings of the same are taken, too.
    """
    for candidate in _candidates(_THOUGHT.sub("", text)):
        found = _exactly(candidate, allowed)
        if found is not None:
            return found
    return None


def answer_probabilities(
    entries: Sequence[Mapping[str, Any]] | None, allowed: Sequence[str]
) -> dict[str, float] | None:
    """Answer -> probability, from the alternatives of the reply's first token that opens an answer; they sum to 1.

    A token counts for the one answer that begins with it; a server names only its likeliest tokens, and what it does
    not name has 0. `None` where there is nothing to read.
    """
    for entry in entries or ():
        if not str(entry.get("token", "")).strip(_MARKUP + "\n"):
            continue
        alternatives = entry.get("top_logprobs") or [entry]
        mass = dict.fromkeys(allowed, 0.0)
        for alternative in alternatives:
            token = str(alternative.get("token", "")).strip(_MARKUP + "\n").casefold()
            logprob = alternative.get("logprob")
            meant = [a for a in allowed if token and a.casefold().startswith(token)]
            if len(meant) == 1 and isinstance(logprob, int | float):
                mass[meant[0]] += math.exp(min(float(logprob), 0.0))
        whole = sum(mass.values())
        return {a: m / whole for a, m in mass.items()} if whole > 0 and math.isfinite(whole) else None
    return None


def _candidates(text: str) -> Iterator[str]:
    """What may be the answer, the most telling first."""
    text = text.strip()
    yield text
    for anchor in reversed(list(_ANCHOR.finditer(text))):
        yield _END.split(text[anchor.end() :].lstrip(_MARKUP + "\n"), maxsplit=1)[0]
    lines = text.splitlines()
    if len(lines) > 1:
        yield lines[-1]
    yield _END.split(text.lstrip(_MARKUP), maxsplit=1)[0]


def _exactly(text: str, allowed: Sequence[str]) -> str | None:
    word = text.strip().strip(_MARKUP).rstrip(".。!！").strip(_MARKUP)
    folded = fold(word)
    found = next((a for a in allowed if fold(a) == folded), None)
    if found is None and tuple(allowed) == STEP_ANSWERS:
        return _STEP_WORDS.get(folded)
    if found is None and set(allowed) == set(REPLY_ANSWERS.values()):
        try:
            return REPLY_ANSWERS[read_verdict(word)]
        except RecordError:
            return None
    return found
