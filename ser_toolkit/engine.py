"""Run one stage over many records: bounded concurrency, failures as rows, results in the order of the input.

A stage is an async function of one record that returns rows; it knows nothing of what is here. A `RecordError`
becomes a `Failure` row; a `SerError` ends the run (every further record would meet it too); anything else is a fault
of ours and ends it as well. Whatever ends it, the other records under way are cancelled, and the journal has what was
paid for.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from .errors import RecordError
from .schema import Failure, Record

T = TypeVar("T", bound=Record)
Row = Record
Stage = Callable[[T], Awaitable[Iterable[Row]]]
COLLECTION_THRESHOLDS = (20_000, 20, 20)


class Watcher(Protocol):
    """Whoever wants to see a stage advance (the progress display)."""

    def advance(self, rows: int, failures: Iterable[Failure]) -> None: ...


@dataclass(slots=True)
class StageTotals:
    """What one stage did: records that went in, rows and failures that came out."""

    records: int = 0
    rows: int = 0
    failures: int = 0


async def run_stage(
    name: str,
    records: Iterable[T],
    stage: Stage[T],
    emit: Callable[[T, list[Row]], None],
    *,
    concurrency: int,
    watcher: Watcher | None = None,
    record_id: Callable[[T], str] = lambda record: getattr(record, "id", ""),
    window: int | None = None,
) -> StageTotals:
    """Run `stage` on each record, at most `concurrency` at once; `emit(record, rows)` is called in input order.

    `rows` of one record may hold `Failure`s among the good ones. `window` bounds how far finished records may run
    ahead of the slowest one (default 64 per place), and so the memory.
    """
    source: Iterator[tuple[int, T]] = iter(enumerate(records))
    ahead = window or 64 * concurrency
    finished: dict[int, tuple[T, list[Row]]] = {}
    totals = StageTotals()
    moved = asyncio.Condition()
    head = 0

    async def work() -> None:
        nonlocal head
        for index, record in source:
            if index - head >= ahead:
                async with moved:
                    await moved.wait_for(lambda: index - head < ahead)  # noqa: B023 - awaited before the next round
            finished[index] = (record, await _run_one(name, record, stage, record_id))
            if index != head:
                continue
            while head in finished:
                done, rows = finished.pop(head)
                head += 1
                _count(totals, rows, watcher)
                emit(done, rows)
                if head % 64 == 0:
                    await asyncio.sleep(0)  # a long replay must not starve signals and the display
            async with moved:
                moved.notify_all()

    try:
        with _rare_collections():
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(work())
    except BaseExceptionGroup as group_error:
        raise group_error.exceptions[0] from None  # one cause is enough for a person
    return totals


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let the cyclic collector look less often: what a stage makes holds few cycles and is soon gone, and a pass over
    the hundreds of calls under way cost a tenth of the CPU.
    """
    before = gc.get_threshold()
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


async def _run_one(name: str, record: T, stage: Stage[T], record_id: Callable[[T], str]) -> list[Row]:
    try:
        return list(await stage(record))
    except RecordError as exc:
        return [failure_of(exc, name, record_id(record))]


def failure_of(exc: RecordError, stage: str, record_id: str) -> Failure:
    """The row of a record that could not be used."""
    return Failure(
        kind=exc.kind,
        stage=stage,
        reason=exc.reason,
        record_id=record_id,
        text=exc.text,
        request_key=exc.request_key,
    )


def _count(totals: StageTotals, rows: list[Row], watcher: Watcher | None) -> None:
    failures = [r for r in rows if isinstance(r, Failure)]
    totals.records += 1
    totals.rows += len(rows) - len(failures)
    totals.failures += len(failures)
    if watcher is not None:
        watcher.advance(len(rows) - len(failures), failures)
