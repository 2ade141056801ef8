"""A Label Studio of ours: on this machine alone, on SQLite, without analytics, in an environment of its own.

Its secrets are derived from the round's secret key, so that nothing more need be kept, and whoever has the file of the
ledger is its owner.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from pathlib import Path

from annotation.environments import environment
from annotation.server_process import HOST, Running, ServerProcess

NAME = "label-studio"
REQUIREMENTS = ("label-studio==1.23.2",)
OWNER = "owner@localhost.localdomain"
READY_S = 600.0
"""The first start makes the database's tables, which takes a minute, and more on a busy machine."""


def process(workspace: Path) -> ServerProcess:
    """The Label Studio of this workspace, whether it runs or not."""
    return ServerProcess(workspace, NAME)


def start(workspace: Path, key: bytes) -> Running:
    """Bring it up, or find it running. Raises AnnotationError."""
    server = process(workspace)
    found = server.running()
    if found is not None:
        return server.start(lambda _: (), {}, ready="/health", timeout_s=READY_S)  # one that is about to be ready
    program = environment(NAME, REQUIREMENTS).with_name("label-studio")
    data = server.make_folder() / "data"

    def command(port: int) -> Sequence[str]:
        base = [str(program), "start", "--no-browser", "--internal-host", HOST, "--port", str(port)]
        return [*base, "--data-dir", str(data)]

    return server.start(command, _settings(key), ready="/health", timeout_s=READY_S)


def token(key: bytes) -> str:
    """The owner's key to the API."""
    return _secret(key, "token")[:40]


def password(key: bytes) -> str:
    """The owner's password, typed by a person: five groups of four."""
    drawn = _secret(key, "password")[:20]
    return "-".join(drawn[n : n + 4] for n in range(0, 20, 4))


def _settings(key: bytes) -> Mapping[str, str]:
    return {
        "LABEL_STUDIO_USERNAME": OWNER,
        "LABEL_STUDIO_PASSWORD": password(key),
        "LABEL_STUDIO_USER_TOKEN": token(key),
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "LABEL_STUDIO_DISABLE_SIGNUP_WITHOUT_LINK": "true",
        "SECRET_KEY": _secret(key, "sessions"),
        "COLLECT_ANALYTICS": "false",
        "LATEST_VERSION_CHECK": "false",
        "SENTRY_DSN": "",
        "FRONTEND_SENTRY_DSN": "",
    }


def _secret(key: bytes, what: str) -> str:
    return hmac.digest(key, f"label-studio\x1f{what}".encode(), hashlib.sha256).hex()
