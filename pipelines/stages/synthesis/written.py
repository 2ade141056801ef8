"""What a play comes to, in whichever mode: turns, how the seeker felt, why it ended; and what both modes share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from ser_toolkit.schema import Label, Lang, Scenario, Turn
from ser_toolkit.taxonomy import STRATEGIES, ZH

STAGE = "synthesize"
PLANNED = "planned_strategy"
"""Flag of a supporter's turn whose strategy its own model chose before it spoke (`origin` names the model)."""

Ending = Literal["goodbye", "moved", "gave_up", "max_rounds", "model_stopped"]
"""Why a talk ended: the seeker said goodbye; it feels better by `synthesize.moved`; it feels as bad as can be; the
limit of rounds; or the model, which writes the whole, wrote no more.
"""

_START = {"Mild": 45, "Moderate": 30, "Intense": 15}
START = 30
"""How a seeker feels at first, 0 to 100, where its scenario does not tell how strongly (SAGE's start)."""


@dataclass(frozen=True, slots=True)
class Written:
    """A play. `feelings` are the seeker's, 0 to 100, one a turn of its; `None` where one is not known."""

    turns: tuple[Turn, ...]
    ending: Ending
    feelings: tuple[int | None, ...] = ()


def start_feeling(scenario: Scenario) -> int:
    """How the seeker of a scenario feels at first, 0 to 100."""
    return _START.get(scenario.intensity or "", START)


def has_moved(feeling: int | None, scenario: Scenario, moved: int) -> Ending | None:
    """The ending that the seeker's feeling makes, where it makes one."""
    if feeling is None:
        return None
    if feeling <= 0:
        return "gave_up"
    return "moved" if feeling >= min(100, start_feeling(scenario) + moved) else None


@cache
def strategy_words(lang: Lang) -> tuple[str, ...]:
    """SER's strategies in a language, in the order of the taxonomy."""
    return tuple(ZH[s] for s in STRATEGIES) if lang == "zh" else STRATEGIES


def strategy_label(word: str, lang: Lang) -> Label:
    """The label of a strategy that a model chose among `strategy_words`."""
    return Label(original=word, corpus=word, ser=STRATEGIES[strategy_words(lang).index(word)])


def persona_of(scenario: Scenario, role: str) -> str:
    """The persona of one speaker, as text of a prompt."""
    return " ".join(" ".join(s.persona.split()) for s in scenario.speakers if s.role == role)


def lines_of(turns: Sequence[Turn], role: str) -> list[str]:
    """What one speaker said, in order."""
    return [t.text for t in turns if t.speaker == role]
