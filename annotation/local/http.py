"""The little of HTTP that the page needs, over ASGI: requests, replies, routes.

A framework would bring it, too, and half as much again to the time until the first page (docs/benchmarks.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back."""

    status: int = 200
    body: bytes = b""
    type: str = ""
    headers: dict[str, str] = field(default_factory=dict)


def refuse(status: int, code: str, message: str) -> Reply:
    """A `wire.Fault` as a reply."""
    body = json.dumps({"code": code, "message": message}, ensure_ascii=False)
    return Reply(status, body.encode("utf-8", "replace"), "application/json")


class TooLarge(Exception):
    """The body is larger than is taken."""


class Request:
    """What was asked. `params` are the parts of the path that its route names."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = {n.decode("latin-1").lower(): v.decode("latin-1") for n, v in scope["headers"]}
        self.params: dict[str, str] = {}
        self._query: bytes = scope["query_string"]
        self._receive = receive

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(self._query.decode("latin-1"), keep_blank_values=True))

    async def body(self, limit: int) -> bytes:
        """The whole body. Raises TooLarge as soon as it is, ConnectionError where the other side left."""
        stated = self.headers.get("content-length", "0")
        if not stated.isdecimal() or int(stated) > limit:
            raise TooLarge
        data = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError
            data += message.get("body", b"")
            if len(data) > limit:
                raise TooLarge
            if not message.get("more_body"):
                return bytes(data)


Handler = Callable[[Request], Awaitable[Reply]]


class Router:
    """Handlers by method and path; a path names its parts: `/a/{token}/api/next`."""

    def __init__(self, routes: Iterable[tuple[str, str, Handler]]) -> None:
        self._routes: dict[re.Pattern[str], dict[str, Handler]] = {}
        for method, path, handler in routes:
            pattern = re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(path)))
            self._routes.setdefault(pattern, {})[method] = handler

    async def __call__(self, request: Request) -> Reply:
        for pattern, handlers in self._routes.items():
            found = pattern.fullmatch(request.path)
            if found is None:
                continue
            handler = handlers.get("GET" if request.method == "HEAD" else request.method)
            if handler is None:
                return Reply(405, headers={"Allow": ", ".join(handlers)})
            request.params = found.groupdict()
            return await handler(request)
        return refuse(404, "not_found", "nothing is here")


async def answer(reply: Reply, send: Send, *, is_head: bool = False) -> None:
    """Send a reply."""
    headers = {"Content-Length": str(len(reply.body)), **({"Content-Type": reply.type} if reply.type else {})}
    raw = [(n.encode("latin-1"), v.encode("latin-1")) for n, v in {**headers, **reply.headers}.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": raw})
    await send({"type": "http.response.body", "body": b"" if is_head else reply.body})
