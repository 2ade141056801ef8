"""Whole dialogues: one call writes a scenario's talk, exchange by exchange, under a JSON schema.

Cheaper than a call a line, and the model sees where the talk is going; but one model plays both, so the seeker knows
what the supporter will say. Lines are held to the same rules; where one breaks them the whole is asked for again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ser_toolkit.errors import RecordError
from ser_toolkit.history import one_line
from ser_toolkit.llm.chat import ChatModel, Reply, Request
from ser_toolkit.llm.structured import extract_json, object_schema
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Lang, Scenario, Turn
from ser_toolkit.seeker import CUE, FEELING, ROUNDS_BEFORE_END, about_seeker, line_request, read_cues, spoken
from ser_toolkit.seeker_checks import FAULT_KINDS, find_faults, says_goodbye, split_marker

from .asking import ask_until_good, nth
from .casting import Salt
from .checks import SupporterRules
from .turns import is_planned
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

EXCHANGE_TOKENS = 256
"""Completion limit of one exchange, with its JSON."""


async def play_whole(
    scenario: Scenario, salt: Salt, chat: ChatModel, recipe: Recipe, prompts: Prompts, rules: SupporterRules
) -> Written:
    """The scenario as it was cast, written in one call.

    Raises RecordError: a kind of `checks.REJECTED` where a line breaks its rules each time, and what the model raises.
    """

    async def ask(number: int, avoid: str) -> Written:
        reply = await chat.complete(nth(_request(scenario, salt, recipe, prompts, avoid), number))
        return _read(reply, scenario, chat, recipe, rules)

    return await ask_until_good(ask, scenario.lang, rules)


def whole_schema(lang: Lang, max_rounds: int, *, planned: bool) -> dict[str, Any]:
    """Exchanges, each in the order in which it is to be thought of."""
    line = {"type": "string", "maxLength": 800}
    strategy: dict[str, Any] = {"strategy": {"enum": list(strategy_words(lang))}} if planned else {}
    exchange = object_schema(seeker=line, face=CUE, voice=CUE, feeling=FEELING, **strategy, supporter=line)
    return object_schema(
        exchanges={"type": "array", "items": exchange, "minItems": min(2, max_rounds), "maxItems": max_rounds}
    )


def _request(scenario: Scenario, salt: Salt, recipe: Recipe, prompts: Prompts, avoid: str) -> Request:
    lang, rounds, planned = scenario.lang, recipe.synthesize.max_rounds, is_planned(recipe)
    messages = prompts.get("dialogue", lang).render(
        **about_seeker(scenario),
        supporter=persona_of(scenario, "supporter"),
        opening=one_line(scenario.opening),
        feeling=start_feeling(scenario),
        planned=planned,
        max_rounds=rounds,
        avoid=avoid,
    )
    request = line_request(messages, recipe, scenario.id, STAGE, 0, "whole", salt)
    schema = whole_schema(lang, rounds, planned=planned)
    return replace(request, stop=(), max_tokens=EXCHANGE_TOKENS * rounds, schema=schema)


def _read(reply: Reply, scenario: Scenario, chat: ChatModel, recipe: Recipe, rules: SupporterRules) -> Written:
    settings = recipe.synthesize
    schema = whole_schema(scenario.lang, settings.max_rounds, planned=is_planned(recipe))
    exchanges: list[Mapping[str, Any]] = extract_json(reply, schema)["exchanges"]
    turns: list[Turn] = []
    try:
        for exchange in exchanges:
            _add(turns, exchange, scenario, f"model:{chat.model}", rules)
    except RecordError as exc:
        exc.request_key = reply.request_key
        raise
    feelings = tuple(e["feeling"] for e in exchanges)
    return Written(tuple(turns), _ending(turns, feelings, scenario, recipe), feelings)


def _add(
    turns: list[Turn], exchange: Mapping[str, Any], scenario: Scenario, origin: str, rules: SupporterRules
) -> None:
    """Add the two turns of an exchange. Raises RecordError where a line breaks its rules; only the seeker's goodbye may
    stay unanswered.
    """
    lang, opening = scenario.lang, one_line(scenario.opening)
    said, heard = lines_of(turns, "seeker"), lines_of(turns, "supporter")
    given = not turns and bool(opening)
    text, has_marker = split_marker(one_line(exchange["seeker"]))
    text = opening if given else spoken(text)
    if turns and turns[-1].speaker == "seeker":
        raise RecordError("empty_reply", "the supporter says nothing", text=text)
    if not text:
        raise RecordError("seeker_role", "it says nothing")
    if faults := [] if given else find_faults(text, said, heard, lang):
        raise RecordError(FAULT_KINDS[faults[0]], "; ".join(faults), text=text)
    cues = read_cues(exchange, origin)
    turns.append(Turn(speaker="seeker", text=text, cues=cues, origin="corpus" if given else origin))
    answer = spoken(split_marker(one_line(exchange["supporter"]))[0])
    if not answer:
        if not (heard and (has_marker or says_goodbye(text, lang))):
            raise RecordError("empty_reply", "the supporter says nothing", text=text)
        return
    rules.check(answer, heard, [*said, text], lang)
    planned = exchange.get("strategy")
    turns.append(
        Turn(
            speaker="supporter",
            text=answer,
            strategies=(strategy_label(planned, lang),) if planned else (),
            flags=(PLANNED,) if planned else (),
            origin=origin,
        )
    )


def _ending(turns: Sequence[Turn], feelings: Sequence[int], scenario: Scenario, recipe: Recipe) -> Ending:
    said = lines_of(turns, "seeker")
    if len(said) > ROUNDS_BEFORE_END and says_goodbye(said[-1], scenario.lang):
        return "goodbye"
    if moved := has_moved(feelings[-1], scenario, recipe.synthesize.moved):
        return moved
    return "max_rounds" if len(said) >= recipe.synthesize.max_rounds else "model_stopped"
