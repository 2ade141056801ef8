"""Rewards composed: the one place where what rules and judges say becomes the number that a policy learns from.

The order, always the same:

1. **format** adds `format` points where all four parts are there, in order (and boxed). A part that the policy did not
   write is *absent*: whatever is judged about it scores 0. `prefill`, a text that the prompt had already put into the
   policy's mouth, counts as said by it.
2. **components** score each completion: UnifiReward, PERM, a simulated seeker's last emotion, functions of one's own.
   All of a step's calls run at once; what is not there in `timeout_s` is *missing*. What a judge failed to say is
   missing too: `None`, never 0, never the mean.
3. **aggregation**: the weighted sum. A component of weight 0 is only logged. A completion that misses a part which
   counts has no reward: it gets advantage 0, stands outside its group's mean and deviation, and is counted.
4. **redundancy** weighs the sum down, per group and before the advantages (PEER, arXiv 2508.09521, Eqs. 3-5; or
   DRA-GRPO): what repeats the group or the history is worth less. Where r < 0 it multiplies by the divisor.
5. **length** is added last, so that no weight ever scales it: -penalty * max(0, tokens - free).

`Composer.judge` does 1 to 3 and what hangs on one completion alone, so a process may do it for its share of a group;
`Composer.weigh` does the rest once the whole group is at hand. May import: the ground, no torch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from pydantic import Field, field_validator

from ..errors import RecordError, UsageError
from ..metrics.repetition import Embedder
from ..reasoning import format_ok
from ..recipe_section import Section
from .aggregate import Score, length_term
from .base import Completion, RewardBreakdown, RewardFunction, Scene
from .redundancy import (
    ALPHA,
    BETA,
    length_of,
    reweight,
    reweight_dra,
    similarity_to_history,
    similarity_within,
    tau,
)

FORMAT = "format"


class Redundancy(Section):
    """What repeats itself is worth less. The defaults are PEER's, and METHOD's where the paper leaves one open."""

    kind: Literal["off", "peer", "dra"] = Field(default="off", description="PEER's Eqs. 3-5, DRA-GRPO's, or none")
    alpha: float = Field(default=ALPHA, description="how steeply tau rises with length")
    beta: float = Field(default=BETA, description="the length at which tau is one half")
    over: Literal["group", "batch"] = Field(default="group", description="whose mean length tau is about")
    output: Literal["reply", "whole"] = Field(default="reply", description="what is compared: the reply, or all")
    history: Literal["all", "supporter"] = Field(default="all", description="the utterances that it is compared with")
    clip: bool = Field(default=True, description="a negative cosine counts as 0")

    @field_validator("kind", mode="before")
    @classmethod
    def _yaml_off(cls, value: Any) -> Any:
        return "off" if value is False else value


class Length(Section):
    """PERM's R_length; penalty 0 leaves it out."""

    penalty: float = Field(default=0.0, ge=0, description="points per token past `free` (PERM: 0.001)")
    free: int = Field(default=768, ge=0, description="tokens without penalty (PERM's)")


class RewardRecipe(Section):
    """What a policy is rewarded for. `components` maps a name to its weight."""

    format: float = Field(default=0.0, description="points for all four parts in order; 0 where a component holds it")
    require_box: bool = Field(default=True, description="the format asks for the reply in a box")
    prefill: str = Field(default="", description="what the prompt already put into the policy's mouth")
    components: dict[str, float] = Field(default_factory=dict, description="name or FILE.py:FUNCTION -> weight")
    redundancy: Redundancy = Redundancy()
    length: Length = Length()
    timeout_s: float = Field(default=600.0, gt=0, description="seconds for a component's answer; then it is missing")


@dataclass(frozen=True)
class Rollout(Completion):
    """A completion with what its rollout knows: the simulated seeker's last emotion, 0 to 100, `None` where none."""

    emotion: float | None = None


