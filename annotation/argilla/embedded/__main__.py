"""argilla-server in one process: its own SQLite tables as search engine, and a Redis that lives in memory.

Runs in the server's environment, not in ours: `python PATH/embedded PORT`, with ARGILLA_HOME_PATH and the owner's
SER_USERNAME, SER_PASSWORD and SER_API_KEY in the environment. Jobs in the background (webhooks, imports from the Hub)
have no worker here; nothing that annotators do needs one.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import asyncio
import os
import sys

import fakeredis
import redis

_memory = fakeredis.FakeServer()
redis.from_url = lambda *_, **__: fakeredis.FakeStrictRedis(server=_memory)

os.environ["ARGILLA_SEARCH_ENGINE"] = "ser_sql"

import sql_engine  # noqa: E402, F401
import uvicorn  # noqa: E402
from alembic import command  # noqa: E402
from alembic.config import Config  # noqa: E402
from argilla_server import app  # noqa: E402
from argilla_server.contexts import accounts  # noqa: E402
from argilla_server.database import ALEMBIC_CONFIG_FILE, AsyncSessionLocal  # noqa: E402
from argilla_server.models import User, UserRole  # noqa: E402

POLICY = (
    b"default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    b"img-src 'self' data: blob:; font-src 'self' data:; object-src 'none'; frame-ancestors 'none'"
)
"""Nothing from elsewhere: Argilla's page would fetch its fonts from a third party, with every view of such material."""


def _guarded(inner):
    """The application, its answers with the headers that keep the page to this server."""

    async def application(scope, receive, send) -> None:
        async def sending(message) -> None:
            if message["type"] == "http.response.start":
                headers = [(b"content-security-policy", POLICY), (b"referrer-policy", b"no-referrer")]
                message["headers"] = [*message.get("headers", ()), *headers]
            await send(message)

        await inner(scope, receive, sending if scope["type"] == "http" else send)

    return application


async def _owner(username: str, password: str, api_key: str) -> None:
    async with AsyncSessionLocal() as db:
        if await User.get_by(db, username=username) is None:
            hashed = accounts.hash_password(password)
            await User.create(
                db, first_name=username, username=username, role=UserRole.owner, api_key=api_key, password_hash=hashed
            )


def main() -> None:
    command.upgrade(Config(ALEMBIC_CONFIG_FILE), "head")
    asyncio.run(_owner(*(os.environ.pop(f"SER_{name}") for name in ("USERNAME", "PASSWORD", "API_KEY"))))
    uvicorn.run(_guarded(app), host="127.0.0.1", port=int(sys.argv[1]), access_log=False)


if __name__ == "__main__":
    main()
