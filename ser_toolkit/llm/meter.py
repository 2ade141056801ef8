"""What the calls of a run have cost: calls, tokens, retries by reason, and money where the recipe has prices."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ..recipe import Prices
from .chat import Usage


@dataclass(slots=True)
class UsageMeter:
    """Totals that only grow. A backend feeds its own, as its `meter`; replayed calls never reach it."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    retries: Counter[str] = field(default_factory=Counter)

    def add(self, usage: Usage) -> None:
        """Count one answered call."""
        self.calls += 1
        self.prompt_tokens += usage.prompt_tokens
        self.completion_tokens += usage.completion_tokens

    def retry(self, reason: str) -> None:
        """Count one try that failed and is made again, by a short stable word ("429", "cut body")."""
        self.retries[reason] += 1

    def cost(self, prices: Prices | None) -> float | None:
        """US dollars so far; `None`, not 0, where no prices are known."""
        if prices is None:
            return None
        return (self.prompt_tokens * prices.prompt + self.completion_tokens * prices.completion) / 1e6
