"""Does a server serve this model? Asked once, at the start, since a wrong name or address should cost nothing.

Only a clear no stops a build: a server that keeps no list, or refuses to show it, is asked again by the first call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

import orjson
from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import RequestError, RequestTimeoutError
from yarl import URL

from ..errors import RemoteError, UsageError

PATIENCE_S = 10.0
NAMED = 8
"""Models of a list that an error names."""


async def require_model(name: str, bases: Sequence[URL], *, key: str | None, key_env: str) -> None:
    """Ask every base URL for its models.

    Raises RemoteError where none answers or one refuses the key, UsageError where a list does not hold `name`.
    """
    found = await asyncio.gather(*(_models(base, key) for base in bases), return_exceptions=True)
    for base, answer in zip(bases, found, strict=True):
        if isinstance(answer, BaseException) and not isinstance(answer, RequestError):
            raise answer
        if isinstance(answer, _Refused):
            cure = f"the key in ${key_env} is not the right one" if key else f"put the key in ${key_env}"
            raise RemoteError(f"{base}: the key was refused (HTTP 401)", cure)
        if isinstance(answer, list) and answer and not any(_is(known, name) for known in answer):
            ids = [str(known.get("id")) for known in answer]
            more = f", and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
            raise UsageError(
                f"{base}: serves no model {name!r}",
                f"it serves: {', '.join(ids[:NAMED])}{more}; "
                "if it takes the name all the same: --set llm.check_model=false",
            )
    if all(isinstance(answer, RequestError) for answer in found):
        why = "; ".join(f"{base}: not reachable: {_told(exc)}" for base, exc in zip(bases, found, strict=True))
        raise RemoteError(why, "start the server, or mend llm.base_url")


class _Refused:
    """The answer 401."""


async def _models(base: URL, key: str | None) -> list[dict[str, Any]] | _Refused | None:
    """The list, None where the server shows none. Raises RequestError where it does not answer."""
    headers = {"User-Agent": "ser-toolkit", **({"Authorization": f"Bearer {key}"} if key else {})}
    wait = timedelta(seconds=PATIENCE_S)
    builder = ClientBuilder().default_headers(headers).follow_redirects(False).timeout(wait)
    async with builder.build() as client:
        try:
            response = (
                await client.get(str(base.with_path(f"{base.path.rstrip('/')}/models", keep_query=True))).build().send()
            )
            data = (await response.bytes()).to_bytes()
        except RequestTimeoutError:
            return None  # slow is not absent
    if response.status == 401:
        return _Refused()
    try:
        listed = orjson.loads(data)["data"] if response.status == 200 else None
    except (orjson.JSONDecodeError, LookupError, TypeError):
        return None
    return [m for m in listed if isinstance(m, dict)] if isinstance(listed, list) else None


def _is(known: dict[str, Any], name: str) -> bool:
    """Whether a list's entry answers to the name: Ollama's tag may be left out, a gateway's may be a pattern, and a
    llama.cpp server has one model, whatever it is called.
    """
    id = str(known.get("id"))
    return (
        id in (name, f"{name}:latest") or known.get("owned_by") == "llamacpp" or ("*" in id and fnmatchcase(name, id))
    )


def _told(exc: Any) -> str:
    """The innermost cause. The client's errors name addresses and causes, never headers."""
    causes = [cause["message"] for cause in exc.details["causes"] or ()]
    return causes[-1] if causes else exc.message
