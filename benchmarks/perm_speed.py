"""How close PERM's judging comes to the ideal: a loopback judge of fixed latency, behind a cap on calls under way.

    python -m benchmarks.perm_speed [--groups 8] [--completions 8] [--concurrency 48] [--latency 0.5] [--json]

A step of RL judges B groups of G completions by four calls each. Ideal: ceil(4BG / C) * latency. "Ours" is
`PermReward` over `OpenAIChat`, all groups at once. "One dimension after another" is the scheme of the paper's authors:
the same calls through the same client, each dimension awaited before the next is asked. The judge runs in a process of
its own, on the other core; every score is checked against what the judge answered. Aim: ours at most 1.15 x ideal.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from ser_toolkit.llm.openai import OpenAIChat, open_model
from ser_toolkit.reasoning import render_trace
from ser_toolkit.recipe import Llm
from ser_toolkit.rewards.base import Completion, Scene
from ser_toolkit.rewards.perm import ASPECTS, DIMENSIONS, PermOptions, PermReward
from ser_toolkit.schema import Turn
from tests.servers.openai_stand_in import StandIn

CALLS = len(DIMENSIONS) + 1
Scheme = Callable[[OpenAIChat, list[Scene], list[list[Completion]]], Awaitable[list[list[float | None]]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--completions", type=int, default=8)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[32, 48, 256])
    parser.add_argument("--latency", type=float, default=0.5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[0]})
    results = []
    with StandIn(latency_s=options.latency, reply=f"{__file__}:judge", cpu=cores[-1], keep_bodies=False) as server:
        for places in options.concurrency:
            for name, scheme in (("ours", ours), ("one dimension after another", one_after_another)):
                runs = [_run(scheme, server, options, places) for _ in range(options.repeats)]
                results.append(
                    {"scheme": name, "concurrency": places, **sorted(runs, key=lambda r: r["seconds"])[len(runs) // 2]}
                )
    print(json.dumps(results, indent=1) if options.json else _table(results, options))


def judge(body: dict[str, Any]) -> str:
    """What the stand-in answers: a level by the text that is judged, JSON as asked for."""
    said = json.dumps(body["messages"])
    level = 1 + sum(map(ord, said)) % 5
    properties = body["response_format"]["json_schema"]["schema"]["properties"]
    if "score" in properties:
        return json.dumps({"reason": "because", "score": level})
    return json.dumps({"reason": "because", **dict.fromkeys(ASPECTS, 2 * level)})


def _run(scheme: Scheme, server: StandIn, options: argparse.Namespace, places: int) -> dict[str, Any]:
    scenes, groups = _material(options.groups, options.completions)
    server.reset()
    settings = Llm(base_url=(server.base_url,), concurrency=places, check_model=False, vision="false")

    async def timed() -> tuple[float, float, list[list[float | None]]]:
        chat = open_model("judge", settings)
        await scheme(chat, scenes[:1], [[Completion("Warm up.")]])
        server.reset()
        start, cpu = time.perf_counter(), time.process_time()
        totals = await scheme(chat, scenes, groups)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        await chat.aclose()
        return seconds, cpu, totals

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        seconds, cpu, totals = runner.run(timed())
    calls = CALLS * options.groups * options.completions
    stats = server.stats()
    assert stats["calls"] == calls and stats["most_under_way"] <= places, stats
    assert all(t is not None for group in totals for t in group)
    ideal = math.ceil(calls / places) * options.latency
    return {
        "seconds": round(seconds, 3), "ideal": ideal, "x_ideal": round(seconds / ideal, 2),
        "cpu_ms_per_call": round(1e3 * cpu / calls, 2),
    }  # fmt: skip


async def ours(chat: OpenAIChat, scenes: list[Scene], groups: list[list[Completion]]) -> list[list[float | None]]:
    """Every call of the step at once."""
    reward = PermReward(chat, PermOptions(length=False))
    found = await asyncio.gather(*(reward.score(s, g) for s, g in zip(scenes, groups, strict=True)))
    return [[b.total for b in group] for group in found]


async def one_after_another(
    chat: OpenAIChat, scenes: list[Scene], groups: list[list[Completion]]
) -> list[list[float | None]]:
    """All completions of the step at once, but a dimension is awaited before the next one is asked."""
    reward = PermReward(chat, PermOptions(length=False))
    pairs = [(s, c) for s, g in zip(scenes, groups, strict=True) for c in g]
    for name in (*DIMENSIONS, "bystander"):
        levels = await asyncio.gather(*(reward._judge(name, s, c, []) for s, c in pairs))
    flat = iter(levels)
    return [[next(flat) for _ in group] for group in groups]


def _material(groups: int, completions: int) -> tuple[list[Scene], list[list[Completion]]]:
    scenes = [
        Scene(f"s{n}", "en", (Turn(speaker="seeker", text=f"Day {n} without work, and nobody asks."),))
        for n in range(groups)
    ]
    steps = ("Job loss, told to nobody.", "Negative, moderate: shame.", "Affirmation and Comfort.")
    written = [
        [Completion(render_trace(steps, f"Reply {n} to day {s}: that is heavy.", "en")) for n in range(completions)]
        for s in range(groups)
    ]
    return scenes, written


def _table(results: list[dict[str, Any]], options: argparse.Namespace) -> str:
    lines = [
        f"B {options.groups}, G {options.completions}, latency {options.latency} s, median of {options.repeats}",
        "| scheme | calls under way, at most | seconds | ideal | x ideal | CPU ms/call |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['scheme']} | {r['concurrency']} | {r['seconds']:.2f} | {r['ideal']:.2f} | {r['x_ideal']:.2f} | "
        f"{r['cpu_ms_per_call']} |"
        for r in results
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
