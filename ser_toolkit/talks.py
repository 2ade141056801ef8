"""A talk between a simulated seeker and a supporter who is asked for one reply at a time.

Whoever speaks for the supporter (a policy under evaluation, a trainer's rollout) opens the talk and hands each reply to
`hear`, until `end` says why it is over. Where a feeling is tracked, the seeker feels before it speaks, as in
SAGE and RLVER (METHOD 5): the talk ends at 0, at 100, on a farewell, or after `max_rounds` replies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from .schema import Turn
from .seeker import Seeker

End = Literal["relieved", "gave_up", "goodbye", "limit", "no_reply"]
"""Why a talk is over: the feeling is 100, or 0; a farewell; the rounds are used up; the supporter said nothing."""
LOWEST, HIGHEST = 0, 100


class Talk:
    """One play of a scenario. `turns` is what was said, `feelings` the feeling after each of the supporter's replies.

    `start` is the feeling that the seeker comes with, `None`: it is not tracked. A feeling that could not be read is
    `None`, and the last one that could goes on. `before` is a talk that this one goes on with; the seeker spoke last in
    it, and need not open.
    """

    def __init__(self, seeker: Seeker, max_rounds: int, start: int | None = None, before: Sequence[Turn] = ()) -> None:
        self.seeker, self.max_rounds, self.start = seeker, max_rounds, start
        self.turns: list[Turn] = list(before)
        self.rounds = 0
        """Replies that were heard."""
        self.feelings: list[int | None] = []
        self.end: End | None = None

    @property
    def feeling(self) -> int | None:
        """Where the seeker stands now, as far as is known; `None` where it is not tracked."""
        return next((f for f in reversed(self.feelings) if f is not None), self.start)

    @property
    def final_feeling(self) -> int | None:
        """The feeling in the end: 0 where the supporter fell silent, `None` where the last one could not be read."""
        if self.start is None:
            return None
        if self.end == "no_reply":
            return LOWEST
        return self.feelings[-1] if self.feelings else None

    async def open(self) -> None:
        """The seeker's opening. Raises RecordError."""
        await self._say()

    async def hear(self, reply: str) -> None:
        """Take the supporter's reply; the seeker feels, and speaks unless the talk is over. Raises RecordError."""
        self.turns.append(Turn(speaker="supporter", text=reply))
        self.rounds += 1
        feeling = self.feeling
        if feeling is not None:
            self.feelings.append(await self.seeker.feel(self.turns, feeling))
            if self.feeling in (LOWEST, HIGHEST):
                self.end = "relieved" if self.feeling == HIGHEST else "gave_up"
                return
        if self.rounds >= self.max_rounds:
            self.end = "limit"
            return
        await self._say()

    def fall_silent(self) -> None:
        """The supporter has no reply: the talk is over."""
        self.end = "no_reply"

    async def _say(self) -> None:
        line = await self.seeker.say(self.turns, self.feeling)
        if line.text:
            self.turns.append(Turn(speaker="seeker", text=line.text))
        if line.is_end:
            self.end = "goodbye"
