"""Asking again: each try is another call (next attempt, another seed), and is told which worn phrases to leave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ser_toolkit.errors import RecordError
from ser_toolkit.llm.chat import Request
from ser_toolkit.llm.structured import ASK_AGAIN
from ser_toolkit.schema import Lang

from .checks import REJECTED, SupporterRules

T = TypeVar("T")
TRIES = 3
"""How often a line of the supporter, or a whole dialogue, is asked for in one play."""


async def ask_until_good(
    ask: Callable[[int, str], Awaitable[T]], lang: Lang, rules: SupporterRules, tries: int = TRIES
) -> T:
    """What `ask(number of the try from 0, phrases to avoid)` gives, at most `tries` times; the last RecordError where
    none was good. What another try cannot mend (a withheld reply, say) is raised at once.
    """
    avoid: dict[str, None] = {}
    number = 0
    while True:
        try:
            return await ask(number, ("、" if lang == "zh" else "; ").join(avoid))
        except RecordError as exc:
            number += 1
            if number >= tries or exc.kind not in (ASK_AGAIN | REJECTED):
                raise
            if exc.kind == "stock_phrase":
                avoid |= dict.fromkeys(rules.stock(exc.text, lang))


def nth(request: Request, number: int) -> Request:
    """The request of the try with this number, from 0."""
    for _ in range(number):
        request = request.again()
    return request
