"""POST a body to one of several base URLs until a whole answer comes.

The client is reqwest, by way of pyreqwest: its sockets run beside the interpreter, and a call costs about half the CPU
of a bare aiohttp call and a fifth of the openai package's (docs/benchmarks.md). The conventions (Bearer key,
Retry-After, which statuses are tried again) are the openai package's; so are proxies, from the environment.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from email.utils import parsedate_to_datetime
from time import time
from typing import Any, TypeVar

import orjson
from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import BodyDecodeError, DecodeError, RequestError, RequestTimeoutError
from pyreqwest.http import Url
from yarl import URL

from ..errors import RecordError, RemoteError
from .meter import UsageMeter
from .openai_wire import MalformedReply, Refusal

T = TypeVar("T")

FIRST_PAUSE_S, LONGEST_PAUSE_S, LONGEST_RETRY_AFTER_S = 0.5, 30.0, 60.0
LONGEST_CONNECT_S = 20.0
FAILURES_BEFORE_REST, FIRST_REST_S, LONGEST_REST_S = 3, 5.0, 60.0
TRIES_BEFORE_FIRST_ANSWER = 3
"""A server that never answered is more likely not there than restarting: say so soon."""

_AGAIN = frozenset({408, 409, 425, 429})
_EVERY_REQUEST = frozenset({401, 402, 403, 404, 405})
_SAID = 500


class Target:
    """One base URL: calls under way, failures in a row, and until when it rests."""

    def __init__(self, base: URL, path: str) -> None:
        self.base = base
        self.url = Url(str(base.with_path(f"{base.path.rstrip('/')}{path}", keep_query=True)))
        self.under_way = 0
        self.failures = 0
        self.rests_until = 0.0
        self.unreachable = False

    def worked(self) -> None:
        self.failures = 0
        self.unreachable = False

    def failed(self, now: float, *, unreachable: bool) -> None:
        self.unreachable = unreachable
        self.failures += 1
        over = self.failures - FAILURES_BEFORE_REST
        if over >= 0:
            self.rests_until = now + min(FIRST_REST_S * 2 ** min(over, 10), LONGEST_REST_S)


class _TryAgain(Exception):
    """A try that failed in a way that another may not."""

    def __init__(self, reason: str, detail: str, *, kind: str = "unavailable", after: float | None = None) -> None:
        super().__init__(detail)
        self.reason, self.detail, self.kind, self.after = reason, detail, kind, after


class Transport:
    """Sends bodies to `path` below the base URLs; balances by calls under way; retries. Knows the key, never tells it.

    `section` is the recipe's section that the settings come from: what an error tells to mend.
    """

    def __init__(
        self,
        bases: Sequence[URL],
        path: str,
        *,
        section: str = "llm",
        key: str | None,
        key_env: str,
        concurrency: int,
        timeout_s: float,
        max_retries: int,
        meter: UsageMeter,
    ) -> None:
        self._targets = [Target(base, path) for base in bases]
        self._section = section
        self._key = key
        self._key_env = key_env
        self._headers = {"Content-Type": "application/json", "User-Agent": "ser-toolkit"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout_s = timeout_s
        self._slots = asyncio.Semaphore(concurrency)
        self._max_retries = max_retries
        self._meter = meter
        self._answered = False
        self._client: Client | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def post(self, body: bytes, parse: Callable[[bytes], T]) -> T:
        """`parse(answer)` of the first whole answer, which `parse` may call malformed.

        Raises Refusal (a 4xx about this body), RemoteError (every body would fail), and after all retries RecordError
        (timeout, unavailable).
        """
        target, tries = None, 0
        while True:
            target = self._pick(avoid=target)
            try:
                async with self._slots:  # a call that waits for its next try holds no place
                    answer = await self._once(target, body, parse)
                await asyncio.sleep(0)  # whoever waited for the place sends before this answer is worked on
            except _TryAgain as exc:
                if exc.reason != "429":
                    now = asyncio.get_running_loop().time()
                    target.failed(now, unreachable=exc.reason == "no connection")
                tries += 1
                if tries > self._retries(exc):
                    raise self._given_up(exc, target, tries) from exc
                self._meter.retry(exc.reason)
                await asyncio.sleep(self._pause(exc, target, tries))
            else:
                target.worked()
                self._answered = True
                return answer

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _pick(self, *, avoid: Target | None) -> Target:
        """The target with the fewest calls under way that does not rest, another than `avoid` where there is one."""
        if len(self._targets) == 1:
            return self._targets[0]
        now = asyncio.get_running_loop().time()
        awake = [t for t in self._targets if t.rests_until <= now]
        others = [t for t in awake if t is not avoid] or awake
        if others:
            return min(others, key=lambda t: t.under_way)
        return min(self._targets, key=lambda t: t.rests_until)

    async def _once(self, target: Target, body: bytes, parse: Callable[[bytes], T]) -> T:
        target.under_way += 1
        try:
            response = await self._open().post(target.url).body_bytes(body).build().send()
            data = (await response.bytes()).to_bytes()
        except RequestError as exc:
            raise self._broken(target, exc) from exc
        finally:
            target.under_way -= 1
        if response.status != 200:
            raise self._not_ok(target, response.status, response.get_header, data)
        try:
            return parse(data)
        except (orjson.JSONDecodeError, MalformedReply) as exc:
            raise _TryAgain("malformed body", f"{exc}: {self._said(data)[0]}") from exc

    def _open(self) -> Client:
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._loop = loop
            self._client = (
                ClientBuilder()
                .default_headers(self._headers)
                .follow_redirects(False)
                .timeout(timedelta(seconds=self._timeout_s))
                .connect_timeout(timedelta(seconds=min(self._timeout_s, LONGEST_CONNECT_S)))
                .build()
            )
        return self._client

    def _broken(self, target: Target, exc: RequestError) -> Exception:
        """What a try without a whole answer means. The client's errors name addresses and causes, never headers."""
        causes = [cause["message"] for cause in exc.details["causes"] or ()]
        told = causes[-1] if causes else exc.message
        if "client error (Connect)" in causes:
            if "certificate" in told:
                return RemoteError(
                    f"{target.base}: its certificate is not trusted: {told}", "mend the certificate, or SSL_CERT_FILE"
                )
            return _TryAgain("no connection", told)
        if isinstance(exc, RequestTimeoutError):
            return _TryAgain("timeout", f"no whole reply in {self._timeout_s:g} s", kind="timeout")
        if isinstance(exc, BodyDecodeError):
            return _TryAgain("cut body", told)
        return _TryAgain("malformed body" if isinstance(exc, DecodeError) else "dropped connection", told)

    def _not_ok(self, target: Target, status: int, header: Callable[[str], str | None], data: bytes) -> Exception:
        message, code, param = self._said(data)
        refusal = Refusal(status, message, code, param)
        if refusal.is_content_filter:
            return refusal
        if status == 429 and code == "insufficient_quota":
            return RemoteError(
                f"{target.base}: the account has no quota left: {message}", "add credit, or use another model"
            )
        if status in _AGAIN or status >= 500:
            after = retry_after_s(header("Retry-After"), header("Retry-After-Ms"))
            return _TryAgain("429" if status == 429 else str(status), f"HTTP {status}: {message}", after=after)
        if status in _EVERY_REQUEST or code == "model_not_found" or status < 400:
            return self._for_every_request(target, status, message)
        return refusal

    def _for_every_request(self, target: Target, status: int, message: str) -> RemoteError:
        if status == 401:  # the server's words may quote the key
            cure = (
                f"the key in ${self._key_env} is not the right one" if self._key else f"put the key in ${self._key_env}"
            )
            return RemoteError(f"{target.base}: the key was refused (HTTP 401)", cure)
        if status in (402, 403):
            whose = f"the key in ${self._key_env}" if self._key else f"no key (${self._key_env} is not set)"
            return RemoteError(
                f"{target.base}: refused for {whose} (HTTP {status}): {message}", "ask for access, or use another model"
            )
        if status < 400:
            return RemoteError(
                f"{target.base}: answers with a redirect (HTTP {status})",
                f"set {self._section}.base_url to where the API is",
            )
        return RemoteError(
            f"{target.url}: HTTP {status}: {message}",
            f"check {self._section}.base_url (most servers' ends in /v1) and the model's name in {self._section}.model",
        )

    def _retries(self, exc: _TryAgain) -> int:
        if exc.reason == "no connection" and not self._answered:
            return min(self._max_retries, TRIES_BEFORE_FIRST_ANSWER - 1)
        return self._max_retries

    def _pause(self, exc: _TryAgain, target: Target, tries: int) -> float:
        """Seconds: exponential with full jitter, or Retry-After where no other URL can take the call meanwhile."""
        if exc.after is not None and self._pick(avoid=target) is target:
            return exc.after + random.uniform(0, 0.1)
        return random.uniform(0, min(FIRST_PAUSE_S * 2 ** (tries - 1), LONGEST_PAUSE_S))

    def _given_up(self, exc: _TryAgain, target: Target, tries: int) -> Exception:
        if exc.reason == "no connection" and all(t.unreachable for t in self._targets):
            where = ", ".join(str(t.base) for t in self._targets)
            return RemoteError(
                f"no model server answers at {where}: {exc.detail}", f"start it, or set {self._section}.base_url"
            )
        return RecordError(exc.kind, f"{target.base}, {tries} tries: {exc.detail}")

    def _said(self, data: bytes) -> tuple[str, str, str]:
        """(message, code, parameter) of an error body, whatever its shape; the key cut out."""
        try:
            error: Any = orjson.loads(data)
        except orjson.JSONDecodeError:
            error = data[:_SAID].decode("utf-8", "replace")
        if isinstance(error, dict) and error.get("error"):
            error = error["error"]
        fields = error if isinstance(error, dict) else {"message": error}
        message = fields.get("message") or fields.get("detail") or error
        code, param = fields.get("code") or fields.get("type"), fields.get("param")
        text = str(message)[:_SAID].strip()
        return text.replace(self._key, "***") if self._key else text, str(code or ""), str(param or "")


def retry_after_s(header: str | None, milliseconds: str | None = None) -> float | None:
    """Seconds to wait, from the two headers (seconds or an HTTP date), in [0, 60]; `None` where they say nothing."""
    value: float | None = None
    try:
        if milliseconds is not None:
            value = float(milliseconds) / 1000
        elif header is not None:
            value = float(header)
    except ValueError:
        try:
            value = parsedate_to_datetime(header or "").timestamp() - time()
        except ValueError:
            return None
    if value is None or math.isnan(value):
        return None
    return min(max(value, 0.0), LONGEST_RETRY_AFTER_S)
