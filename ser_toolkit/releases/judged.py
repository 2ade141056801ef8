"""A judge's chat taken apart again, and asked otherwise: with less history, with the replies exchanged, in one turn.

The two baselines of the unified judge (PEER, arXiv 2508.09521, section 4) are trained on the same rows: a process judge
sees all three steps in one turn and answers three times, an outcome judge sees the two replies alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from ser_toolkit.errors import RecordError
from ser_toolkit.reasoning import TITLES
from ser_toolkit.schema import Lang
from ser_toolkit.verdicts import Shown

from .judging import ASK_STEP, FIRST, REPLY, STEP, STEP_ANSWERS, reply_question, step_question

PROCESS_ANSWERS: tuple[str, ...] = tuple(", ".join(three) for three in product(STEP_ANSWERS, repeat=3))
"""All answers that the process judge may give: one word a step, in order."""
_ASK_STEPS: dict[Lang, str] = {
    "en": "Is each of these three steps sound, given the conversation? Answer three times True or False, in order.",
    "zh": "结合对话来看，这三步各自是否正确？依次回答三个 True 或 False。",
}
EXCHANGED: dict[Shown, Shown] = {
    "first_better": "second_better",
    "second_better": "first_better",
    "almost_equal": "almost_equal",
    "neither": "neither",
}
"""What a verdict becomes when the two replies are exchanged."""


@dataclass(frozen=True, slots=True)
class Case:
    """What a judge is asked about: the history (a line a turn), the three steps, the two replies as they are shown."""

    history: tuple[str, ...]
    steps: tuple[str, str, str]
    replies: tuple[str, str]
    lang: Lang

    @property
    def opening(self) -> str:
        return FIRST[self.lang].format(history="\n".join(self.history))

    def exchanged(self) -> Case:
        """With the replies in the other order."""
        return replace(self, replies=(self.replies[1], self.replies[0]))

    def without(self, turns: int) -> Case:
        """Without that many turns from the front. The last one always stays."""
        return replace(self, history=self.history[min(turns, max(len(self.history) - 1, 0)) :])

    def unified(self) -> tuple[str, ...]:
        """The four questions of the unified judge, as `judging.judge_questions` asks them."""
        titled = enumerate(zip(TITLES[self.lang][:3], self.steps, strict=True), 1)
        asked = [step_question(n, title, text, self.lang) for n, (title, text) in titled]
        return (self.opening + asked[0], *asked[1:], reply_question(self.replies, self.lang))

    def process(self) -> str:
        """The one question of the process judge: all three steps."""
        titled = enumerate(zip(TITLES[self.lang][:3], self.steps, strict=True), 1)
        steps = (STEP[self.lang].format(n=n, title=title, text=text) for n, (title, text) in titled)
        return self.opening + "".join(steps) + _ASK_STEPS[self.lang]

    def outcome(self) -> str:
        """The one question of the outcome judge: the two replies."""
        return self.opening + reply_question(self.replies, self.lang)


def take_apart(questions: Sequence[str], lang: Lang) -> Case:
    """The parts of the four questions of a row of `judgements/`: `unified()` gives the questions back.

    A turn is one line in them, so the history ends at the first empty one. Raises RecordError (malformed) for others.
    """
    if len(questions) != 4:
        raise RecordError("malformed", f"{len(questions)} questions instead of four")
    before, after = FIRST[lang].split("{history}")
    if not questions[0].startswith(before) or after not in questions[0][len(before) :]:
        raise RecordError("malformed", "the first question does not begin with a conversation", text=questions[0][:200])
    history, _, first = questions[0][len(before) :].partition(after)
    steps = [
        _found(STEP[lang].format(n=n, title=title, text="{text}") + ASK_STEP[lang], asked)["text"]
        for n, (title, asked) in enumerate(zip(TITLES[lang][:3], (first, *questions[1:3]), strict=True), 1)
    ]
    pair = _found(REPLY[lang], questions[3])
    between = REPLY[lang].partition("{first}")[2].partition("{second}")[0]
    if questions[3].count(between) != 1:
        raise RecordError("malformed", f"a reply holds the words {between.strip()!r}", text=questions[3][:200])
    lines = tuple(history.split("\n")) if history else ()
    return Case(lines, (steps[0], steps[1], steps[2]), (pair["first"], pair["second"]), lang)


def _found(template: str, text: str) -> dict[str, str]:
    """What stands in the places of a template. Raises RecordError where the text is not of that form."""
    form = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.*)", re.escape(template))
    found = re.fullmatch(form, text, re.DOTALL)
    if found is None:
        raise RecordError("malformed", "a question is not worded as this version asks it", text=text[:200])
    return found.groupdict()
