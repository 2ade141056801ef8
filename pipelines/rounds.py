"""A stage in rounds: what is rejected is made anew, and what stays is decided in the order of the records.

All records of a round are worked on at once; whether a row stays (does it repeat an earlier one?) is asked in the order
of the records, against all that stayed before. So the outcome hangs on the replies alone and not on which came first,
and a build that goes on replays the rounds from the journal and decides the same again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ser_toolkit.engine import StageTotals, run_stage
from ser_toolkit.errors import RecordError
from ser_toolkit.schema import Failure, Record

from .stage_runner import StageRunner

T = TypeVar("T", bound=Record)


async def run_rounds(
    runner: StageRunner,
    name: str,
    records: Sequence[T],
    stage: Callable[[T], Awaitable[list[Record]]],
    keep: Callable[[Record], RecordError | None],
    again: Callable[[T, Failure], T | None],
    retries: int,
) -> Counter[str]:
    """Run `stage` on the records; `keep` takes a row in, or says why it does not. How often each kind was made anew.

    `again(record, failure)` is the record to be tried in the next round, `None` where that cannot help; after `retries`
    a failure is a row. Raises TooManyFailures.
    """
    anew: Counter[str] = Counter()
    totals = StageTotals()
    for left in range(retries, -1, -1):
        waiting: list[T] = []

        def emit(record: T, rows: list[Record], left: int = left, waiting: list[T] = waiting) -> None:
            for row in rows:
                failure = row if isinstance(row, Failure) else _rejected(name, record, keep(row))
                if failure is None:
                    totals.rows += 1
                elif left and (next_try := again(record, failure)) is not None:
                    waiting.append(next_try)
                    anew[failure.kind] += 1
                else:
                    risk = getattr(record, "risk", None)
                    runner.fail(failure.model_copy(update={"risk": risk}) if risk else failure, totals)

        if records:
            runner.progress.start(name, len(records))
            await run_stage(name, records, stage, emit, concurrency=runner.places, watcher=runner.progress)
            runner.progress.stop()
        records = waiting
    runner.check_share(name, totals)
    return anew


def _rejected(name: str, record: Record, why: RecordError | None) -> Failure | None:
    if why is None:
        return None
    id = str(getattr(record, "id", ""))
    return Failure(kind=why.kind, stage=name, reason=why.reason, record_id=id, text=why.text)
