"""50 simulated annotators on the built-in page: `python -m benchmarks.annotation_load [--people 50] [--items 5000]`.

Each takes an item, thinks 1 to 3 seconds, saves a draft and submits, over one keep-alive connection, against the real
`ser annotate serve` in a process of its own. Told: p50, p95 and p99 of next, draft and submit, and whether all is as it
must be: no item with more votes than were asked for, no answer lost that was acknowledged. `--think 0 0`: no thinking.
`--kill` ends the server with SIGKILL halfway and starts it again under the same load. `--starts 10` tells instead how
long after the process' start the first page, and the first item, are there.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp

from annotation.ledger import Ledger, ledger_path
from annotation.local.access import Access
from tests.annotation_samples import begin, items


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def start(workspace: Path, port: int) -> tuple[subprocess.Popen[str], dict[str, str]]:
    """The server, and each person's link."""
    command = [
        sys.executable,
        "-m",
        "pipelines",
        "annotate",
        "serve",
        "-w",
        str(workspace),
        "--port",
        str(port),
        "--json",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    text = ""
    while not text.endswith("\n}\n"):
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise RuntimeError("the server did not start")
        text += line
    return process, json.loads(text)["annotators"]


class Load:
    """What all simulated people share: their times, and what was acknowledged to them."""

    def __init__(self, think: Sequence[float], seed: int = 0) -> None:
        self.times: dict[str, list[float]] = {"next": [], "draft": [], "submit": []}
        self.acknowledged: dict[str, dict[str, Any]] = {}
        self.retries = 0
        self.is_over = False
        self.think = think
        self.seed = seed

    async def person(self, session: aiohttp.ClientSession, link: str) -> None:
        rng = random.Random(f"{self.seed}{link}")
        await asyncio.sleep(rng.uniform(*self.think))
        while not self.is_over:
            work = await self.ask(session, "next", "POST", f"{link}/api/next")
            view = work["view"]
            if view is None:
                return
            await asyncio.sleep(rng.uniform(*self.think))
            labels = [rng.random() < 0.8 for _ in range(3)]
            verdict = rng.choices(("first_better", "second_better", "neither", "almost_equal"), (38, 41, 14, 7))[0]
            draft = {"steps": [{"label": ok, "critique": "" if ok else "no"} for ok in labels], "verdict": verdict}
            await self.ask(session, "draft", "PUT", f"{link}/api/views/{view['id']}/draft", draft)
            body = {"view_id": view["id"], "seconds": 2.0, **draft, "verdict": verdict if view["replies"] else None}
            await self.ask(session, "submit", "POST", f"{link}/api/answers", body)
            self.acknowledged[view["id"]] = body

    async def ask(self, session: aiohttp.ClientSession, name: str, method: str, url: str, body: Any = None) -> Any:
        """The reply, as the page gets it: again until the server is there."""
        while True:
            began = time.perf_counter()
            try:
                async with session.request(method, url, json=body) as reply:
                    if reply.status >= 400:
                        raise RuntimeError(f"{method} {name}: {reply.status} {await reply.text()}")
                    found = await reply.json() if reply.status == 200 else None
            except aiohttp.ClientError:
                self.retries += 1
                await asyncio.sleep(0.2)
                continue
            self.times[name].append(time.perf_counter() - began)
            return found


async def run(workspace: Path, seconds: float, think: Sequence[float], kill: bool) -> Load:
    port = free_port()
    process, links = start(workspace, port)
    load = Load(think)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
        people = [asyncio.create_task(load.person(session, link)) for link in links.values()]
        if kill:
            await asyncio.sleep(seconds / 2)
            process.kill()
            process.wait()
            process, again = await asyncio.to_thread(start, workspace, port)
            if again != links:
                raise RuntimeError("the links changed")
            await asyncio.sleep(seconds / 2)
        else:
            await asyncio.wait(people, timeout=seconds)
        load.is_over = True
        await asyncio.gather(*people)
    await asyncio.to_thread(tell_memory, process.pid)
    process.send_signal(signal.SIGINT)
    process.wait()
    return load


def tell_memory(pid: int) -> None:
    status = Path(f"/proc/{pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    print(next((line for line in lines if line.startswith("VmHWM")), ""), file=sys.stderr)


def first_replies(workspace: Path) -> tuple[float, float]:
    """Seconds from the start of the process to the first page, and to the first item."""
    with Ledger(ledger_path(workspace)) as ledger:
        token = Access(ledger.state.key).token(next(iter(ledger.state.annotators)))
    port, began = free_port(), time.perf_counter()
    command = [sys.executable, "-m", "pipelines", "annotate", "serve", "-w", str(workspace), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found = []
    for method, path in (("GET", f"/a/{token}"), ("POST", f"/a/{token}/api/next")):
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            try:
                connection.request(method, path)
                if (reply := connection.getresponse()).status != 200:
                    raise RuntimeError(f"{path}: {reply.status}")
                reply.read()
                break
            except OSError:
                time.sleep(0.002)
        found.append(time.perf_counter() - began)
    process.send_signal(signal.SIGINT)
    process.wait()
    return found[0], found[1]


def check(workspace: Path, load: Load) -> dict[str, Any]:
    """What the ledger says of it; raises where an answer is lost, or an item has more votes than were asked for."""
    with Ledger(ledger_path(workspace)) as ledger:
        state, overlap = ledger.state, ledger.state.settings.overlap
        for view, body in load.acknowledged.items():
            showing = state.views[view]
            answer = state.answers[showing.item_id][showing.annotator, showing.repeat]
            said = [m.label for m in answer.steps or ()]
            if said != [s["label"] for s in body["steps"]] or answer.verdict != body["verdict"]:
                raise RuntimeError(f"{view}: what was acknowledged is not what is kept")
        votes = Counter(len(state.votes(item, ("person",))) for item in state.items)
        for item in state.items:
            cast = sorted(state.votes(item, ("person",)), key=lambda a: a.time)
            asked = state.wanted(item, cast[:overlap])  # one more where the first ones disagree
            if len(cast) > asked:
                raise RuntimeError(f"{item}: {len(cast)} votes, {asked} were asked for")
        answers = sum(len(table) for table in state.answers.values())
    return {"answers": answers, "acknowledged": len(load.acknowledged), "items by votes": dict(sorted(votes.items()))}


def figures(times: Sequence[float]) -> str:
    ranked = sorted(times)
    at = [1000 * ranked[min(len(ranked) - 1, int(len(ranked) * q))] for q in (0.5, 0.95, 0.99)]
    return f"{len(ranked):6}   p50 {at[0]:6.1f}   p95 {at[1]:6.1f}   p99 {at[2]:6.1f}   max {1000 * ranked[-1]:6.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--items", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--think", type=float, nargs=2, default=(1.0, 3.0))
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--starts", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        names = [f"p{n:02}" for n in range(options.people)]
        begin(workspace, items(options.items), names).close()
        if options.starts:
            pages, found = zip(*(first_replies(workspace) for _ in range(options.starts)), strict=True)
            print(f"  first page: least {min(pages):.2f} s, median {statistics.median(pages):.2f} s")
            print(f"  first item: least {min(found):.2f} s, median {statistics.median(found):.2f} s")
            return
        load = asyncio.run(run(workspace, options.seconds, options.think, options.kill))
        print(f"{options.people} people, {options.items} items, thinking {options.think} s, {os.cpu_count()} cores")
        for name, times in load.times.items():
            print(f"  {name:7}{figures(times)}")
        print(f"  {sum(map(len, load.times.values())) / options.seconds:.0f} requests/s, {load.retries} asked again")
        print(f"  {check(workspace, load)}")


if __name__ == "__main__":
    main()
