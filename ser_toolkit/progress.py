"""What a person sees while a build runs, on stderr: a live line on a terminal, a plain line every 30 s elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .schema import Failure
from .visible import visible

if TYPE_CHECKING:
    from .llm.journaled import JournaledChat

PLAIN_EVERY_S = 30.0


class Progress:
    """Counts of the stage at hand: rows, rate, failures by kind, tokens, time left."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.failures: Counter[str] = Counter()
        self.chat: JournaledChat | None = None
        self._quiet = quiet
        self._live = None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(
                get_renderable=self._line, console=Console(stderr=True), refresh_per_second=4, transient=True
            )
        self._stage = ""
        self._before = (0, 0, 0)

    def start(self, stage: str, total: int | None) -> None:
        """Begin a stage of `total` records (None: not known)."""
        self._stage, self._total = stage, total
        self._done = self._rows = 0
        self.failures.clear()
        self._before = self._spent()
        self._began = self._said = time.monotonic()
        if self._live is not None:
            self._live.start()

    def advance(self, rows: int, failures: Iterable[Failure]) -> None:
        """One more record is through."""
        self._done += 1
        self._rows += rows
        self.failures.update(f.kind for f in failures)
        now = time.monotonic()
        if self._live is None and now - self._said >= PLAIN_EVERY_S:
            self._said = now
            self.say(self._line())

    def stop(self) -> None:
        """The stage is over; its last line stays on the screen."""
        if self._live is not None:
            self._live.stop()
        if self._stage:
            self.say(self._line())
        self._stage = ""

    def say(self, text: str) -> None:
        """A line for people."""
        if not self._quiet:
            print(visible(text), file=sys.stderr, flush=True)

    def _line(self) -> str:
        seconds = max(time.monotonic() - self._began, 1e-9)
        rate = self._done / seconds
        parts = [f"{self._stage:<10} {self._done}{'' if self._total is None else f'/{self._total}'} records"]
        parts.append(f"{self._rows} rows")
        parts.append(f"{rate:.1f}/s")
        if self.failures:
            parts.append("failures " + ", ".join(f"{k} {n}" for k, n in sorted(self.failures.items())))
        calls, replayed, tokens = (now - then for now, then in zip(self._spent(), self._before, strict=True))
        if calls or replayed:
            parts.append(f"{calls} calls, {replayed} replayed, {tokens:,} tokens")
        if self._total and 0 < self._done < self._total:
            parts.append(f"{(self._total - self._done) / rate:.0f} s left")
        elif seconds >= 1:
            parts.append(f"{seconds:.0f} s")
        return "  ".join(parts)

    def _spent(self) -> tuple[int, int, int]:
        """Calls, replayed calls and tokens of the whole run so far."""
        if self.chat is None:
            return 0, 0, 0
        meter = self.chat.meter
        return self.chat.calls, self.chat.replayed, meter.prompt_tokens + meter.completion_tokens
