"""A ledger in a thread of its own: opened there first, then asked in the order of the calls.

SQLite commits block; here they block one thread and never the server. The thread also imports what a ledger needs, so
that the first page, which needs none of it, is there at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Desk(Generic[T]):
    """What `open` gives, in its thread, from `start` or the first call on."""

    def __init__(self, open: Callable[[], T], close: Callable[[T], None]) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self._open = open
        self._close = close
        self._opened: Future[T] | None = None

    def start(self) -> Future[T]:
        """Open it, if nobody did; the future tells when it is there, or why not."""
        if self._opened is None:
            self._opened = self._pool.submit(self._open)
        return self._opened

    async def call(self, act: Callable[[T], R]) -> R:
        """The result of `act`, after all that was asked before; raises what it raises, or what `open` raised."""
        opened = self.start()
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: act(opened.result()))

    def close(self) -> None:
        """Finish what was asked, and close."""
        self._pool.shutdown()
        if self._opened is not None and self._opened.exception() is None:
            self._close(self._opened.result())
