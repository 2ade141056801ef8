"""A way to a server that breaks: after so many requests it hangs up, or answers 500, until it is mended."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

How = Literal["hangs up", "hangs up late", "answers 500", "answers nonsense"]
"""Late: the request has arrived and done its work, and only its answer is lost."""
PASSED = ("content-type", "x-argilla-api-key", "authorization", "accept")


class FaultyProxy:
    """Passes requests on to `target`. `requests` are those that came, as "METHOD path"."""

    def __init__(self, target: str) -> None:
        self.target = urlsplit(target)
        self.requests: list[str] = []
        self.left: int | None = None
        self.how: How = "hangs up"
        self.url = ""

    def fail(self, after: int, how: How) -> None:
        """Let so many more requests through, then break."""
        self.left, self.how = after, how

    def mend(self) -> None:
        self.left = None

    def breaks(self) -> bool:
        """Count a request; whether it is one that breaks."""
        if self.left is None:
            return False
        self.left -= 1
        return self.left < 0

    def pass_on(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes, str]:
        connection = http.client.HTTPConnection(self.target.hostname or "", self.target.port, timeout=60)
        try:
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return reply.status, reply.read(), reply.getheader("Content-Type") or ""
        finally:
            connection.close()


@contextmanager
def faulty_proxy(target: str) -> Iterator[FaultyProxy]:
    """One that listens on a port of its own."""
    proxy = FaultyProxy(target)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            proxy.requests.append(f"{self.command} {self.path}")
            is_broken = proxy.breaks()
            if is_broken and proxy.how == "hangs up":
                self.close_connection = True
                return
            if is_broken and proxy.how == "answers 500":
                self._send(500, b'{"detail": "out of order"}', "application/json")
                return
            if is_broken and proxy.how == "answers nonsense":
                self._send(200, b"<html>Please sign in to the hotel's network</html>", "text/html")
                return
            headers = {k: v for k, v in self.headers.items() if k.lower() in PASSED}
            code, answer, kind = proxy.pass_on(self.command, self.path, body, headers)
            if is_broken:
                self.close_connection = True
                return
            self._send(code, answer, kind)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any

        def _send(self, code: int, body: bytes, kind: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            if code != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if code != 204:
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    proxy.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
