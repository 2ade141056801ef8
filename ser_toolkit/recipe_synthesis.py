"""The recipe's section `synthesize`: how scenarios become dialogues, and which mix of them is wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field, field_validator, model_validator

from .recipe_section import Section
from .schema import Lang
from .taxonomy import EMOTIONS, INTENSITIES, fold

Shares = dict[str, float]
KNOWN = {"emotion": EMOTIONS, "intensity": INTENSITIES, "lang": ("en", "zh")}
"""The words of those dimensions of a mix that have a vocabulary."""


class Mix(Section):
    """Shares (0 to 1) of the dialogues that are to be had, by what their scenarios say.

    Shares of one dimension may leave a rest, which anything else may fill; case and hyphens of a word do not count.
    """

    problem: Shares = Field(default={}, description="e.g. {work: 0.5, family: 0.5}, in the scenarios' own words")
    emotion: Shares = Field(default={}, description="by SER's eleven emotions")
    intensity: Shares = Field(default={}, description="Mild, Moderate, Intense")
    culture: Shares = Field(default={}, description="in the scenarios' own words")
    lang: Shares = Field(default={}, description="en, zh")

    @field_validator("*")
    @classmethod
    def _are_shares(cls, value: Shares) -> Shares:
        if any(not 0 <= share <= 1 for share in value.values()):
            raise ValueError("each share is a number from 0 to 1")
        if sum(value.values()) > 1 + 1e-6:
            raise ValueError(f"the shares sum to {sum(value.values()):g}, which is more than 1")
        if len({fold(word) for word in value}) < len(value):
            raise ValueError("a word stands there twice")
        return value

    @field_validator(*KNOWN)
    @classmethod
    def _are_known(cls, value: Shares, info) -> Shares:
        known = KNOWN[info.field_name]
        spelt = {fold(word): word for word in known}
        if strange := [word for word in value if fold(word) not in spelt]:
            raise ValueError(f"unknown: {', '.join(strange)}; known: {', '.join(known)}")
        return {spelt[fold(word)]: share for word, share in value.items()}

    def dimensions(self) -> Iterator[tuple[str, Mapping[str, float]]]:
        """Each dimension that is told anything of, and its shares."""
        for name in type(self).model_fields:
            if shares := getattr(self, name):
                yield name, shares


class Synthesize(Section):
    """Play of scenarios by a simulated seeker and a supporter."""

    mode: Literal["turns", "whole"] = Field(
        default="turns", description="turn by turn, two speakers; or a whole dialogue in one call"
    )
    max_rounds: int = Field(default=6, ge=1, le=50, description="seeker-supporter exchanges, at most")
    moved: int = Field(
        default=40, ge=1, le=100, description="a talk ends when the seeker's feeling (0-100) has risen by so much"
    )
    plan: bool | None = Field(
        default=None, description="the supporter plans its strategy; unset: yes, but no for the embedded model"
    )
    count: int | None = Field(
        default=None, ge=1, le=1_000_000, description="dialogues to make; unset: `per_scenario` of each scenario"
    )
    per_scenario: int = Field(
        default=1, ge=1, le=10_000, description="dialogues from one scenario; with `count`: at most"
    )
    mix: Mix = Mix()
    invent: bool = Field(default=True, description="where scenarios are too few for `count`, the model writes new ones")
    licence: str = Field(default="unknown", description="what the model's terms give what it invents, as an SPDX id")
    near: float = Field(
        default=0.8, ge=0.5, le=1, description="similarity from which a dialogue repeats an earlier one"
    )
    retries: int = Field(default=2, ge=0, le=20, description="how often a rejected dialogue is played anew")
    max_stock_phrases: int | None = Field(
        default=None, ge=0, description="of one supporter in a dialogue; unset: 1, any number for the embedded model"
    )
    stock_phrases: dict[Lang, str] = Field(
        default={}, description="files of phrases, one a line, in place of the bundled ones"
    )

    @model_validator(mode="after")
    def _mix_of_how_many(self) -> Synthesize:
        if self.count is None and any(True for _ in self.mix.dimensions()):
            raise ValueError("a mix needs to know of how many dialogues: set synthesize.count")
        return self
