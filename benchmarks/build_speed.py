"""How fast `ser build` asks, journals and writes, beside the ideal, bare aiohttp and the bare openai client.

    python -m benchmarks.build_speed [--rows 2000] [--json]

2,000 rows, one call a row, a loopback server of fixed 200 ms replies in a process of its own, pinned to the other core.
Ours is measured from the first request sent to the last row durable, journal on: the real `reason` stage, engine,
journal and table. Ideal = rows / concurrency * latency. Each runner has a process of its own, and the machine's other
load falls on all alike; every reply is checked against the request that it answers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

LATENCY_S = 0.2
FAULTS = {"429": 0.05, "cut": 0.02}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runner", help=argparse.SUPPRESS)
    parser.add_argument("--concurrency", type=int, default=64, help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.runner:
        _pin(0)
        work = RUNNERS[options.runner](options.url, options.rows, options.concurrency)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop if options.runner == "ours" else None) as runner:
            print(json.dumps(runner.run(work)))
        return
    results = [
        *(_run(name, options.rows, c, {}) for c in (64, 256) for name in ("ours", "aiohttp", "openai")),
        _run("ours", options.rows, 64, FAULTS),
    ]
    bare = next(r for r in results if r["runner"] == "aiohttp" and r["concurrency"] == 256)
    for r in results:
        if r["concurrency"] == 256:
            r["x_aiohttp"] = round(r["seconds"] / bare["seconds"], 3)
    print(json.dumps(results, indent=1) if options.json else _table(results))
    if any(r["right"] != options.rows for r in results):
        sys.exit("some replies were wrong or missing")


def _run(runner: str, rows: int, concurrency: int, faults: dict[str, float]) -> dict[str, Any]:
    from tests.servers.openai_stand_in import StandIn

    replies = f"{Path(__file__).parents[1] / 'tests' / 'servers' / 'ser_replies.py'}:build"
    cpu = 1 if (os.cpu_count() or 1) > 1 else None
    with StandIn(latency_s=LATENCY_S, faults=faults, reply=replies, cpu=cpu, keep_bodies=False) as server:
        command = [sys.executable, "-m", "benchmarks.build_speed", "--runner", runner, "--rows", str(rows)]
        done = subprocess.run(
            [*command, "--concurrency", str(concurrency), "--url", server.base_url],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    result = json.loads(done.stdout.splitlines()[-1])
    ideal = rows / concurrency * LATENCY_S
    return {
        "runner": runner,
        "concurrency": concurrency,
        "faults": bool(faults),
        "x_ideal": round(result["seconds"] / ideal, 3),
        "cpu_ms_per_row": round(result.pop("cpu") / rows * 1e3, 3),
        "peak_mb": round(result.pop("peak") / 1024),
        **result,
    }


async def _ours(url: str, rows: int, concurrency: int) -> dict[str, Any]:
    from pipelines.stages.reason import reason
    from ser_toolkit.engine import run_stage
    from ser_toolkit.journal import Journal
    from ser_toolkit.llm.journaled import JournaledChat
    from ser_toolkit.llm.open import open_model
    from ser_toolkit.prompting import Prompts
    from ser_toolkit.recipe import Recipe
    from ser_toolkit.schema import Trace
    from ser_toolkit.store import TableWriter, read_table
    from tests.servers.ser_replies import mark_of

    recipe = Recipe.model_validate(
        {
            "llm": {"model": "openai:stand-in", "base_url": url, "concurrency": concurrency},
            "sample": {"rounds": 1},
        }
    )
    asked: dict[str, list[dict[str, str]]] = {}
    clock = _Clock()

    class Watched(JournaledChat):
        """Notes what was asked, so that each trace can be checked against its own request."""

        async def complete(self, request: Any) -> Any:
            clock.start()
            asked[request.record_id] = [{"role": m.role, "content": m.text} for m in request.messages]
            return await super().complete(request)

    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "journal.sqlite")
        chat = Watched(open_model(recipe.llm), journal)
        table = TableWriter(Path(folder) / "traces.parquet", Trace)
        prompts, dialogues = Prompts(), _dialogues(rows)

        def emit(_: Any, made: Any) -> None:
            for row in made:
                if isinstance(row, Trace):
                    table.append(row)

        await run_stage(
            "reason", dialogues, lambda d: reason(d, chat, recipe, prompts), emit, concurrency=2 * concurrency
        )
        journal.flush()
        table.finish()
        measured = clock.stop()
        await chat.aclose()
        journal.close()
        made = read_table(Path(folder) / "traces.parquet", Trace)
        right = sum(mark_of(asked[t.dialogue_id]) in t.reply for t in made)
    return {**measured, "right": right}


async def _aiohttp(url: str, rows: int, concurrency: int) -> dict[str, Any]:
    import aiohttp

    async def ask(session: aiohttp.ClientSession, n: int) -> str:
        body = {"model": "m", "messages": _messages(n)}
        async with session.post(f"{url}/chat/completions", json=body) as response:
            answer = await response.json()
        return answer["choices"][0]["message"]["content"]

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        return await _pool(rows, concurrency, lambda n: ask(session, n))


async def _openai(url: str, rows: int, concurrency: int) -> dict[str, Any]:
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=url, api_key="none") as client:

        async def ask(n: int) -> str:
            messages: Any = _messages(n)
            answer = await client.chat.completions.create(model="m", messages=messages)
            return answer.choices[0].message.content or ""

        return await _pool(rows, concurrency, ask)


async def _pool(rows: int, concurrency: int, ask: Any) -> dict[str, Any]:
    from tests.servers.ser_replies import mark_of

    numbers, said = iter(range(rows)), {}

    async def work() -> None:
        for n in numbers:
            said[n] = await ask(n)

    clock = _Clock()
    clock.start()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    return {**clock.stop(), "right": sum(mark_of(_messages(n)) in text for n, text in said.items())}


RUNNERS = {"ours": _ours, "aiohttp": _aiohttp, "openai": _openai}


class _Clock:
    """Wall and CPU time from the first `start` on."""

    def __init__(self) -> None:
        self.wall: float | None = None

    def start(self) -> None:
        if self.wall is None:
            self.wall, self.cpu = time.perf_counter(), time.process_time()

    def stop(self) -> dict[str, Any]:
        return {
            "seconds": round(time.perf_counter() - (self.wall or 0.0), 3),
            "cpu": time.process_time() - self.cpu,
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        }


SAID = "I lost my job last week and I cannot bring myself to tell anyone at home about it."
ANSWERED = "Thank you for telling me. How have the evenings been since then?"


def _dialogues(rows: int) -> list[Any]:
    from ser_toolkit.schema import Dialogue, Source, Turn

    turns = tuple(
        Turn(speaker="seeker" if i % 2 == 0 else "supporter", text=SAID if i % 2 == 0 else ANSWERED) for i in range(10)
    )
    source = Source(format="benchmark", licence="Apache-2.0")
    return [
        Dialogue(
            id=f"d{n}", root_id=f"d{n}", lang="en", source=source,
            turns=(Turn(speaker="seeker", text=f"This is case {n}."), *turns[1:]),
        )
        for n in range(rows)
    ]  # fmt: skip


def _messages(n: int) -> list[dict[str, str]]:
    history = "\n".join([SAID, ANSWERED] * 5)
    return [{"role": "system", "content": "Answer in four parts."}, {"role": "user", "content": f"Case {n}\n{history}"}]


def _pin(cpu: int) -> None:
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {cpu})


def _table(results: list[dict[str, Any]]) -> str:
    lines = [
        "| runner | concurrency | x ideal | x bare aiohttp | CPU ms/row | peak MB | right |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in results:
        name = f"{r['runner']}, 5 % 429 and 2 % cut bodies" if r["faults"] else r["runner"]
        lines.append(
            f"| {name} | {r['concurrency']} | {r['x_ideal']} | {r.get('x_aiohttp', '')} | {r['cpu_ms_per_row']} "
            f"| {r['peak_mb']} | {r['right']} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
