"""A dialogue's history as plain text for a prompt, cut at turn borders to a budget of tokens.

One turn is one line, whatever the turn's text holds: a line break inside a turn must not let it speak for someone
else, and the opening of a model's control token must not end the message that the turn stands in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from .schema import Cue, Lang, Role, Turn

if TYPE_CHECKING:
    from .llm.chat import Message

PROMPT_MARGIN = 64
"""Tokens left for a chat template's own markup."""

ROLE_NAMES: dict[Lang, dict[Role, str]] = {
    "en": {"seeker": "Seeker", "supporter": "Supporter"},
    "zh": {"seeker": "求助者", "supporter": "支持者"},
}
_CHANNELS = {
    "en": {"face": "face", "voice": "voice", "body": "body", "scene": "scene", "mixed": "cues"},
    "zh": {"face": "表情", "voice": "语气", "body": "动作", "scene": "场景", "mixed": "线索"},
}
_COLON: dict[Lang, str] = {"en": ": ", "zh": "："}


def one_line(text: str) -> str:
    """Untrusted text as one line without control tokens: white space runs become single spaces."""
    return " ".join(text.split()).replace("<|", "< |").replace("|>", "| >")


def render_turn(turn: Turn, lang: Lang) -> str:
    """One turn as one line; a seeker's cues follow in brackets."""
    line = f"{ROLE_NAMES[lang][turn.speaker]}{_COLON[lang]}{one_line(turn.text)}"
    return f"{line} {render_cues(turn.cues, lang)}" if turn.speaker == "seeker" and turn.cues else line


def render_cues(cues: Sequence[Cue], lang: Lang) -> str:
    """Cues as "[face: eyes down] [voice: flat]"."""
    return " ".join(f"[{_CHANNELS[lang][cue.channel]}{_COLON[lang]}{one_line(cue.text)}]" for cue in cues)


def render_history(turns: Sequence[Turn], lang: Lang) -> str:
    """The turns, a line each: "Seeker: ..." and "Supporter: ..."."""
    return "\n".join([render_turn(turn, lang) for turn in turns])


# Tokens per character, from above, for small vocabularies (SmolLM2's 49,152 pieces); larger ones need fewer.
_COSTS = (
    (re.compile(r"[A-Za-z]+"), 1 / 2.8),
    (re.compile(r"[0-9]"), 1.0),
    (re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]"), 1.9),
    (re.compile(r"[!-/:-@\[-`{-~]"), 0.8),
    (re.compile(r"[\u00a1-\u2e7f]"), 1.5),
    (re.compile(r"[\U00010000-\U0010ffff]"), 4.0),
)


def estimate_tokens(text: str) -> int:
    """How many tokens the text takes, estimated from above by classes of characters."""
    total = sum(cost * sum(len(run) for run in pattern.findall(text)) for pattern, cost in _COSTS)
    return math.ceil(total + 0.3 * text.count("\n"))


def fit_turns(turns: Sequence[Turn], budget_tokens: int, lang: Lang) -> int:
    """The first turn to keep so that the rest fits the budget.

    Turns go from the front, whole; the seeker's last turn and what follows it always stay, even over budget.
    """
    if not turns:
        return 0
    last_seeker = max((i for i, turn in enumerate(turns) if turn.speaker == "seeker"), default=len(turns) - 1)
    spent, start = 0, len(turns)
    for index in range(len(turns) - 1, -1, -1):
        spent += estimate_tokens(render_turn(turns[index], lang)) + 1  # its line break
        if spent > budget_tokens and index < last_seeker:
            break
        start = index
    return start


def first_fitting(
    turns: Sequence[Turn],
    lang: Lang,
    context_tokens: int | None,
    reply_tokens: int,
    frame: Callable[[], Iterable[Message]],
) -> int:
    """The first turn to keep in a prompt, so that all fits a model's context: 0 where that is not known.

    `frame` gives the prompt without the turns (asked only where it counts); `reply_tokens` are kept for the answer.
    """
    if context_tokens is None:
        return 0
    return fit_turns(turns, context_tokens - reply_tokens - message_tokens(frame()) - PROMPT_MARGIN, lang)


def message_tokens(messages: Iterable[Message]) -> int:
    """`estimate_tokens` of all texts."""
    return sum(estimate_tokens(m.text) for m in messages)
