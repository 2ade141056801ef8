"""Compare a rewrite with its original: the reference-aware filter, and the scores of its quality.

Source: PEER, arXiv 2508.09521, section 3. The filter looks for a changed meaning beside the three faults of the first
filter; quality is scored 0 to 3 on four dimensions (the paper's rewrites: 2.95 / 2.99 / 2.81 / 2.99 by GPT-4o).
"""

from __future__ import annotations

from typing import Any

from ser_toolkit.history import PROMPT_MARGIN, ROLE_NAMES, fit_turns, message_tokens, render_history
from ser_toolkit.llm.chat import ChatModel, Request
from ser_toolkit.llm.structured import ask_json, object_schema
from ser_toolkit.prompting import Prompt, Prompts
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Dialogue, Verdict
from ser_toolkit.seeds import derive_seed
from ser_toolkit.taxonomy import DISC

from ..filter import CHECKS as FILTER_CHECKS
from .records import Quality

STAGE, QUALITY_STAGE = "compare", "quality"
CHECKS = ("semantic_deviation", *FILTER_CHECKS)
DIMENSIONS = ("semantic_consistency", "contextual_rationality", "role_consistency", "language_fluency")
MAX_TOKENS = 256
VERDICT = object_schema(
    verdict={"type": "boolean"},
    failed={"type": "array", "items": {"enum": list(CHECKS)}, "maxItems": len(CHECKS)},
    reason={"type": "string", "maxLength": 400},
)
SCORES = object_schema(**{name: {"enum": [0, 1, 2, 3]} for name in DIMENSIONS})


def rewrite_filter_is_enforced(recipe: Recipe) -> bool:
    """Whether a "no" drops the rewrite: as the recipe says, else yes, but not for the small embedded model."""
    return not recipe.llm.is_builtin if recipe.rewrite.enforce is None else recipe.rewrite.enforce


async def compare(
    original: Dialogue, rewritten: Dialogue, chat: ChatModel, recipe: Recipe, prompts: Prompts
) -> list[Verdict]:
    """The judge's verdict on a rewrite beside its original, one call. Raises RecordError as `judge_dialogue` does.

    What does not fit the model's context is judged by its last turns, the same ones of both, and the reason says so.
    """
    prompt = prompts.get("rewrite_filter", rewritten.lang)
    request, cut = _request(prompt, original, rewritten, chat, recipe, STAGE)
    answer, _ = await ask_json(chat, request, VERDICT)
    failed = tuple(c for c in CHECKS if c in answer["failed"])
    return [
        Verdict(
            record_id=rewritten.id,
            check=prompt.label,
            keep=answer["verdict"] and not failed,
            failed=failed,
            reason=answer["reason"] + (f" (judged without the first {cut} turns)" if cut else ""),
            enforced=rewrite_filter_is_enforced(recipe),
            model=chat.model,
        )
    ]


async def score(
    original: Dialogue, rewritten: Dialogue, chat: ChatModel, recipe: Recipe, prompts: Prompts
) -> list[Quality]:
    """The four scores of a rewrite, one call. Raises RecordError where none can be read: missing is never zero."""
    prompt = prompts.get("rewrite_quality", rewritten.lang)
    request, _ = _request(prompt, original, rewritten, chat, recipe, QUALITY_STAGE, personality=_personality(rewritten))
    answer, _ = await ask_json(chat, request, SCORES)
    return [Quality(record_id=rewritten.id, model=chat.model, prompt=prompt.label, **answer)]


def _request(
    prompt: Prompt,
    original: Dialogue,
    rewritten: Dialogue,
    chat: ChatModel,
    recipe: Recipe,
    stage: str,
    **values: str,
) -> tuple[Request, int]:
    """The call that shows both conversations, and how many turns of each were cut from the front."""
    lang, cut = rewritten.lang, 0
    if chat.context_tokens is not None:
        frame = message_tokens(prompt.render(original="", rewritten="", **values))
        each = (chat.context_tokens - MAX_TOKENS - frame - PROMPT_MARGIN) // 2
        cut = max(fit_turns(d.turns, each, lang) for d in (original, rewritten))
    shown: dict[str, Any] = {
        "original": render_history(original.turns[cut:], lang),
        "rewritten": render_history(rewritten.turns[cut:], lang),
    }
    request = Request(
        prompt.render(**shown, **values),
        temperature=0.0,
        max_tokens=MAX_TOKENS,
        seed=derive_seed(recipe.seed, rewritten.id, stage),
        stage=stage,
        record_id=rewritten.id,
    )
    return request, cut


def _personality(rewritten: Dialogue) -> str:
    """The personalities that the speakers were given, a line each; empty where they were given none."""
    names = ROLE_NAMES[rewritten.lang]
    lines: list[str] = []
    for speaker in rewritten.speakers:
        disc = speaker.attributes.get("disc")
        if isinstance(disc, dict):
            lines.append(f"{names[speaker.role]}: {', '.join(f'{d} {disc.get(d)}/10' for d in DISC)}")
    return "\n".join(lines)
