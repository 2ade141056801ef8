"""What rewriting writes down: the rows of the tables `profiles`, `clusters`, `draws` and `rewrite_quality`."""

from __future__ import annotations

from typing import Literal

from ser_toolkit.schema import Lang, Record, Role

Dimension = Literal["Dominance", "Influence", "Steadiness", "Compliance"]


class Trait(Record):
    """One dimension of a description: what was seen, and a score from 0 (not at all) to 10 (very strongly)."""

    dimension: Dimension
    analysis: str
    score: int


class Profile(Record):
    """How one speaker of one dialogue comes across; `traits` are the four dimensions in the order of DISC."""

    id: str
    dialogue_id: str
    role: Role
    lang: Lang
    traits: tuple[Trait, ...]
    model: str = ""
    prompt: str = ""
    embedding: tuple[float, ...] = ()
    """What the analyses say, as a vector of length 1; empty where the recipe asks for none."""

    @property
    def scores(self) -> tuple[int, ...]:
        return tuple(t.score for t in self.traits)


class CurvePoint(Record):
    """The sum of squared distances to the nearest centre (SSE), with k clusters."""

    k: int
    sse: float


class Centre(Record):
    """One cluster: how many profiles, and their mean score of each dimension."""

    cluster: int
    size: int
    dominance: float
    influence: float
    steadiness: float
    compliance: float


class Clustering(Record):
    """The clusters of the profiles of one role in one language: `k` is the elbow of `curve`."""

    role: Role
    lang: Lang
    profiles: int
    k: int
    curve: tuple[CurvePoint, ...]
    centres: tuple[Centre, ...]


class Draw(Record):
    """Whose personality a speaker gets: `drawn` is a profile of the same cluster; `None` where there is no other."""

    dialogue_id: str
    role: Role
    lang: Lang
    profile_id: str
    cluster: int
    drawn: str | None


class Quality(Record):
    """A judge's scores for one rewritten dialogue, each 0 to 3."""

    record_id: str
    semantic_consistency: int
    contextual_rationality: int
    role_consistency: int
    language_fluency: int
    model: str = ""
    prompt: str = ""
