"""A server of ours that runs beside the command that started it: one a workspace and name, bound to loopback.

    W/servers/NAME/server.log   what it says; server.json: its address and process
    W/servers/NAME/lock         held by the server itself as long as it lives, so that nobody has to guess about pids

The folder is the server's for its data, and nobody else's (0700). May import: ser_toolkit.
"""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from ser_toolkit.errors import AnnotationError
from ser_toolkit.visible import visible
from ser_toolkit.workspace import writing

HOST = "127.0.0.1"
PASSED = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""What a server gets of our environment: it has no need of keys."""
POLL_S = 0.1
STOP_S = 10.0


@dataclass(frozen=True, slots=True)
class Running:
    """A server that runs."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


class ServerProcess:
    """The server `name` of a workspace, whether it runs or not."""

    def __init__(self, workspace: Path, name: str) -> None:
        self.name = name
        self.folder = workspace / "servers" / name
        self.log = self.folder / "server.log"
        self._state = self.folder / "server.json"

    def make_folder(self) -> Path:
        """Its folder, there from now on."""
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self.folder.chmod(0o700)
        return self.folder

    def running(self) -> Running | None:
        """The server as it runs, ready or about to be; `None` where it does not run."""
        return self._known() if self._is_held() else None

    def start(
        self, command: Callable[[int], Sequence[str]], env: Mapping[str, str], *, ready: str, timeout_s: float = 180.0
    ) -> Running:
        """Start it as `command(port)`, or find it running; back when `GET ready` is answered with 200.

        It keeps the port that it had, where that is free. Raises AnnotationError, with the end of the log, where it
        ends or is not ready in time.
        """
        self.make_folder()
        handle = self._take()
        if handle is None:
            return self._await(None, ready, timeout_s)
        before = self._known()
        port = before.port if before and _is_free(before.port) else _free_port()
        passed = {k: os.environ[k] for k in PASSED if k in os.environ}
        try:
            with writing(self.log), _private(self.log) as log:
                process = subprocess.Popen(
                    command(port), cwd=self.folder, env={**passed, **env}, stdin=subprocess.DEVNULL, stdout=log,
                    stderr=subprocess.STDOUT, pass_fds=(handle,), start_new_session=True,
                )  # fmt: skip
        finally:
            os.close(handle)  # the server has it now
        write_private(self._state, json.dumps(asdict(Running(port, process.pid))))
        try:
            return self._await(process, ready, timeout_s)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> bool:
        """End it; whether it ran."""
        found = self.running()
        if found is None:
            return False
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(found.pid, sign)
            except ProcessLookupError:
                return True
            end = time.monotonic() + STOP_S
            while time.monotonic() < end:
                _reap(found.pid)
                if self.running() is None:
                    return True
                time.sleep(POLL_S)
        raise AnnotationError(f"{self.name} (process {found.pid}) does not end", f"end it by hand: kill -9 {found.pid}")

    def log_end(self, lines: int = 12) -> str:
        """The last lines that it said, for an error."""
        try:
            text = self.log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return "\n".join(visible(line) for line in text.strip().splitlines()[-lines:])

    def _await(self, process: subprocess.Popen[bytes] | None, ready: str, timeout_s: float) -> Running:
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            if process.poll() is not None if process else not self._is_held():
                raise AnnotationError(f"{self.name} ended before it was ready", self._told())
            found = self._known()
            if found and answers(found.port, ready):
                return found
            time.sleep(POLL_S)
        raise AnnotationError(f"{self.name} was not ready within {timeout_s:.0f} s", self._told())

    def _told(self) -> str:
        return f"its log ({self.log}) ends so:\n{self.log_end()}"

    def _take(self) -> int | None:
        """The server's lock, or `None` where a server holds it."""
        with writing(self.folder):
            handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return None
        return handle

    def _is_held(self) -> bool:
        if not self.folder.exists():
            return False
        handle = self._take()
        if handle is not None:
            os.close(handle)
        return handle is None

    def _known(self) -> Running | None:
        try:
            return Running(**json.loads(self._state.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None


def answers(port: int, path: str) -> bool:
    """Whether the server on this port of ours answers `GET path` with 200."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    part = file.with_name(f".{file.name}.part")
    with writing(file):
        with _private(part) as out:
            out.write(text.encode())
        part.replace(file)


def _private(file: Path) -> BinaryIO:
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def _reap(pid: int) -> None:
    """Take leave of a child of ours that has ended: until then it counts as there."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as taken:
        return taken.getsockname()[1]


def _is_free(port: int) -> bool:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True
