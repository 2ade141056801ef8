"""A small round and people who answer in it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from annotation.items import Gold, Item, Response, StepMark, build_items
from annotation.ledger import Ledger, Task
from annotation.rounds import RoundSettings
from ser_toolkit.taxonomy import VERDICTS
from ser_toolkit.verdicts import Better, as_shown
from tests.unit.release.making import crowd, trace


def some_items(count: int) -> list[Item]:
    dialogues = crowd(count)
    return list(build_items(dialogues, [trace(d) for d in dialogues]))


def a_round(
    folder: Path, items: int | Sequence[Item] = 6, people: str = "ada ben cem", gold: Sequence[Gold] = (), **settings
) -> Ledger:
    settings.setdefault("check_every", 0)
    ledger = Ledger(folder / "annotation.sqlite", RoundSettings(**settings))
    ledger.add_items(some_items(items) if isinstance(items, int) else items, gold)
    ledger.add_annotators(people.split())
    return ledger


def says(
    task: Task, steps: str = "ttt", better: Better | None = "generated", *, ledger: Ledger, seconds: float | None = 5.0
) -> Response:
    """A response of these labels ("tft"), the verdict turned to the positions that this person sees."""
    generated = ledger.item(task.item_id).generated
    marks = tuple(StepMark(label=s == "t", critique="" if s == "t" else "no") for s in steps)
    verdict = None
    if task.view.replies and better:
        verdict = as_shown(better, 1 if task.view.replies[0] == generated else 2)
    return Response(view_id=task.view.id, steps=(marks[0], marks[1], marks[2]), verdict=verdict, seconds=seconds)


def skips(task: Task, reason: str = "distress") -> Response:
    return Response.model_validate({"view_id": task.view.id, "skip": reason})


def at_random(task: Task, draw: random.Random) -> Response:
    marks = [StepMark(label=draw.random() < 0.8) for _ in range(3)]
    verdict = draw.choice(VERDICTS) if task.view.replies else None
    return Response(view_id=task.view.id, steps=(marks[0], marks[1], marks[2]), verdict=verdict, seconds=draw.random())


def play(ledger: Ledger, seed: int = 0, skip_share: float = 0.0, route: str = "local") -> int:
    """Everybody answers at random until nothing is left; how many tasks that took."""
    draw, tasks, idle = random.Random(seed), 0, 0
    while idle < 10 * len(ledger.state.annotators):
        task = ledger.next_task(draw.choice(list(ledger.state.annotators)), route=route)
        idle = 0 if task else idle + 1
        if task is not None:
            tasks += 1
            ledger.accept(skips(task) if draw.random() < skip_share else at_random(task, draw), route=route)
    return tasks
