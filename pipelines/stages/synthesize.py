"""Synthesize: a simulated seeker and a supporter play a scenario, turn by turn, into a Dialogue.

Each seeker turn comes with cues of face and voice. The talk ends when the seeker says goodbye, or after
`synthesize.max_rounds` exchanges.
"""

from __future__ import annotations

from collections.abc import Sequence

from ser_toolkit.errors import RecordError
from ser_toolkit.history import one_line
from ser_toolkit.llm.chat import ChatModel, Reply
from ser_toolkit.llm.structured import ASK_AGAIN
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Dialogue, Scenario, Turn
from ser_toolkit.seeker import Seeker, chat_view, is_small, line_request, read_line, spoken

STAGE = "synthesize"


async def synthesize(scenario: Scenario, chat: ChatModel, recipe: Recipe, prompts: Prompts) -> list[Dialogue]:
    """The scenario's dialogue, `syn-<scenario id>`.

    Raises RecordError: seeker_role where the seeker falls out of its role twice, and what the model raises.
    """
    seeker = Seeker(scenario, chat, recipe, prompts, STAGE)
    origin = f"model:{chat.model}"
    turns: list[Turn] = []
    for _ in range(recipe.synthesize.max_rounds):
        line = await seeker.speak(turns)
        if line.text:
            given = not turns and bool(scenario.opening.strip())
            turns.append(Turn(speaker="seeker", text=line.text, cues=line.cues, origin="corpus" if given else origin))
        if line.is_end:
            break
        turns.append(
            Turn(speaker="supporter", text=await _answer(scenario, turns, chat, recipe, prompts), origin=origin)
        )
    id = f"syn-{scenario.id}"
    return [
        Dialogue(
            id=id,
            root_id=id,
            lang=scenario.lang,
            source=scenario.source,
            turns=tuple(turns),
            situation=scenario.situation,
            problem=scenario.problem,
            emotion=scenario.emotion,
            speakers=scenario.speakers,
            scenario_id=scenario.id,
        )
    ]


async def _answer(scenario: Scenario, turns: Sequence[Turn], chat: ChatModel, recipe: Recipe, prompts: Prompts) -> str:
    """The supporter's next line; asked once more where it was cut or empty. It sees the talk and nothing else."""
    lang, small = scenario.lang, is_small(recipe)
    if small:
        messages = prompts.get("supporter_small", lang).render(heard=one_line(turns[-1].text))
    else:
        frame = prompts.get("supporter", lang).render()
        messages = chat_view(frame, turns, "supporter", lang, chat.context_tokens)
    request = line_request(messages, recipe, scenario.id, STAGE, len(turns))
    try:
        return _spoken(await chat.complete(request), small)
    except RecordError as exc:
        if exc.kind not in ASK_AGAIN:
            raise
    return _spoken(await chat.complete(request.again()), small)


def _spoken(reply: Reply, small: bool) -> str:
    text = spoken(read_line(reply, small))
    if not text:
        raise RecordError("empty_reply", "the reply has no text", text=reply.text, request_key=reply.request_key)
    return text
