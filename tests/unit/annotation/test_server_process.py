"""A server beside the command that started it: found again, told when it does not come up, ended."""

from __future__ import annotations

import os
import sys
import time
import urllib.request
from collections.abc import Sequence

import pytest

from annotation.server_process import ServerProcess, answers
from ser_toolkit.errors import AnnotationError

SERVER = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404); self.end_headers()
        self.wfile.write(repr(sorted(os.environ)).encode())
print("listening", flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def toy(port: int) -> Sequence[str]:
    return [sys.executable, "-c", SERVER, str(port)]


def failing(port: int) -> Sequence[str]:
    return [sys.executable, "-c", "import sys; print('no \\x1b[31mdatabase'); sys.exit(3)"]


def test_it_outlives_its_starter_is_found_and_ends(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    server = ServerProcess(tmp_path, "toy")
    assert server.running() is None and not server.stop()
    found = server.start(toy, {"GIVEN": "1"}, ready="/health", timeout_s=30)
    try:
        again = ServerProcess(tmp_path, "toy")
        assert again.running() == found == again.start(failing, {}, ready="/health")
        assert server.log.read_text().startswith("listening") and server.log.stat().st_mode & 0o077 == 0
        given = urllib.request.urlopen(f"{found.url}/health").read().decode()
        assert "GIVEN" in given and "SOME_API_KEY" not in given
    finally:
        assert ServerProcess(tmp_path, "toy").stop()
    assert server.running() is None and not answers(found.port, "/health")
    back = server.start(toy, {}, ready="/health", timeout_s=30)
    assert back.port == found.port, "its links stay good"
    os.kill(back.pid, 9)
    while server.running():
        time.sleep(0.01)
    server.start(toy, {}, ready="/health", timeout_s=30)
    assert server.stop()


def test_one_that_does_not_come_up_says_why(tmp_path):
    server = ServerProcess(tmp_path, "toy")
    with pytest.raises(AnnotationError, match="ended before it was ready") as caught:
        server.start(failing, {}, ready="/health", timeout_s=30)
    assert "database" in caught.value.hint and "\x1b" not in caught.value.hint and str(server.log) in caught.value.hint
    with pytest.raises(AnnotationError, match="not ready within"):
        server.start(toy, {}, ready="/never", timeout_s=1.5)
    assert server.running() is None, "what is not ready in time is ended"