@dataclass(frozen=True, slots=True)
class Component:
    """One named reward. `alone`: each completion is scored by a call of its own, so a slow one costs one completion."""

    name: str
    reward: RewardFunction
    weight: float = 1.0
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """The completions of one prompt, or a process' share of them."""

    scene: Scene
    completions: tuple[Completion, ...]


@dataclass(frozen=True, slots=True)
class Scored:
    """A completion after the aggregation. `parts` are format and components; `details` what is under them.

    `vector` (d,) is its embedding, `None` without redundancy; `size` its length in words, or characters in Chinese.
    """

    total: Score
    parts: Mapping[str, Score]
    details: Mapping[str, Score]
    notes: tuple[str, ...]
    length: float
    vector: np.ndarray | None
    s_hi: float
    size: int


@dataclass(frozen=True, slots=True)
class Reward:
    """What a completion is worth in the end, and how redundant it was; `tau`, `s_in`, `s_hi` are `None` unmeasured."""

    value: Score
    tau: float | None = None
    s_in: float | None = None
    s_hi: float | None = None


class Composer:
    """The composed reward. Raises UsageError where redundancy is asked for without a model of embeddings."""

    def __init__(
        self, recipe: RewardRecipe, components: Sequence[Component] = (), embedder: Embedder | None = None
    ) -> None:
        names = [c.name for c in components]
        if len({*names, FORMAT}) != len(names) + 1:
            raise UsageError(f"two rewards of one name: {', '.join(sorted(names))}", f"{FORMAT!r} is taken too")
        if not recipe.format and not any(c.weight for c in components):
            raise UsageError("nothing is rewarded", "give a component a weight, e.g. --set reward.components.perm=1")
        if recipe.redundancy.kind != "off" and embedder is None:
            raise UsageError(
                "redundancy needs a model of embeddings", "--set embed=local, or reward.redundancy.kind=off"
            )
        self.recipe = recipe
        self.names = (*([FORMAT] if recipe.format else []), *names)
        self._components = tuple(components)
        self._embedder = embedder if recipe.redundancy.kind != "off" else None

    async def judge(self, groups: Sequence[Group]) -> list[list[Scored]]:
        """Each group's completions up to the aggregation; all calls at once. Raises RemoteError, UsageError."""
        try:
            async with asyncio.TaskGroup() as tasks:
                measured = tasks.create_task(self._measure(groups))
                asked = [[tasks.create_task(self._score(c, group)) for c in self._components] for group in groups]
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from several
        made: list[list[Scored]] = []
        for group, answers, (vectors, s_hi) in zip(groups, asked, measured.result(), strict=True):
            breakdowns = [[task.result()[i] for task in answers] for i in range(len(group.completions))]
            rows = zip(group.completions, breakdowns, vectors, s_hi, strict=True)
            made.append([self._aggregate(group.scene, *row) for row in rows])
        return made

    def weigh(self, groups: Sequence[Sequence[Scored]]) -> list[list[Reward]]:
        """The rewards of whole groups: redundancy, then length."""
        options = self.recipe.redundancy
        means = [float(np.mean([s.size for s in group])) for group in groups]
        if options.over == "batch":
            means = [float(np.mean([s.size for group in groups for s in group]))] * len(groups)
        return [
            self._weigh(group, tau(mean, options.alpha, options.beta))
            for group, mean in zip(groups, means, strict=True)
        ]

    def _weigh(self, group: Sequence[Scored], weight: float) -> list[Reward]:
        totals = [s.total for s in group]
        if self._embedder is None:
            return [Reward(None if t is None else t + s.length) for t, s in zip(totals, group, strict=True)]
        vectors = np.stack([cast(np.ndarray, s.vector) for s in group])
        s_hi = np.array([s.s_hi for s in group])
        s_in = similarity_within(vectors, clip=self.recipe.redundancy.clip)
        is_dra = self.recipe.redundancy.kind == "dra"
        weighed = reweight_dra(totals, vectors) if is_dra else reweight(totals, s_hi, s_in, weight)
        return [
            Reward(None if np.isnan(r) else float(r) + s.length, None if is_dra else weight, float(inside), s.s_hi)
            for r, s, inside in zip(weighed, group, s_in, strict=True)
        ]

    async def _score(self, component: Component, group: Group) -> list[RewardBreakdown]:
        shares = [(c,) for c in group.completions] if component.alone else [group.completions]
        found = await asyncio.gather(*(self._ask(component, group.scene, share) for share in shares))
        return [breakdown for answer in found for breakdown in answer]

    async def _ask(
        self, component: Component, scene: Scene, completions: Sequence[Completion]
    ) -> Sequence[RewardBreakdown]:
        try:
            async with asyncio.timeout(self.recipe.timeout_s):
                found = await component.reward.score(scene, completions)
        except TimeoutError:
            trouble = f"{component.name}: timeout: no answer within {self.recipe.timeout_s:g} s"
            return [RewardBreakdown(None, {}, (trouble,))] * len(completions)
        except RecordError as exc:
            return [RewardBreakdown(None, {}, (f"{component.name}: {exc.kind}: {exc.reason}",))] * len(completions)
        if len(found) != len(completions):
            raise UsageError(f"the reward {component.name} gave {len(found)} scores for {len(completions)} completions")
        return found

    def _aggregate(
        self,
        scene: Scene,
        completion: Completion,
        breakdowns: Sequence[RewardBreakdown],
        vector: np.ndarray | None,
        s_hi: float,
    ) -> Scored:
        parts: dict[str, Score] = {}
        weights = [c.weight for c in self._components]
        if self.recipe.format:
            parts[FORMAT] = float(format_ok(completion.text, self.recipe.require_box))
            weights.insert(0, self.recipe.format)
        parts |= {c.name: b.total for c, b in zip(self._components, breakdowns, strict=True)}
        counted = [(w, score) for w, score in zip(weights, parts.values(), strict=True) if w]
        known = [w * score for w, score in counted if score is not None]
        options = self.recipe.length
        return Scored(
            sum(known) if len(known) == len(counted) else None,
            parts,
            {
                f"{c.name}/{k}": v
                for c, b in zip(self._components, breakdowns, strict=True)
                for k, v in b.components.items()
            },
            tuple(note for b in breakdowns for note in b.notes),
            length_term(completion.tokens, options.free, options.penalty) if completion.tokens is not None else 0.0,
            vector,
            s_hi,
            length_of(self._compared(completion), scene.lang),
        )

    async def _measure(self, groups: Sequence[Group]) -> list[tuple[Sequence[np.ndarray | None], Sequence[float]]]:
        """By group: the outputs' vectors and their s_hi. All texts of the step are embedded at once, in a thread."""
        if self._embedder is None:
            return [((None,) * len(g.completions), (0.0,) * len(g.completions)) for g in groups]
        texts = [([self._compared(c) for c in g.completions], self._past(g.scene)) for g in groups]
        found = await asyncio.to_thread(embed_all, self._embedder, [t for pair in texts for side in pair for t in side])
        measures: list[tuple[Sequence[np.ndarray | None], Sequence[float]]] = []
        for said, past in texts:
            outputs, history = [found[t] for t in said], [found[t] for t in past]
            s_hi = similarity_to_history(np.array(outputs), np.array(history), clip=self.recipe.redundancy.clip)
            measures.append((outputs, s_hi.tolist()))
        return measures

    def _compared(self, completion: Completion) -> str:
        return completion.reply if self.recipe.redundancy.output == "reply" else completion.text

    def _past(self, scene: Scene) -> list[str]:
        every = self.recipe.redundancy.history == "all"
        return [t.text for t in scene.turns if every or t.speaker == "supporter"]


def embed_all(embedder: Embedder, texts: Sequence[str]) -> dict[str, np.ndarray]:
    """Text -> its vector, each different text embedded once; one without words is the zero vector, like nothing."""
    said = sorted({t for t in texts if t.strip()})
    vectors = embedder.embed(said) if said else np.zeros((0, 1))
    nothing = np.zeros(vectors.shape[1])
    return {t: nothing for t in texts} | dict(zip(said, vectors, strict=True))
