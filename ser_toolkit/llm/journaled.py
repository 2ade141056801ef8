"""A chat model whose every finished call is journaled, and never made twice.

The wrapper is itself a ChatModel, so stages do not know of it. Identical requests that meet in flight share one call.
How many calls are under way at once is the backend's affair.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ..errors import RecordError
from ..journal import Journal
from .chat import ChatModel, Reply, Request

REFUSED = "refused_request"
"""A finish reason of ours: the server refused this request, and `text` says why. Kept like any reply."""


class JournaledChat:
    """`inner` behind a journal. Counts `calls` (made now) and `replayed` (answered by the journal)."""

    def __init__(self, inner: ChatModel, journal: Journal) -> None:
        self.inner = inner
        self.identity = inner.identity
        self.model = inner.model
        self.vision = inner.vision
        self.context_tokens = inner.context_tokens
        self.languages = inner.languages
        self.calls = 0
        self.replayed = 0
        self.meter = inner.meter
        self._journal = journal
        self._in_flight: dict[str, asyncio.Future[Reply]] = {}

    async def complete(self, request: Request) -> Reply:
        """The journal's reply, or the model's, then kept."""
        key = request.key(self.identity, self.model)
        while (entry := self._journal.get(key)) is not None and entry.retired:
            request = request.again()
            key = request.key(self.identity, self.model)
        if entry is not None:
            self.replayed += 1
            return _unfold(entry.reply)
        shared = self._in_flight.get(key)
        if shared is not None:
            return _unfold(await asyncio.shield(shared))
        future = self._in_flight[key] = asyncio.get_running_loop().create_future()
        try:
            reply = await self._ask(request, key)
            self._journal.put(key, reply, stage=request.stage, record_id=request.record_id)
            future.set_result(reply)
        except BaseException as exc:
            future.set_exception(exc if isinstance(exc, Exception) else RecordError("unavailable", "interrupted"))
            future.exception()  # retrieved: nobody may be waiting
            raise
        finally:
            del self._in_flight[key]
        return _unfold(reply)

    async def _ask(self, request: Request, key: str) -> Reply:
        try:
            reply = await self.inner.complete(request)
        except RecordError as exc:
            exc.request_key = key
            if exc.kind != REFUSED:
                raise
            reply = Reply(exc.reason, REFUSED)
        self.calls += 1
        return replace(reply, request_key=key)

    async def aclose(self) -> None:
        """Close the model; the journal belongs to whoever opened it."""
        await self.inner.aclose()


def _unfold(reply: Reply) -> Reply:
    if reply.finish_reason == REFUSED:
        raise RecordError(REFUSED, reply.text, request_key=reply.request_key)
    return reply
