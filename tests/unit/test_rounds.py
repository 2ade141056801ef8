"""Rounds: what is rejected is made anew, and what stays never hangs on what finished first."""

import asyncio
import random

import pytest

from pipelines.rounds import run_rounds
from pipelines.stage_runner import StageRunner
from ser_toolkit.errors import RecordError, TooManyFailures
from ser_toolkit.progress import Progress
from ser_toolkit.recipe import Failures, Recipe
from ser_toolkit.schema import Failure, Record
from ser_toolkit.store import TableWriter, read_table
from ser_toolkit.workspace import Workspace


class Item(Record):
    id: str
    attempt: int = 0
    risk: str | None = None


class Text(Record):
    id: str
    text: str


async def run(home, texts, *, retries=2, share=1.0, order=0, kinds=(), places=4):
    """`texts`: id -> what each attempt says (the last one again and again). Equal texts are near duplicates."""
    draw = random.Random(order)
    failures = TableWriter(home.table("failures"), Failure)
    recipe = Recipe(failures=Failures(max_share=share))
    runner = StageRunner(home, recipe, Progress(quiet=True), failures, False, places)
    seen, kept, asked = {}, [], []

    async def stage(item):
        await asyncio.sleep(draw.random() / 200)
        asked.append((item.id, item.attempt))
        said = texts[item.id][min(item.attempt, len(texts[item.id]) - 1)]
        if said.startswith("!"):
            raise RecordError(said[1:], "as told")
        return [Text(id=item.id, text=said)]

    def keep(row):
        if row.text in seen:
            return RecordError("near_duplicate", f"as {seen[row.text]}", text=row.text)
        seen[row.text] = row.id
        kept.append((row.id, row.text))
        return None

    def again(item, failure):
        known = failure.kind in ("near_duplicate", *kinds)
        return item.model_copy(update={"attempt": item.attempt + 1}) if known else None

    try:
        items = [Item(id=i, risk="high" if i == "h" else None) for i in texts]
        anew = await run_rounds(runner, "play", items, stage, keep, again, retries)
    finally:
        failures.finish()
    rows = [(f.record_id, f.kind, f.reason, f.risk) for f in read_table(home.table("failures"), Failure)]
    return kept, rows, dict(anew), asked


async def test_the_earlier_record_stays_whatever_finished_first(tmp_path):
    texts = {"a": ["same"], "b": ["same", "other"], "c": ["other", "third"], "d": ["same", "same", "fourth"]}
    made = [await run(Workspace(tmp_path / str(n)), texts, order=n, places=n + 1) for n in range(6)]
    assert all(m[:3] == made[0][:3] for m in made)
    kept, rows, anew, _ = made[0]
    assert kept == [("a", "same"), ("c", "other"), ("d", "fourth")], "b's second try repeats c, as does its third"
    assert rows == [("b", "near_duplicate", "as c", None)] and anew == {"near_duplicate": 4}


async def test_failures_that_another_try_may_mend_are_made_anew_and_others_are_not(tmp_path):
    texts = {"a": ["!seeker_role", "fine"], "b": ["!filtered", "never asked"], "h": ["!seeker_role"]}
    kept, rows, anew, asked = await run(Workspace(tmp_path), texts, kinds=("seeker_role",))
    assert kept == [("a", "fine")]
    assert rows == [("b", "filtered", "as told", None), ("h", "seeker_role", "as told", "high")]
    assert anew == {"seeker_role": 3}
    assert sorted(asked) == [("a", 0), ("a", 1), ("b", 0), ("h", 0), ("h", 1), ("h", 2)]


async def test_no_retries_means_one_try(tmp_path):
    kept, rows, anew, _ = await run(Workspace(tmp_path), {"a": ["x"], "b": ["x", "y"]}, retries=0)
    assert (kept, rows, anew) == ([("a", "x")], [("b", "near_duplicate", "as a", None)], {})


async def test_too_many_failures_end_the_run_after_the_last_round(tmp_path):
    with pytest.raises(TooManyFailures, match="play: 1 of 2 failed"):
        await run(Workspace(tmp_path), {"a": ["x"], "b": ["x"]}, share=0.4)
    kept, _, _, _ = await run(Workspace(tmp_path / "w"), {"a": ["x"], "b": ["x", "y"]}, share=0.4)
    assert len(kept) == 2
