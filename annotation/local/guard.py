"""What every request must pass, and the headers of every answer.

* **Host**: an address in numbers, localhost, or a name that the owner gave. A page of another site that had its own
  name pointed here (DNS rebinding) comes with that name, and is refused.
* **Origin**, on all that changes something: this server's own, as the browser tells it (Origin, Sec-Fetch-Site).
* **Size**: a body has a limit.

No script runs but ours, nothing is loaded from elsewhere, no other page may frame or read this one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 512 * 1024
"""Bytes: four texts of the longest kind, each character escaped."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Guard:
    """ASGI middleware around the whole app. `hosts` are the names, beside numbers and localhost, that lead here."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = ()) -> None:
        self._app = RequestBodyLimitMiddleware(app, MAX_BODY)
        self._hosts = {"localhost", *(h.lower() for h in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                out = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    out[name] = value
                out.setdefault("Cache-Control", "no-store")
            await send(message)

        refused = self._refusal(scope["method"], headers)
        await (refused or self._app)(scope, receive, send_guarded)

    def _refusal(self, method: str, headers: Headers) -> PlainTextResponse | None:
        host = headers.get("host", "")
        if not self._is_ours(host):
            return PlainTextResponse("this server does not go by that name (ser annotate serve --url)\n", 421)
        if method in ("GET", "HEAD"):
            return None
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if (origin is not None and urlsplit(origin).netloc.lower() != host.lower()) or site not in (
            None,
            "same-origin",
        ):
            return PlainTextResponse("a request from another site\n", 403)
        return None

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self._hosts or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
