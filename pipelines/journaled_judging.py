"""One model asked many things from a command: opened by its spec, journaled in the command's own folder, watched."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from ser_toolkit.errors import DataError
from ser_toolkit.journal import Journal
from ser_toolkit.llm.journaled import JournaledChat
from ser_toolkit.llm.open import open_model
from ser_toolkit.progress import Progress
from ser_toolkit.recipe import Llm

T = TypeVar("T")
Work = Callable[[JournaledChat, int, Progress], Awaitable[T]]


def ask_journaled(
    settings: Llm, folder: Path, work: Work[T], progress: Progress, stage: str, total: int
) -> tuple[T, dict[str, Any]]:
    """What `work(chat, places, watcher)` returns, and what a run card says of the model.

    A second run in the same folder asks nothing that was answered; `places` is how many calls to have under way.
    """
    folder_made(folder)
    journal = Journal(folder / "journal.sqlite")
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_ask(settings, journal, work, progress, stage, total))
    finally:
        journal.close()


async def _ask(
    settings: Llm, journal: Journal, work: Work[T], progress: Progress, stage: str, total: int
) -> tuple[T, dict[str, Any]]:
    chat = JournaledChat(open_model(settings), journal)
    progress.chat = chat
    try:
        if hasattr(chat.inner, "check"):
            await chat.inner.check()  # pyright: ignore[reportAttributeAccessIssue]  (a server that can be asked)
        progress.start(stage, total)
        try:
            found = await work(chat, getattr(chat.inner, "max_concurrency", 2 * settings.concurrency), progress)
        finally:
            progress.stop()
    finally:
        await chat.aclose()
    return found, {"judge": chat.model, "calls": chat.calls, "replayed": chat.replayed}


def folder_made(folder: Path) -> None:
    """The folder is there. Raises DataError where it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise DataError(f"{folder}: cannot be made: {exc.strerror}", "name another folder: --out DIR") from exc
