"""Scenarios and speakers for the tests of synthesis."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from ser_toolkit.llm.chat import Reply, Request
from ser_toolkit.llm.meter import UsageMeter
from ser_toolkit.schema import Label, Lang, Scenario, Source, Speaker


def scenario(id: str = "seeds-dog", **fields: Any) -> Scenario:
    given: dict[str, Any] = {
        "lang": "en",
        "source": Source(format="sage", file="p.jsonl", position="line 3", licence="MIT"),
        "situation": "My dog died.",
        "problem": "bereavement",
        "emotion": Label(original="Sadness", ser="Sadness"),
        "speakers": (Speaker(role="seeker", persona="A widower."),),
        "hidden_intention": "wants to tell one good story",
    }
    return Scenario(id=id, **{**given, **fields})


def labelled(
    id: str, lang: Lang = "en", problem: str = "", emotion: str = "", intensity: str | None = None, culture: str = ""
) -> Scenario:
    """A scenario of which nothing but its labels matters."""
    label = Label(original=emotion, ser=emotion) if emotion else None
    source = Source(format="seeds", licence="Apache-2.0")
    return Scenario(
        id=id, lang=lang, source=source, situation=f"About {id}.", problem=problem, emotion=label,
        intensity=intensity, culture=culture,
    )  # fmt: skip


class Players:
    """Both speakers in one: told apart, as a model would, by what they are asked.

    `seeker` and `helper` are lines in turn; a helper's tuple is (strategy, line). `feelings` are the seeker's in turn.
    """

    identity, model, vision, languages = "here", "m", False, frozenset()
    context_tokens: int | None = None

    def __init__(
        self,
        seeker: Sequence[str | Reply],
        helper: Sequence[str | Reply | tuple[str, str]],
        feelings: Sequence[int] = (),
    ) -> None:
        self.seeker, self.helper, self.feelings = list(seeker), list(helper), list(feelings)
        self.asked: list[tuple[str, Request]] = []
        self.meter = UsageMeter()

    async def complete(self, request: Request) -> Reply:
        asked = (request.schema or {}).get("properties", {})
        if "face" in asked:
            self.asked.append(("cues", request))
            state = {"face": "pale", "voice": ""}
            return Reply(json.dumps({**state, "feeling": self.feelings.pop(0) if self.feelings else 30}))
        who = "seeker" if not asked and "You are not the supporter" in request.messages[0].text else "helper"
        self.asked.append((who, request))
        line = getattr(self, who).pop(0)
        if isinstance(line, Reply):
            return line
        if asked:
            strategy, line = line if isinstance(line, tuple) else ("Small Talk", line)
            return Reply(json.dumps({"strategy": strategy, "reply": line}), request_key=f"key-{len(self.asked)}")
        return Reply(line, request_key=f"key-{len(self.asked)}")

    async def aclose(self) -> None: ...


class Answers:
    """Answers each request with the next of the given texts, or with what a function makes of it."""

    identity, model, vision, languages = "here", "m", False, frozenset()
    context_tokens: int | None = None

    def __init__(self, *answers: str | Reply | Callable[[Request], str]) -> None:
        self.answers = list(answers)
        self.asked: list[Request] = []
        self.meter = UsageMeter()

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Reply):
            return answer
        return Reply(answer if isinstance(answer, str) else answer(request), request_key=f"key-{len(self.asked)}")

    async def aclose(self) -> None: ...
