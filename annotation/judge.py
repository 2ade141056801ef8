"""LLM judges: a model answers the same items that people do, through the same ledger, marked `source: llm`.

One model takes up to `seats` places in the round, MODEL#1, MODEL#2 and so on. Each place has its own blinding and its
own seed, and the rule is the people's: two answer, a third only where those disagree. An answer that cannot be used
even when asked again is kept as a skip ("failed"): it stays missing, and the item goes to the next place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ser_toolkit.engine import Watcher, run_stage
from ser_toolkit.errors import RecordError
from ser_toolkit.history import first_fitting, one_line, render_history
from ser_toolkit.llm.chat import ChatModel, Image, Message, Request
from ser_toolkit.llm.structured import ask_json, object_schema
from ser_toolkit.media.store import find_file
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Cue, Failure, Turn
from ser_toolkit.seeds import derive_seed
from ser_toolkit.taxonomy import VERDICTS

from .items import Photo, Response, ShownTurn, StepMark, View
from .ledger import Ledger

STAGE = "annotate"
ROUTE = "judge"
LONGEST_CRITIQUE = 400
UNUSABLE = frozenset({"schema", "truncated", "empty_reply", "filtered", "refused_request"})
"""Failures that another run would meet again; for the others the item stays on the judge's desk."""


@dataclass(slots=True)
class Judged:
    """What a run of the judge came to. `failures` are rows; `unusable` of them are kept as skips."""

    answers: int = 0
    surplus: int = 0
    unusable: int = 0
    failures: list[Failure] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)


def seat_names(model: str, seats: int) -> list[str]:
    """The places of one model in a round."""
    return [f"{model}#{n}" for n in range(1, seats + 1)]


async def judge_round(
    ledger: Ledger,
    chat: ChatModel,
    recipe: Recipe,
    prompts: Prompts,
    *,
    seats: Sequence[str],
    media: Path,
    concurrency: int,
    watcher: Watcher | None = None,
) -> Judged:
    """Answer all that the round wants of these seats, until nothing more is asked of them."""
    ledger.add_annotators(seats, "llm")
    done, tried = Judged(), set[str]()
    while True:
        ledger.deal(ROUTE, annotators=seats)
        views = {t.view.id: t for t in ledger.tasks(ROUTE) if t.annotator in seats and t.view.id not in tried}
        if not views:
            return done
        tried |= views.keys()

        async def judge(view: View) -> list[Response]:
            about = ledger.state.items[views[view.id].item_id].dialogue_id  # noqa: B023
            return [await judge_view(view, chat, recipe, prompts, media=media, record_id=about)]

        def keep(view: View, rows: list[Any]) -> None:
            for row in rows:
                _keep(ledger, view, row, done)

        ordered = [t.view for t in views.values()]
        await run_stage(STAGE, ordered, judge, keep, concurrency=concurrency, watcher=watcher)


def _keep(ledger: Ledger, view: View, row: Response | Failure, done: Judged) -> None:
    if isinstance(row, Failure):
        done.failures.append(row)
        done.kinds[row.kind] += 1
        if row.kind not in UNUSABLE:
            return
        done.unusable += 1
        row = Response(view_id=view.id, skip="failed", comment=f"{row.kind}: {row.reason}"[:1000])
        ledger.accept(row, route=ROUTE)
        return
    accepted = ledger.accept(row, route=ROUTE)
    done.answers += 1
    done.surplus += accepted.answer.is_surplus


async def judge_view(
    view: View, chat: ChatModel, recipe: Recipe, prompts: Prompts, *, media: Path, record_id: str
) -> Response:
    """The model's response to a view, one call, kept in the journal under `record_id` (the dialogue: who withdraws
    that, withdraws this). Raises RecordError where no usable answer came, after one more try.
    """
    prompt = prompts.get("annotate_judge", view.lang)
    first, second = map(one_line, view.replies or ("", ""))
    values = {f"step{s.number}": one_line(s.text) for s in view.steps} | {"first": first, "second": second}
    turns = [_turn(t) for t in view.history]
    limit = recipe.llm.max_tokens
    start = first_fitting(turns, view.lang, chat.context_tokens, limit, lambda: prompt.render(history="", **values))
    messages = prompt.render(history=render_history(turns[start:], view.lang), **values)
    if chat.vision:
        images = tuple(_images(view.history[start:], media))
        messages = (*messages[:-1], Message("user", messages[-1].text, images))
    request = Request(
        messages,
        temperature=recipe.llm.temperature,
        top_p=recipe.llm.top_p,
        max_tokens=limit,
        seed=derive_seed(recipe.seed, view.id, STAGE),
        stage=STAGE,
        record_id=record_id,
    )
    answer, _ = await ask_json(chat, request, _schema(view.replies is not None))
    one, two, three = (_mark(answer, n) for n in (1, 2, 3))
    return Response(view_id=view.id, steps=(one, two, three), verdict=answer.get("verdict"))


def _schema(has_pair: bool) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for n in (1, 2, 3):
        properties[f"critique{n}"] = {"type": "string", "maxLength": LONGEST_CRITIQUE}
        properties[f"step{n}"] = {"type": "boolean"}
    if has_pair:
        properties["verdict"] = {"enum": list(VERDICTS)}
    return object_schema(**properties)


def _mark(answer: dict[str, Any], number: int) -> StepMark:
    label = answer[f"step{number}"]
    return StepMark(label=label, critique="" if label else answer[f"critique{number}"])


def _turn(shown: ShownTurn) -> Turn:
    return Turn(
        speaker=shown.speaker,
        text=shown.text,
        cues=tuple(Cue(channel=c.channel, text=c.text, source="") for c in shown.cues),
    )


def _images(turns: Iterable[ShownTurn], media: Path) -> Iterable[Image]:
    """The photos of the seeker's last utterance, as the method shows them."""
    last: list[Photo] = []
    for turn in turns:
        last = list(turn.photos) if turn.speaker == "seeker" else []
    for photo in last:
        file = find_file(media, photo.sha256)
        if file is None:
            raise RecordError("unreadable", f"the image {photo.sha256[:12]} is not in {media.name}/")
        yield Image(file.read_bytes(), photo.media_type)
