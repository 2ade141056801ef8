"""One play of one scenario: a Draw in, a Dialogue out, protected like whatever comes in from outside."""

from __future__ import annotations

from ser_toolkit.llm.chat import ChatModel
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Dialogue, Scenario

from ..protect import ProtectCounts, protect
from .casting import Draw, cast
from .checks import SupporterRules
from .turns import play_turns
from .whole import play_whole
from .written import Written


async def play(
    draw: Draw, chat: ChatModel, recipe: Recipe, prompts: Prompts, rules: SupporterRules
) -> tuple[Dialogue, ProtectCounts]:
    """The dialogue of a draw, and what protection replaced in it.

    A model may speak of people too, and a simulated seeker of a crisis: names are replaced and crises marked as in an
    import. Raises RecordError as the two modes do.
    """
    scenario = cast(draw, recipe.seed, with_manners=not recipe.llm.is_builtin)  # whose prompts hold no persona
    by_mode = play_whole if recipe.synthesize.mode == "whole" else play_turns
    written = await by_mode(scenario, draw.salt, chat, recipe, prompts, rules)
    dialogue, found = protect(_dialogue(draw, scenario, written, recipe), recipe.protect)
    ids = {"id": draw.dialogue_id, "root_id": draw.root_id, "scenario_id": scenario.id}  # the import protected these
    return dialogue.model_copy(update=ids), found


def _dialogue(draw: Draw, scenario: Scenario, written: Written, recipe: Recipe) -> Dialogue:
    """`meta.synthesis` tells how it was made: mode, why it ended, how the seeker felt, which play it is."""
    told = {
        "mode": recipe.synthesize.mode,
        "ending": written.ending,
        "feelings": list(written.feelings),
        "number": draw.number,
        "attempt": draw.attempt,
        "intensity": scenario.intensity,
        "culture": scenario.culture or None,
    }
    return Dialogue(
        id=draw.dialogue_id,
        root_id=draw.root_id,
        lang=scenario.lang,
        source=scenario.source,
        turns=written.turns,
        situation=scenario.situation,
        problem=scenario.problem,
        emotion=scenario.emotion,
        speakers=scenario.speakers,
        scenario_id=scenario.id,
        meta={"synthesis": {k: v for k, v in told.items() if v not in (None, [])}},
    )
