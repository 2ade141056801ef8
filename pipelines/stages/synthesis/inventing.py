"""New scenarios, for places of the mix that have too few: one JSON call each, kept apart by drawn ages and manners."""

from __future__ import annotations

from typing import Any

from ser_toolkit.history import one_line
from ser_toolkit.llm.chat import ChatModel, Request
from ser_toolkit.llm.structured import ask_json, object_schema
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Label, Lang, Record, Scenario, Source, Speaker, content_id
from ser_toolkit.seeds import derive_seed
from ser_toolkit.taxonomy import EMOTIONS, INTENSITIES, ZH

from ..protect import protect
from .casting import manners

STAGE = "invent"
FORMAT = "invented"
"""The format that an invented scenario names as its source."""
TOKENS = 500
TEMPERATURE = 1.0
"""Stories shall differ."""
YOUNGEST, OLDEST = 16, 80


class Wanted(Record):
    """A scenario that is to be written: what it must say (empty: anything), and stories that it may not repeat.

    `number` tells it from others of the same kind, `attempt` counts its retries (from 0).
    """

    lang: Lang
    number: int
    problem: str = ""
    emotion: str = ""
    intensity: str = ""
    culture: str = ""
    unlike: tuple[str, ...] = ()
    attempt: int = 0

    @property
    def kind(self) -> tuple[str, ...]:
        return (self.lang, self.problem, self.emotion, self.intensity, self.culture)

    @property
    def id(self) -> str:
        """The scenario's id to be, known before it is written: the journal's calls are filed under it."""
        return content_id("invented", [*self.kind, self.number])


async def invent(wanted: Wanted, chat: ChatModel, recipe: Recipe, prompts: Prompts) -> list[Scenario]:
    """The scenario that is wanted, protected. Raises RecordError (schema, truncated, and what the model raises)."""
    asked = _schema(wanted)
    messages = prompts.get("scenario", wanted.lang).render(**_values(wanted, recipe.seed))
    request = Request(
        messages,
        temperature=TEMPERATURE,
        top_p=recipe.llm.top_p,
        max_tokens=TOKENS,
        seed=derive_seed(recipe.seed, wanted.id, STAGE, wanted.attempt),
        stage=STAGE,
        record_id=wanted.id,
    )
    value, _ = await ask_json(chat, request, asked)
    said = {name: one_line(str(text)) for name, text in value.items()}
    back = {ZH[word]: word for word in (*EMOTIONS, *INTENSITIES)} if wanted.lang == "zh" else {}
    emotion, intensity = (said.get(n) or getattr(wanted, n) for n in ("emotion", "intensity"))
    emotion, intensity = back.get(emotion, emotion), back.get(intensity, intensity)
    scenario = Scenario(
        id=wanted.id,
        lang=wanted.lang,
        source=Source(format=FORMAT, licence=recipe.synthesize.licence),
        situation=said["situation"],
        problem=wanted.problem or said["problem"],
        emotion=Label(original=emotion, corpus=emotion, ser=emotion),
        intensity=intensity,
        culture=wanted.culture,
        speakers=(Speaker(role="seeker", persona=said["persona"]),),
        hidden_intention=said["hidden_intention"],
        opening=said["opening"],
        meta={"model": chat.model},
    )
    return [protect(scenario, recipe.protect)[0]]


def _schema(wanted: Wanted) -> dict[str, Any]:
    """What is asked: the story, and what the mix leaves open."""
    zh = wanted.lang == "zh"
    text = {"type": "string", "minLength": 1, "maxLength": 600}
    choices = {"emotion": EMOTIONS, "intensity": INTENSITIES}
    left_open: dict[str, Any] = (
        {} if wanted.problem else {"problem": {"type": "string", "minLength": 1, "maxLength": 60}}
    )
    for name, words in choices.items():
        if not getattr(wanted, name):
            left_open[name] = {"enum": [ZH[w] if zh else w for w in words]}
    return object_schema(situation=text, persona=text, hidden_intention=text, opening=text, **left_open)


def _values(wanted: Wanted, seed: int) -> dict[str, Any]:
    """The prompt's values, in its language; age and manner are drawn, so that equal wishes get unequal people."""
    zh = wanted.lang == "zh"
    drawn = derive_seed(seed, wanted.id, STAGE, "person", wanted.attempt)
    known = manners(wanted.lang, "seeker")
    return {
        "problem": wanted.problem,
        "emotion": ZH.get(wanted.emotion, wanted.emotion) if zh else wanted.emotion,
        "intensity": ZH.get(wanted.intensity, wanted.intensity) if zh else wanted.intensity,
        "culture": wanted.culture,
        "age": YOUNGEST + drawn % (OLDEST - YOUNGEST + 1),
        "manner": known[drawn // 100 % len(known)],
        "unlike": "\n".join(f"- {one_line(story)}" for story in wanted.unlike),
    }
