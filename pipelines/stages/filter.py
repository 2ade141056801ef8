"""Filter: a judge looks at each dialogue once, for three faults (PEER, arXiv 2508.09521, section 3).

The paper drops more than 23 % here, so a large share may go. Where the filter is not enforced (`filter.enforce`), the
verdicts are recorded and nothing is dropped.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ser_toolkit.history import first_fitting, render_history
from ser_toolkit.llm.chat import ChatModel, Request
from ser_toolkit.llm.structured import ask_json
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Dialogue, Verdict
from ser_toolkit.seeds import derive_seed

STAGE = "filter"
CHECKS = ("non_dialogue", "incoherent", "machine_written")
MAX_TOKENS = 256
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "verdict": {"type": "boolean"},
        "failed": {"type": "array", "items": {"enum": list(CHECKS)}, "maxItems": len(CHECKS)},
        "reason": {"type": "string", "maxLength": 400},
    },
    "required": ["verdict", "failed", "reason"],
    "additionalProperties": False,
}


def filter_is_enforced(recipe: Recipe) -> bool:
    """Whether a "no" drops the dialogue: as the recipe says, else yes, but not for the small embedded model."""
    return not recipe.llm.is_builtin if recipe.filter.enforce is None else recipe.filter.enforce


async def judge_dialogue(dialogue: Dialogue, chat: ChatModel, recipe: Recipe, prompts: Prompts) -> list[Verdict]:
    """The judge's verdict, one call. Raises RecordError where no usable answer came, after one more try.

    A dialogue longer than the model's context is judged by its last turns, and the reason says so. A judge that says
    yes and names faults all the same contradicts itself: the faults count.
    """
    prompt = prompts.get("filter", dialogue.lang)
    render = partial(prompt.render, situation=dialogue.situation)
    cut = first_fitting(dialogue.turns, dialogue.lang, chat.context_tokens, MAX_TOKENS, lambda: render(history=""))
    request = Request(
        render(history=render_history(dialogue.turns[cut:], dialogue.lang)),
        temperature=0.0,
        max_tokens=MAX_TOKENS,
        seed=derive_seed(recipe.seed, dialogue.id, STAGE),
        stage=STAGE,
        record_id=dialogue.id,
    )
    answer, _ = await ask_json(chat, request, SCHEMA)
    failed = tuple(c for c in CHECKS if c in answer["failed"])
    note = f" (judged without its first {cut} turns)" if cut else ""
    return [
        Verdict(
            record_id=dialogue.id,
            check=prompt.label,
            keep=answer["verdict"] and not failed,
            failed=failed,
            reason=answer["reason"] + note,
            enforced=filter_is_enforced(recipe),
            model=chat.model,
        )
    ]
