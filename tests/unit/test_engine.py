import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ser_toolkit.engine import run_stage
from ser_toolkit.errors import RecordError, RemoteError
from ser_toolkit.schema import Failure, Verdict


def verdicts(n: int) -> list[Verdict]:
    return [Verdict(record_id=f"r{i}", check="c", keep=True) for i in range(n)]


async def collect(records, stage, **options):
    seen = []
    totals = await run_stage(
        "s",
        records,
        stage,
        lambda r, rows: seen.append((r, rows)),
        record_id=lambda r: r.record_id,
        **options,
    )
    return seen, totals


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 60), st.integers(1, 9), st.integers(1, 8), st.integers(0, 2**16))
def test_rows_come_in_the_order_of_the_records_whatever_finishes_first(n, concurrency, window, seed):
    waits = [random.Random(seed + i).random() * 0.004 for i in range(n)]
    running = peak = 0

    async def stage(record):
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(waits[int(record.record_id[1:])])
        running -= 1
        return [record, record]

    records = verdicts(n)
    seen, totals = asyncio.run(collect(iter(records), stage, concurrency=concurrency, window=window))
    assert seen == [(r, [r, r]) for r in records]
    assert (totals.records, totals.rows, totals.failures) == (n, 2 * n, 0)
    assert peak <= concurrency


def test_a_record_error_is_a_row_and_the_rest_goes_on():
    async def stage(record):
        if record.record_id == "r1":
            raise RecordError("truncated", "cut", text="ab", request_key="k")
        return [record]

    records = verdicts(3)
    seen, totals = asyncio.run(collect(records, stage, concurrency=2))
    assert seen[1][1] == [
        Failure(kind="truncated", stage="s", reason="cut", record_id="r1", text="ab", request_key="k")
    ]
    assert (totals.rows, totals.failures) == (2, 1)


def test_a_remote_error_ends_the_run_and_cancels_the_others():
    cancelled = []

    async def stage(record):
        if record.record_id == "r0":
            raise RemoteError("refused")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(record.record_id)
            raise
        return []

    with pytest.raises(RemoteError, match="refused"):
        asyncio.run(collect(verdicts(9), stage, concurrency=3))
    assert len(cancelled) <= 2


def test_finished_records_may_not_run_ahead_without_bound():
    taken = 0
    release = None

    def records():
        nonlocal taken
        for record in verdicts(1000):
            taken += 1
            yield record

    async def main():
        nonlocal release
        release = asyncio.Event()

        async def stage(record):
            if record.record_id == "r0":
                await release.wait()
            return [record]

        run = asyncio.create_task(collect(records(), stage, concurrency=4, window=10))
        await asyncio.sleep(0.05)
        held = taken
        release.set()
        await run
        return held

    assert asyncio.run(main()) <= 10 + 4
    assert taken == 1000
