"""Rewards without a judge: a function of one's own, and the simulated seeker's last emotion.

A function is handed just the arguments that it names, so that a reward is a line or two:

    def brief(reply):
        return 1.0 if len(reply.split()) <= 40 else 0.0

It answers a number, a truth value, or `None` for what it cannot score (missing, not 0), and may be `async`. An ordinary
one runs in a thread, so that a slow one blocks nothing. May import: the ground.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .base import Completion, RewardBreakdown, Scene

BEST_EMOTION = 100
ARGUMENTS: dict[str, Callable[[Scene, Completion], Any]] = {
    "completion": lambda s, c: c,
    "text": lambda s, c: c.text,
    "reply": lambda s, c: c.reply,
    "analysis": lambda s, c: c.analysis,
    "steps": lambda s, c: c.parsed.steps,
    "tokens": lambda s, c: c.tokens,
    "emotion": lambda s, c: getattr(c, "emotion", None),
    "scene": lambda s, c: s,
    "id": lambda s, c: s.id,
    "lang": lambda s, c: s.lang,
    "turns": lambda s, c: s.turns,
    "situation": lambda s, c: s.situation,
    "persona": lambda s, c: s.persona,
    "reference": lambda s, c: s.reference,
}
"""What a function may name, and what it is then handed."""
_MOST_THREADS = 64


class EmotionReward:
    """RLVER's reward: the simulated seeker's last emotion / 100, in [0, 1]; missing where nobody was simulated."""

    async def score(self, scene: Scene, completions: Sequence[Completion]) -> list[RewardBreakdown]:
        felt = [getattr(c, "emotion", None) for c in completions]
        return [
            RewardBreakdown(None, {}, ("emotion: no seeker was simulated",) if e is None else ())
            if e is None
            else RewardBreakdown(min(max(e / BEST_EMOTION, 0.0), 1.0))
            for e in felt
        ]


class FunctionReward:
    """A function of one's own as a reward. Raises UsageError for an argument that nobody can hand it."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        named = inspect.signature(function).parameters.values()
        required = [
            p.name for p in named if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        ]
        unknown = [n for n in required if n not in ARGUMENTS]
        if unknown or any(p.kind is p.POSITIONAL_ONLY for p in named):
            raise UsageError(
                f"the reward {name} wants {', '.join(unknown) or 'arguments without a name'}",
                f"it may name: {', '.join(ARGUMENTS)}",
            )
        self._function = function
        self._name = name
        self._wanted = [p.name for p in named if p.name in ARGUMENTS]
        self._is_async = inspect.iscoroutinefunction(function)
        self._threads = None if self._is_async else ThreadPoolExecutor(_MOST_THREADS, thread_name_prefix=name)

    async def score(self, scene: Scene, completions: Sequence[Completion]) -> list[RewardBreakdown]:
        return list(await asyncio.gather(*(self._one(scene, c) for c in completions)))

    async def _one(self, scene: Scene, completion: Completion) -> RewardBreakdown:
        given = {name: ARGUMENTS[name](scene, completion) for name in self._wanted}
        try:
            if self._is_async:
                value = await self._function(**given)
            else:
                value = await asyncio.get_running_loop().run_in_executor(self._threads, lambda: self._function(**given))
            value = None if value is None else float(value)
        except Exception as exc:
            raise UsageError(
                f"the reward {self._name} failed on {scene.id}: {type(exc).__name__}: {exc}",
                "return None for what it cannot score",
            ) from exc
        if value is not None and not math.isfinite(value):
            return RewardBreakdown(None, {}, (f"{self._name}: {value} is no score",))
        return RewardBreakdown(value)


def load_function(spec: str) -> FunctionReward:
    """The reward at FILE.py:FUNCTION; its name is the function's. Raises UsageError that says what is wrong."""
    file, _, name = spec.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"{spec}: no such file", "write FILE.py:FUNCTION")
    found = importlib.util.spec_from_file_location(f"_ser_reward_{path.stem}", path)
    if found is None or found.loader is None:
        raise UsageError(f"{file}: not a Python file", "write FILE.py:FUNCTION")
    module = importlib.util.module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except Exception as exc:
        raise UsageError(f"{file} cannot be loaded: {type(exc).__name__}: {exc}") from exc
    function = getattr(module, name, None)
    if not callable(function):
        known = sorted(n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__)
        raise UsageError(f"{file} has no function {name!r}", f"it has: {', '.join(known) or 'none'}")
    return FunctionReward(function, name)
