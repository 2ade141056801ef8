"""Each stage's line tells of that stage alone."""

from __future__ import annotations

from typing import Any

from ser_toolkit.llm.meter import UsageMeter
from ser_toolkit.progress import Progress
from ser_toolkit.schema import Failure


class Chat:
    """The counts that a progress reads of a chat."""

    def __init__(self) -> None:
        self.calls = self.replayed = 0
        self.meter = UsageMeter()


def test_failures_calls_and_tokens_are_the_stage_s_own(capsys: Any):
    progress = Progress()
    progress.chat = chat = Chat()  # pyright: ignore[reportAttributeAccessIssue]
    progress.start("import", None)
    progress.advance(0, [Failure(kind="unreadable", stage="import", reason="x")])
    progress.stop()
    progress.start("filter", 3)
    chat.calls, chat.replayed, chat.meter.prompt_tokens = 3, 1, 1500
    for _ in range(3):
        progress.advance(1, [])
    progress.stop()
    progress.start("reason", 2)
    chat.calls = 5
    progress.advance(1, [])
    progress.stop()
    first, second, third = capsys.readouterr().err.splitlines()
    assert "1 records" in first and "0 rows" in first and "failures unreadable 1" in first
    assert "3/3 records" in second and "failures" not in second and "3 calls, 1 replayed, 1,500 tokens" in second
    assert "1/2 records" in third and "2 calls, 0 replayed, 0 tokens" in third
