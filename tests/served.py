"""The built-in annotation page under test: in this process, or as `ser annotate serve` in one of its own."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from annotation.ledger import Ledger, ledger_path
from annotation.local.annotating import Annotating
from annotation.local.app import Desks, make_app
from annotation.local.desk import Desk
from annotation.local.owning import Owning


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """One keep-alive connection to a server."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        """`body` is sent as JSON; bytes are sent as they are."""
        sent = {"Content-Type": "application/json"} if body is not None else {}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        self._connection.request(method, path, data, {**sent, **(headers or {})})
        reply = self._connection.getresponse()
        return Reply(reply.status, reply.headers, reply.read())


@dataclass(frozen=True)
class Page:
    """A server that runs; `path` is where a person's page stands, without the host."""

    client: Client
    people: dict[str, str]
    owner: str
    url: str

    def ask(self, who: str, method: str, what: str, body: Any = None, **headers: str) -> Reply:
        base = self.owner if who == "owner" else self.people[who]
        return self.client.ask(method, f"{base}/api/{what}", body, headers)

    def next(self, who: str) -> Any:
        return self.ask(who, "POST", "next").json


@contextmanager
def served(workspace: Path) -> Iterator[Page]:
    """The page over the round of this workspace, in a thread."""
    path = ledger_path(workspace)
    annotating = Desk(lambda: Annotating(Ledger(path), workspace / "guidelines"), lambda d: d.ledger.close())
    owning = Desk(lambda: Owning(Ledger(path)), lambda d: d.ledger.close())
    app = make_app(Desks(annotating, owning, workspace / "media"), hosts=("annotate.example.org",))
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, ws="none", lifespan="off", access_log=False, log_level="error"))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    desk = annotating.start().result()
    people = [a for a, source in desk.ledger.state.annotators.items() if source == "person"]
    port = listening.getsockname()[1]
    try:
        yield Page(
            Client(port),
            {a: f"/a/{desk.access.token(a)}" for a in people},
            f"/o/{desk.access.owner_token}",
            f"http://127.0.0.1:{port}",
        )
    finally:
        server.should_exit = True
        thread.join(20)
        owning.close()
        annotating.close()


def launch(workspace: Path, *options: str) -> tuple[subprocess.Popen[str], Page]:
    """`ser annotate serve` in a process of its own; returns once it has printed its links."""
    command = [sys.executable, "-m", "pipelines", "annotate", "serve", "-w", str(workspace), "--port", "0", "--json"]
    err = (workspace / "stderr.txt").open("a")
    process = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=err,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    err.close()
    text = ""
    stdout = process.stdout
    if stdout is None:
        raise RuntimeError("no pipe")
    while not text.endswith("\n}\n"):
        line = stdout.readline()
        if not line:
            raise RuntimeError(f"it ended with {process.wait()}: {text}{(workspace / 'stderr.txt').read_text()}")
        text += line
    links = json.loads(text)
    url = links["url"]
    people = {a: link.removeprefix(url) for a, link in links["annotators"].items()}
    return process, Page(Client(int(url.rsplit(":", 1)[1])), people, links["owner"].removeprefix(url), url)


def stop(process: subprocess.Popen[str], *, hard: bool = False) -> int:
    """End it, as Ctrl-C does or as a power cut does."""
    if hard:
        process.kill()
    else:
        process.send_signal(2)
    code = process.wait(30)
    if process.stdout is not None:
        process.stdout.close()
    return code


def answer(view: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A whole answer to a view: all True, the first better."""
    body = {"view_id": view["id"], "steps": [{"label": True}] * 3, "seconds": 12.5}
    return {**body, "verdict": "first_better" if view["replies"] else None, **more}


def wait_for(what: Any, seconds: float = 20) -> None:
    """Until `what()` is true; fails after `seconds`."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.02)
