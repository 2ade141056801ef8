"""PERM's bidirectional empathy: resonation, expression, reception and a bystander, each judged by a call of its own.

    R = R_empathy + R_bystander + R_length                          PERM, arXiv 2601.10532

*Resonation* (did the supporter understand?) is judged on the analysis; *expression* (is it said well?) and *reception*
(the judge takes the seeker's place) on the reply; each is a whole number from 1 to 5. The *bystander* gives five
dimensions 0 to 20 and knows nothing of warmth. All calls of a group run at once; the scene comes first in each prompt
and the rubric last, so that one cached prefix serves all. A score that cannot be read is asked for once more, then
missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ..errors import RecordError
from ..history import render_history
from ..llm.chat import ChatModel, Reply, Request, usable
from ..llm.structured import extract_json, object_schema
from ..prompting import Prompts
from ..seeds import derive_seed
from .aggregate import AggregationName, Score, aggregation, bystander_term, length_term
from .base import Completion, RewardBreakdown, Scene
from .parsing import read_score

Dimension = Literal["resonation", "expression", "reception"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
ASPECTS = ("content_effectiveness", "logic_and_clarity", "efficiency", "objectivity", "accuracy")
"""The bystander's five dimensions, 0 to 20 each."""
LOW, HIGH, ASPECT_HIGH = 1, 5, 20
TEMPERATURE = 0.3
"""The paper's, for its judge gpt-4o-mini."""
ANSWER_TOKENS = 300
TASK = "perm"

_LEVEL_SCHEMA = object_schema(reason={"type": "string"}, score={"type": "integer", "minimum": LOW, "maximum": HIGH})
_ASPECT_SCHEMA = object_schema(
    reason={"type": "string"},
    **{name: {"type": "integer", "minimum": 0, "maximum": ASPECT_HIGH} for name in ASPECTS},
)


@dataclass(frozen=True, slots=True)
class PermOptions:
    """How PERM's parts are put together; the defaults are the paper's.

    `weights` (resonation, expression, reception) belong to the weighted mean; `bystander` is the term's weight, 0
    leaves the bystander out and asks nothing; `length` adds the length term where a completion's tokens are known.
    """

    aggregation: AggregationName = "harmonic"
    weights: tuple[float, float, float] = (1.0, 1.0, 1.0)
    bystander: float = 0.5
    length: bool = True
    temperature: float = TEMPERATURE
    seed: int = 0


class PermReward:
    """PERM over any chat model, as a RewardFunction."""

    def __init__(self, chat: ChatModel, options: PermOptions | None = None, prompts: Prompts | None = None) -> None:
        self._chat = chat
        self._options = options or PermOptions()
        self._prompts = prompts or Prompts()
        self._empathy = aggregation(self._options.aggregation, self._options.weights)

    async def score(self, scene: Scene, completions: Sequence[Completion]) -> list[RewardBreakdown]:
        """One breakdown a completion: components resonation, expression, reception (1 to 5), bystander (0 to 100),
        empathy, bystander_term, length. All calls run at once.
        """
        return list(await asyncio.gather(*(self._one(scene, c) for c in completions)))

    async def _one(self, scene: Scene, completion: Completion) -> RewardBreakdown:
        names: list[str] = [*DIMENSIONS, *(["bystander"] if self._options.bystander else [])]
        notes: list[str] = []
        found = await asyncio.gather(*(self._judge(name, scene, completion, notes) for name in names))
        parts: dict[str, float | None] = dict(zip(names, found, strict=True))
        parts["empathy"] = self._empathy([parts[d] for d in DIMENSIONS])
        terms: list[Score] = [parts["empathy"]]
        if self._options.bystander:
            parts["bystander_term"] = bystander_term(parts["bystander"], self._options.bystander)
            terms.append(parts["bystander_term"])
        if self._options.length and completion.tokens is not None:
            parts["length"] = length_term(completion.tokens)
            terms.append(parts["length"])
        known = [t for t in terms if t is not None]
        return RewardBreakdown(sum(known) if len(known) == len(terms) else None, parts, tuple(notes))

    async def _judge(self, name: str, scene: Scene, completion: Completion, notes: list[str]) -> Score:
        """The score of one dimension, `None` where the judge failed twice; an absent part scores 0 unasked."""
        candidate = completion.analysis if name == "resonation" else completion.reply
        if not candidate:
            return 0.0
        is_bystander = name == "bystander"
        schema = _ASPECT_SCHEMA if is_bystander else _LEVEL_SCHEMA
        request = self._request(name, scene, candidate, schema)
        trouble = ""
        for attempt in (request, request.again()):
            try:
                reply = await self._chat.complete(attempt)
                return float(_total(reply) if is_bystander else _level(reply))
            except RecordError as exc:
                trouble = f"{name}: {exc.kind}: {exc.reason}"
                if exc.kind not in ("schema", "truncated", "empty_reply"):
                    break
        notes.append(trouble)
        return None

    def _request(self, name: str, scene: Scene, candidate: str, schema: Mapping[str, Any]) -> Request:
        prompt = self._prompts.get(TASK, scene.lang)
        messages = prompt.render(
            situation=scene.situation,
            persona=scene.persona,
            history=render_history(scene.turns, scene.lang),
            candidate=candidate,
            dimension=name,
        )
        return Request(
            messages,
            temperature=self._options.temperature,
            max_tokens=ANSWER_TOKENS,
            seed=derive_seed(self._options.seed, scene.id, name, candidate),
            schema=schema,
            stage=TASK,
            record_id=scene.id,
        )


def _level(reply: Reply) -> int:
    """A whole number from 1 to 5. Raises RecordError."""
    try:
        return int(extract_json(reply, _LEVEL_SCHEMA)["score"])
    except RecordError as exc:
        score = read_score(usable(reply).text, LOW, HIGH)
        if score is None:
            raise exc
        return score


def _total(reply: Reply) -> int:
    """The five dimensions' sum, 0 to 100, or a total that the text states. Raises RecordError."""
    try:
        values = extract_json(reply, _ASPECT_SCHEMA)
        return sum(int(values[name]) for name in ASPECTS)
    except RecordError as exc:
        total = read_score(usable(reply).text, 0, ASPECT_HIGH * len(ASPECTS))
        if total is None:
            raise exc
        return total
