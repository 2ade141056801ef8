"""Turn by turn: a simulated seeker and a supporter speak, a call a line.

Each seeker's line comes with cues of face and voice and, but on the small embedded model, with how it feels by now. The
supporter may plan: it chooses a strategy, then speaks, in one call. The talk ends when the seeker says goodbye, when it
feels better by `synthesize.moved` or as bad as can be (the supporter then has the last word), or after
`synthesize.max_rounds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ser_toolkit.errors import RecordError
from ser_toolkit.history import one_line
from ser_toolkit.llm.chat import ChatModel, Reply, Request
from ser_toolkit.llm.structured import extract_json, object_schema
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Lang, Scenario, Turn
from ser_toolkit.seeker import (
    LINE_TOKENS,
    ROUNDS_BEFORE_END,
    Seeker,
    chat_view,
    line_request,
    read_line,
    spoken,
)
from ser_toolkit.seeker_checks import split_marker

from .asking import TRIES, ask_until_good, nth
from .casting import Salt
from .checks import SupporterRules
from .written import (
    PLANNED,
    STAGE,
    Ending,
    Written,
    has_moved,
    lines_of,
    persona_of,
    start_feeling,
    strategy_label,
    strategy_words,
)

SMALL_TRIES = 2
"""How often the small embedded model is asked for one line of the supporter."""
PLAN_TOKENS = 60
"""What a planned line takes beside its words."""


async def play_turns(
    scenario: Scenario, salt: Salt, chat: ChatModel, recipe: Recipe, prompts: Prompts, rules: SupporterRules
) -> Written:
    """The scenario as it was cast, played line by line.

    Raises RecordError: a kind of `checks.REJECTED` where a speaker is out of role too often, and what the model raises.
    """
    settings = recipe.synthesize
    seeker = Seeker(scenario, chat, recipe, prompts, STAGE, salt)
    supporter = Supporter(scenario, salt, chat, recipe, prompts, rules)
    origin = f"model:{chat.model}"
    turns: list[Turn] = []
    feelings: list[int | None] = []
    feeling = None if recipe.llm.is_builtin else start_feeling(scenario)
    ending: Ending = "max_rounds"
    for _ in range(settings.max_rounds):
        line = await seeker.speak(turns, feeling)
        if line.text:
            given = not turns and bool(scenario.opening.strip())
            turns.append(Turn(speaker="seeker", text=line.text, cues=line.cues, origin="corpus" if given else origin))
            feelings += [] if feeling is None else [line.feeling]
        if line.is_end:
            ending = "goodbye"
            break
        may_end = len(lines_of(turns, "supporter")) >= ROUNDS_BEFORE_END
        turns.append(await supporter.speak(turns))
        moved = has_moved(line.feeling, scenario, settings.moved) if may_end else None
        if moved:
            ending = moved
            break
        feeling = feeling if line.feeling is None else line.feeling
    return Written(tuple(turns), ending, tuple(feelings))


@dataclass(frozen=True, slots=True)
class Supporter:
    """The supporter of one play. It sees the talk and nothing else of the scenario."""

    scenario: Scenario
    salt: Salt
    chat: ChatModel
    recipe: Recipe
    prompts: Prompts
    rules: SupporterRules

    async def speak(self, turns: Sequence[Turn]) -> Turn:
        """Its next line; asked again where it was cut, empty, out of role, or worn. Raises RecordError."""
        small = self.recipe.llm.is_builtin

        async def ask(number: int, avoid: str) -> Turn:
            reply = await self.chat.complete(nth(request := self._request(turns, avoid), number))
            turn = self._read(reply, request, small)
            try:
                self._check(turn.text, turns, small)
            except RecordError as exc:
                exc.request_key = reply.request_key
                raise
            return turn

        return await ask_until_good(ask, self.scenario.lang, self.rules, SMALL_TRIES if small else TRIES)

    def _check(self, text: str, turns: Sequence[Turn], small: bool) -> None:
        said, heard, lang = lines_of(turns, "supporter"), lines_of(turns, "seeker"), self.scenario.lang
        if small:  # which repeats itself whatever it is told
            self.rules.check_crisis(text, heard, lang)
        else:
            self.rules.check(text, said, heard, lang)

    def _request(self, turns: Sequence[Turn], avoid: str) -> Request:
        lang = self.scenario.lang
        if self.recipe.llm.is_builtin:
            messages = self.prompts.get("supporter_small", lang).render(heard=one_line(turns[-1].text))
        else:
            frame = self.prompts.get("supporter", lang).render(
                persona=persona_of(self.scenario, "supporter"),
                planned=is_planned(self.recipe),
                avoid=avoid,
            )
            messages = chat_view(frame, turns, "supporter", lang, self.chat.context_tokens)
        request = line_request(messages, self.recipe, self.scenario.id, STAGE, len(turns), salt=self.salt)
        if not is_planned(self.recipe):
            return request
        return replace(request, stop=(), max_tokens=LINE_TOKENS + PLAN_TOKENS, schema=planned_schema(lang))

    def _read(self, reply: Reply, request: Request, small: bool) -> Turn:
        lang, strategies, flags = self.scenario.lang, (), ()
        if request.schema is None:
            written = read_line(reply, small)
        else:
            value = extract_json(reply, request.schema)
            written, flags = one_line(value["reply"]), (PLANNED,)
            strategies = (strategy_label(value["strategy"], lang),)
        text = spoken(split_marker(written)[0])
        if not text:
            raise RecordError("empty_reply", "the reply has no text", text=reply.text, request_key=reply.request_key)
        origin = f"model:{self.chat.model}"
        return Turn(speaker="supporter", text=text, strategies=strategies, flags=flags, origin=origin)


def is_planned(recipe: Recipe) -> bool:
    """Whether the supporter chooses a strategy before it speaks: unless told, not on the small embedded model."""
    plan = recipe.synthesize.plan
    return not recipe.llm.is_builtin if plan is None else plan


def planned_schema(lang: Lang) -> dict[str, Any]:
    """A strategy, then the words."""
    return object_schema(
        strategy={"enum": list(strategy_words(lang))}, reply={"type": "string", "minLength": 1, "maxLength": 800}
    )
