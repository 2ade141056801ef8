"""Describe: how each speaker of a dialogue comes across, by the four DISC dimensions (Marston).

Source: PEER, arXiv 2508.09521, section 3: per dimension an analysis and a score from 0 to 10. A model that is large
enough describes a speaker in one call; the small embedded one is asked for the score of a dimension at a time, which
code puts into words (its own reasons are noise).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from ser_toolkit.engine import failure_of
from ser_toolkit.errors import RecordError
from ser_toolkit.history import ROLE_NAMES, first_fitting, one_line, render_history
from ser_toolkit.llm.chat import ChatModel, Request, usable
from ser_toolkit.llm.structured import ask_json, object_schema
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Dialogue, Failure, Lang, Role
from ser_toolkit.seeds import derive_seed
from ser_toolkit.taxonomy import DISC

from .records import Profile, Trait

STAGE = "describe"
MAX_TOKENS, SMALL_TOKENS = 768, 8
MEANINGS: dict[Lang, dict[str, str]] = {
    "en": {
        "Dominance": "direct, firm, quick to decide",
        "Influence": "open, lively, keen on contact",
        "Steadiness": "calm, patient, a good listener",
        "Compliance": "careful, exact, keen on facts",
    },
    "zh": {
        "Dominance": "直接、果断、有主见",
        "Influence": "开朗、热情、爱交流",
        "Steadiness": "平和、耐心、善于倾听",
        "Compliance": "谨慎、严谨、看重事实",
    },
}
"""Each dimension in a few words, for people and for small models."""

_TRAIT = object_schema(analysis={"type": "string", "minLength": 1, "maxLength": 600}, score={"enum": list(range(11))})
WHOLE = object_schema(**dict.fromkeys(DISC, _TRAIT))
SCORES = tuple(str(n) for n in range(11))
_DEGREES: dict[Lang, tuple[str, ...]] = {
    "en": ("Not at all", "A little", "Rather", "Very"),
    "zh": ("完全不", "有一点", "比较", "非常"),
}
"""Words for the scores 0-1, 2-4, 5-7 and 8-10."""


async def describe(dialogue: Dialogue, chat: ChatModel, recipe: Recipe, prompts: Prompts) -> list[Profile | Failure]:
    """A profile of each speaker of the dialogue; a Failure where the model gives no usable one."""
    write = _write_each if recipe.llm.is_builtin else _write_whole

    async def one(role: Role) -> Profile | Failure:
        try:
            traits, label = await write(dialogue, role, chat, recipe, prompts)
        except RecordError as exc:
            return failure_of(exc, STAGE, dialogue.id)
        return Profile(
            id=profile_id(dialogue.id, role),
            dialogue_id=dialogue.id,
            role=role,
            lang=dialogue.lang,
            traits=traits,
            model=chat.model,
            prompt=label,
        )

    roles = speakers_of(dialogue)
    if recipe.llm.is_builtin:  # one after the other: a slot that has read the dialogue need not read it again
        return [await one(role) for role in roles]
    return list(await asyncio.gather(*(one(role) for role in roles)))


def profile_id(dialogue_id: str, role: Role) -> str:
    return f"{dialogue_id}-{role}"


def speakers_of(dialogue: Dialogue) -> tuple[Role, ...]:
    """The roles that speak, the seeker first."""
    roles: tuple[Role, ...] = ("seeker", "supporter")
    return tuple(role for role in roles if any(t.speaker == role for t in dialogue.turns))


async def _write_whole(
    dialogue: Dialogue, role: Role, chat: ChatModel, recipe: Recipe, prompts: Prompts
) -> tuple[tuple[Trait, ...], str]:
    request, label = _request("describe", dialogue, role, chat, recipe, prompts, MAX_TOKENS)
    value, _ = await ask_json(chat, request, WHOLE)
    return tuple(_read(dimension, value[dimension]) for dimension in DISC), label


async def _write_each(
    dialogue: Dialogue, role: Role, chat: ChatModel, recipe: Recipe, prompts: Prompts
) -> tuple[tuple[Trait, ...], str]:
    traits: list[Trait] = []
    label = ""
    for dimension, meaning in MEANINGS[dialogue.lang].items():
        request, label = _request("describe_small", dialogue, role, chat, recipe, prompts, SMALL_TOKENS, meaning)
        reply = usable(await chat.complete(replace(request, choices=SCORES)))
        if reply.text.strip() not in SCORES:
            raise RecordError("schema", "the reply is no score", text=reply.text, request_key=reply.request_key)
        score = int(reply.text)
        degree = _DEGREES[dialogue.lang][(score + 1) // 3]
        words = f"{degree} {meaning}." if dialogue.lang == "en" else f"{degree}{meaning}。"
        traits.append(_read(dimension, {"analysis": words, "score": score}))
    return tuple(traits), label


def _read(dimension: str, value: dict[str, Any]) -> Trait:
    return Trait.model_validate(
        {"dimension": dimension, "analysis": one_line(value["analysis"]), "score": value["score"]}
    )


def _request(
    task: str,
    dialogue: Dialogue,
    role: Role,
    chat: ChatModel,
    recipe: Recipe,
    prompts: Prompts,
    max_tokens: int,
    *meaning: str,
) -> tuple[Request, str]:
    """The call for one speaker (of one dimension, where its `meaning` is given), and the prompt's label."""
    prompt = prompts.get(task, dialogue.lang)
    values = {"role": ROLE_NAMES[dialogue.lang][role].lower(), **({"meaning": meaning[0]} if meaning else {})}
    start = first_fitting(
        dialogue.turns, dialogue.lang, chat.context_tokens, max_tokens, lambda: prompt.render(history="", **values)
    )
    request = Request(
        prompt.render(history=render_history(dialogue.turns[start:], dialogue.lang), **values),
        temperature=0.0,
        max_tokens=max_tokens,
        seed=derive_seed(recipe.seed, dialogue.id, STAGE, role, *meaning),
        stage=STAGE,
        record_id=dialogue.id,
    )
    return request, prompt.label
