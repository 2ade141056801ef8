"""A model that gives its answers in turn, profiles by their scores, and a dialogue with all that a turn may hold."""

from __future__ import annotations

import json
from collections.abc import Callable

from pipelines.stages.rewriting.records import Profile, Trait
from ser_toolkit.llm.chat import Reply, Request
from ser_toolkit.llm.meter import UsageMeter
from ser_toolkit.recipe import Llm, Recipe
from ser_toolkit.schema import Cue, Dialogue, Label, Lang, Media, Role, Source, Turn
from ser_toolkit.taxonomy import DISC

LARGE = Recipe(llm=Llm(model="openai:m"))


class Model:
    """Answers by a function of the request, or by answers in turn; keeps what it was asked."""

    identity, model, vision, languages = "here", "writer", False, frozenset()

    def __init__(self, *answers: object, by: Callable[[Request], object] | None = None, context: int | None = None):
        self.answers, self.by, self.context_tokens = list(answers), by, context
        self.asked: list[Request] = []
        self.meter = UsageMeter()

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        answer = self.by(request) if self.by else self.answers.pop(0)
        return answer if isinstance(answer, Reply) else Reply(json.dumps(answer, ensure_ascii=False))

    async def aclose(self) -> None: ...


def dialogue(*said: str, id: str = "d1", lang: Lang = "en", **fields: object) -> Dialogue:
    """Turns in alternation, the seeker first; the seeker's turns hold cues, a photo and an emotion, the supporter's a
    strategy.
    """
    turns = []
    for n, text in enumerate(said or ("I lost my job last week.", "That hurts. What weighs most?", "The rent.")):
        if n % 2:
            more = {"strategies": (Label(original="Question"),), "feedback": 4}
        else:
            more = {
                "cues": (Cue(channel="face", text="eyes down", source="corpus:x"),),
                "media": (Media(kind="image", path="ab/cd.png", sha256="abcd", status="ok"),),
                "emotions": (Label(original="sadness", ser="Sadness"),),
                "raw": text + "\n",
                "flags": ("mojibake_repaired",),
            }
        turns.append(Turn(speaker="supporter" if n % 2 else "seeker", text=text, **more))
    return Dialogue.model_validate(
        {"id": id, "root_id": id, "lang": lang, "source": Source(format="x", licence="MIT"), "turns": turns, **fields}
    )


def profile(id: str, *scores: int, role: Role = "seeker", lang: Lang = "en") -> Profile:
    """A profile of the dialogue `id`; scores in the order of DISC."""
    traits = tuple(
        Trait.model_validate({"dimension": d, "analysis": f"{d} of {id}.", "score": s})
        for d, s in zip(DISC, scores or (1, 2, 3, 4), strict=True)
    )
    return Profile(id=f"{id}-{role}", dialogue_id=id, role=role, lang=lang, traits=traits)
