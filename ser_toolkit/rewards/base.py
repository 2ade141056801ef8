"""What a reward is asked and what it answers.

A reward scores a *group*: the completions of one prompt. The scene that they share is given once, so that a scorer can
read it once. Absent is not missing: a part that the policy did not write scores 0; what a judge failed to say is
`None`, never 0 and never the mean. May import: the ground, no torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, runtime_checkable

from ..llm.chat import Image
from ..reasoning import ParsedTrace, parse_trace
from ..schema import Lang, Turn


@dataclass(frozen=True, slots=True)
class Scene:
    """What all completions of a group answer: the history up to the seeker's last utterance, and what is known beside.

    `reference` is the corpus' own reply, empty where there is none; `images` are the seeker's face, oldest first.
    """

    id: str
    lang: Lang
    turns: tuple[Turn, ...]
    situation: str = ""
    persona: str = ""
    reference: str = ""
    images: tuple[Image, ...] = ()


@dataclass(frozen=True)
class Completion:
    """One completion of a policy: its text, and its length in tokens where the policy's tokenizer has counted it."""

    text: str
    tokens: int | None = None

    @cached_property
    def parsed(self) -> ParsedTrace:
        """Its steps and reply; never raises."""
        return parse_trace(self.text)

    @property
    def analysis(self) -> str:
        """What was thought before speaking: the steps that are there, "" where none is."""
        return "\n\n".join(step for step in self.parsed.steps if step)

    @property
    def reply(self) -> str:
        """What is said to the seeker. A text without any step is all reply."""
        if self.parsed.reply is not None:
            return self.parsed.reply
        return "" if any(self.parsed.steps) else self.text.strip()


@dataclass(frozen=True, slots=True)
class RewardBreakdown:
    """The worth of one completion. `total` is `None` where a judge failed: the completion then takes no part.

    `components` keep each part by name, `None` where missing; `notes` say what went wrong.
    """

    total: float | None
    components: Mapping[str, float | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@runtime_checkable
class RewardFunction(Protocol):
    """Anything that scores a group."""

    async def score(self, scene: Scene, completions: Sequence[Completion]) -> list[RewardBreakdown]:
        """One breakdown a completion, in their order."""
        ...
