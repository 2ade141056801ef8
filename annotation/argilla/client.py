"""The Argilla SDK, found or told missing; what it raises, in our words."""

from __future__ import annotations

import importlib.util
import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ser_toolkit.errors import AnnotationError, UsageError
from ser_toolkit.visible import visible

if TYPE_CHECKING:
    from argilla import Argilla

TIMEOUT_S = 60
KEY_HINT = "the key must be an owner's: Argilla shows it under `My settings`"


def must_have_sdk() -> None:
    """Raises UsageError where the extra is not installed."""
    if importlib.util.find_spec("argilla") is None:
        raise UsageError("the route argilla needs Argilla's SDK", "pip install 'ser-toolkit[argilla]'")


def connect(url: str, api_key: str) -> Argilla:
    """A client of this server. Raises AnnotationError where it does not answer or refuses the key."""
    from argilla import Argilla

    with asking(url):
        # A proxy is no way to this machine; retries are for connecting alone, so nothing is sent twice.
        return Argilla(api_url=url, api_key=api_key, timeout=TIMEOUT_S, retries=1, trust_env=not _is_here(url))


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextmanager
def asking(url: str) -> Iterator[None]:
    """Around calls of the SDK: whatever goes wrong is an AnnotationError that says what to do."""
    import httpx
    from argilla._exceptions import ArgillaError

    try:
        yield
    except httpx.HTTPError as exc:
        raise AnnotationError(
            f"Argilla at {url} does not answer ({type(exc).__name__}: {visible(str(exc)) or 'no reason given'})",
            "see that it runs and run the same command again: what is there already is not carried twice",
        ) from exc
    except (ArgillaError, ValueError, KeyError, TypeError) as exc:
        cause = exc if getattr(exc, "status_code", None) else exc.__cause__ or exc
        status = getattr(cause, "status_code", None)
        if status in (401, 403) or type(exc).__name__ == "ArgillaCredentialsError":
            raise AnnotationError(f"Argilla at {url} refuses: {_told(cause)}", KEY_HINT) from exc
        if status is None:
            raise AnnotationError(
                f"Argilla at {url} answers what is no answer: {_told(cause)}", "is it an Argilla 2.x? see --url"
            ) from exc
        hint = "run the same command again: what is there already is not carried twice" if status >= 500 else ""
        raise AnnotationError(f"Argilla at {url} answers {status}: {_told(cause)}", hint) from exc


def _told(exc: BaseException) -> str:
    return visible(str(exc), one_line=True)[:400] or type(exc).__name__
