"""Who speaks in one play of a scenario: personas for both, as the scenario has them, else drawn from `manners.toml`.

A scenario that is played again gets other manners each time, and no longer its own opening: the same people would have
the same talk.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from ser_toolkit.schema import Lang, Record, RiskLevel, Role, Scenario, Speaker
from ser_toolkit.seeds import derive_seed

Salt = tuple[str | int, ...]


class Draw(Record):
    """One play that is to be had: the `number`th dialogue of a scenario (from 1), at its `attempt`th retry (from 0)."""

    scenario: Scenario
    number: int = 1
    attempt: int = 0

    @property
    def id(self) -> str:
        """What a failure is known by, and the journal's calls: withdrawing the scenario reaches them."""
        return self.scenario.id

    @property
    def dialogue_id(self) -> str:
        return f"syn-{self.scenario.id}" + (f"--{self.number}" if self.number > 1 else "")

    @property
    def root_id(self) -> str:
        """One for all dialogues of a scenario: they belong into one split."""
        return f"syn-{self.scenario.id}"

    @property
    def risk(self) -> RiskLevel | None:
        return self.scenario.risk

    @property
    def is_first(self) -> bool:
        return (self.number, self.attempt) == (1, 0)

    @property
    def salt(self) -> Salt:
        """What tells its seeds from those of the scenario's first play."""
        return () if self.is_first else (self.number, self.attempt)


@cache
def manners(lang: Lang, role: Role) -> tuple[str, ...]:
    """How people may talk, a sentence each."""
    file = Path(__file__).with_name("manners.toml")
    return tuple(tomllib.loads(file.read_text(encoding="utf-8"))[lang][role])


def cast(draw: Draw, seed: int, *, with_manners: bool = True) -> Scenario:
    """The scenario as it is played this time: both speakers have a persona, and the first play alone its opening.

    A persona that was drawn, or added to, has the attribute `manner`. `seed` is the recipe's.
    """
    scenario = draw.scenario if draw.is_first else draw.scenario.model_copy(update={"opening": ""})
    if not with_manners:
        return scenario
    said = {s.role: s for s in scenario.speakers}
    speakers = (
        _speaker("seeker", said.get("seeker"), draw, seed, again=not draw.is_first),
        _speaker("supporter", said.get("supporter"), draw, seed),
    )
    return scenario.model_copy(update={"speakers": speakers})


def _speaker(role: Role, given: Speaker | None, draw: Draw, seed: int, *, again: bool = False) -> Speaker:
    speaker = given or Speaker(role=role)
    if speaker.persona and not again:
        return speaker
    known = manners(draw.scenario.lang, role)
    manner = known[derive_seed(seed, draw.scenario.id, role, draw.number, draw.attempt) % len(known)]
    persona = f"{speaker.persona} {manner}".strip()
    return speaker.model_copy(update={"persona": persona, "attributes": {**speaker.attributes, "manner": manner}})
