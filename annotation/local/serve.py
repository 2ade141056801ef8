"""The process of `ser annotate serve`: a socket, the links, the server."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import uvicorn

from ser_toolkit.errors import SerError, UsageError

from .app import Desks, make_app
from .desk import Desk

if TYPE_CHECKING:
    from annotation.ledger import Ledger

    from .annotating import Annotating
    from .owning import Owning

PORT = 8400
LOOPBACK = "127.0.0.1"
OWNER_AFTER_S = 2.0
"""What is to be done `then` waits for the annotators' first pages."""
ANY = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Links:
    """Where the people of a round find their pages."""

    url: str
    owner: str
    annotators: Mapping[str, str]


def serve(
    workspace: Path,
    open_round: Callable[[], Ledger],
    announce: Callable[[Links], None],
    *,
    host: str = LOOPBACK,
    port: int = PORT,
    url: str | None = None,
    then: Callable[[Ledger], None] | None = None,
) -> None:
    """Serve the round until interrupted. `announce` is told the links once the round is open.

    `open_round` gives the ledger, in a thread of its own; `then` is called with another one of the same round once all
    is up. `url` is the address under which people reach this server, where that is another one (a proxy, a name).
    `port` 0 takes a free one. Raises UsageError for an address that cannot be had, and whatever `open_round` raises.
    """
    listening = _listen(host, port)
    base = _base(url, host, listening.getsockname()[1])
    asyncio.run(_serve(workspace, open_round, announce, then, listening, base))


async def _serve(
    workspace: Path,
    open_round: Callable[[], Ledger],
    announce: Callable[[Links], None],
    then: Callable[[Ledger], None] | None,
    listening: socket.socket,
    base: str,
) -> None:
    annotating: Desk[Annotating] = Desk(lambda: _annotating(open_round(), workspace), lambda d: d.ledger.close())
    owning: Desk[Owning] = Desk(lambda: _owning(annotating, then), lambda d: d.ledger.close())
    name = urlsplit(base).hostname or ""
    config = uvicorn.Config(
        make_app(Desks(annotating, owning, workspace / "media"), hosts=(name, socket.gethostname())),
        http="h11", loop="asyncio", ws="none", lifespan="off",
        access_log=False, log_level="warning", server_header=False, timeout_graceful_shutdown=3,
    )  # fmt: skip  # no access log: a path holds a token
    server = uvicorn.Server(config)
    loop = asyncio.get_running_loop()

    def opened(desk: Future[Annotating]) -> None:
        if desk.exception() is None:
            announce(_links(base, desk.result()))
            if then is not None:
                loop.call_later(OWNER_AFTER_S, owning.start)
        else:
            server.should_exit = True

    serving = asyncio.create_task(server.serve(sockets=[listening]))
    while not (server.started or serving.done()):  # noqa: ASYNC110 - uvicorn offers no event
        await asyncio.sleep(0.005)
    opening = annotating.start()  # its imports would hold up the server's
    opening.add_done_callback(lambda d: loop.call_soon_threadsafe(opened, d))
    try:
        await serving
    finally:
        await asyncio.to_thread(owning.close)
        await asyncio.to_thread(annotating.close)
    if (fault := opening.exception()) is not None:
        raise fault


def _annotating(ledger: Ledger, workspace: Path) -> Annotating:
    from .annotating import Annotating

    return Annotating(ledger, workspace / "guidelines")


def _owning(annotating: Desk[Annotating], then: Callable[[Ledger], None] | None) -> Owning:
    """The owner's ledger: the same file, once it is open."""
    path = annotating.start().result().ledger.path
    from annotation.ledger import Ledger

    from .owning import Owning

    ledger = Ledger(path)
    try:
        if then is not None:
            then(ledger)
    except SerError as exc:
        print(f"warning: {exc}", file=sys.stderr)  # the round that there is can be served all the same
    return Owning(ledger)


def _links(base: str, desk: Annotating) -> Links:
    state = desk.ledger.state
    people = [a for a, source in state.annotators.items() if source == "person"]
    return Links(
        url=base,
        owner=f"{base}/o/{desk.access.owner_token}",
        annotators={a: f"{base}/a/{desk.access.token(a, state.links.get(a, 0))}" for a in people},
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=512)
    except (OSError, OverflowError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise UsageError(
            f"{host}:{port}: cannot listen here: {reason}",
            "another server may run already; --port 0 takes a free port, --host names an address of this machine",
        ) from exc


def _base(url: str | None, host: str, port: int) -> str:
    if url is None:
        name = socket.gethostname() if host in ANY else f"[{host}]" if ":" in host else host
        return f"http://{name}:{port}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise UsageError(f"--url {url}: not an address of a server", "it is like https://annotate.example.org")
    return f"{parts.scheme}://{parts.netloc}"
