"""What every request must pass, and the headers of every answer.

* **Host**: an address in numbers, localhost, or a name that the owner gave. A page of another site that had its own
  name pointed here (DNS rebinding) comes with that name, and is refused.
* **Origin**, on all that changes something: this server's own, as the browser tells it (Origin, Sec-Fetch-Site).

No script runs but ours, nothing is loaded from elsewhere, no other page may frame or read this one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import urlsplit

from .http import Handler, Receive, Reply, Request, Scope, Send, answer

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """The ASGI application around a handler. `hosts` are the names, beside numbers and localhost, that lead here."""

    def __init__(self, handler: Handler, hosts: Iterable[str] = ()) -> None:
        self._handler = handler
        self._hosts = {"localhost", *(h.lower() for h in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            reply = self._refusal(request) or await self._handler(request)
        except ConnectionError:
            return  # nobody listens any more
        guarded = replace(reply, headers={**HEADERS, **reply.headers})
        await answer(guarded, send, is_head=request.method == "HEAD")

    def _refusal(self, request: Request) -> Reply | None:
        host = request.headers.get("host", "")
        if not self._is_ours(host):
            return _plain(421, "this server does not go by that name (ser annotate serve --url)")
        if request.method in ("GET", "HEAD"):
            return None
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        is_foreign = origin is not None and _netloc(origin) != host.lower()
        return _plain(403, "a request from another site") if is_foreign or site not in (None, "same-origin") else None

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self._hosts or _is_address(name)


def _plain(status: int, text: str) -> Reply:
    return Reply(status, f"{text}\n".encode(), "text/plain; charset=utf-8")


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
