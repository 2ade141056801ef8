"""User and assistant in turn, the user first: the order that chat templates demand, and what it took to get there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ser_toolkit.schema import Lang

from ..prompting import OPENINGS

Chat = list[dict[str, Any]]

_MARKS = re.compile(
    r"<(?=\||image>|video>|audio>|bbox>|ref-object>|cot-process>|(?:start|end)_of_turn>|/?s>)|\[(?=/?INST\])"
)
"""The first sign of what trainers and templates read as their own: places of media, ends of turns."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of a chat: utterances `merged` into the one before, a neutral first user message put in front
    (`is_opened`), messages `dropped`, since they stand where none may.
    """

    merged: int = 0
    is_opened: bool = False
    dropped: int = 0

    def __bool__(self) -> bool:
        return bool(self.merged or self.is_opened or self.dropped)


def alternate(messages: Sequence[Mapping[str, Any]], lang: Lang, *, ends_with: str = "user") -> tuple[Chat, Changes]:
    """The chat in the order of chat templates: a system message or none, then user and assistant in turn, the user
    first, `ends_with` last.

    Neighbours of one speaker are joined by a line break, as the prompts of a release are; a chat that the assistant
    opens gets a neutral user message in front, so that no word is lost. Dropped are other system messages, and at the
    end what stands behind the last message of `ends_with`. An empty list: nobody of `ends_with` speaks.
    """
    system = [dict(m) for m in messages[:1] if m["role"] == "system"]
    spoken = [m for m in messages if m["role"] in ("user", "assistant")]
    while spoken and spoken[-1]["role"] != ends_with:
        spoken.pop()
    dropped = len(messages) - len(system) - len(spoken)
    if not spoken:
        return [], Changes(dropped=dropped)
    chat: Chat = []
    if is_opened := spoken[0]["role"] == "assistant":
        chat.append({"role": "user", "content": OPENINGS[lang][0]})
    for message in spoken:
        if chat and chat[-1]["role"] == message["role"]:
            chat[-1]["content"] += "\n" + message["content"]
        else:
            chat.append({"role": message["role"], "content": message["content"]})
    return [*system, *chat], Changes(len(spoken) + is_opened - len(chat), is_opened, dropped)


def plain(text: str) -> tuple[str, int]:
    """Untrusted text without what a loader would take for a picture's place, or a template for the end of a turn: a
    space behind the first sign, as training here does it. Also how many there were.
    """
    return _MARKS.subn(lambda mark: f"{mark[0]} ", text)
