"""Rewards found by name: entry points of the group `ser_toolkit.rewards`.

Each is a function `make(argument, chat, **options) -> RewardFunction`: what follows NAME: in its spec (a run's folder,
say), a chat model for rewards that judge with one, and its own options. Ours are `unified` and `perm` over a chat
model, and `unified-local` in process; whoever trains or measures a policy takes any of them alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from .. import registry
from ..errors import UsageError
from ..llm.chat import ChatModel
from .base import RewardFunction
from .perm import PermOptions, PermReward
from .unified import UnifiedOptions, UnifiedReward

Options = TypeVar("Options")
SERVED = frozenset({"unified", "perm"})
"""Those of ours that judge with a chat model."""


def open_reward(spec: str, chat: ChatModel | None = None, **options: Any) -> RewardFunction:
    """The reward that `spec` names: NAME or NAME:ARGUMENT. Raises UsageError, and what the reward itself raises."""
    name, _, argument = spec.partition(":")
    return registry.load("rewards", name.strip())(argument.strip(), chat, **options)


def make_unified(argument: str, chat: ChatModel | None, **options: Any) -> UnifiedReward:
    """`unified`: UnifiReward over a chat model."""
    return UnifiedReward(judge_of("unified", argument, chat), options_of(UnifiedOptions, "unified", options))


def make_perm(argument: str, chat: ChatModel | None, **options: Any) -> PermReward:
    """`perm`: PERM's judges over a chat model."""
    return PermReward(judge_of("perm", argument, chat), options_of(PermOptions, "perm", options))


def judge_of(name: str, argument: str, chat: ChatModel | None) -> ChatModel:
    """The chat model that a served reward judges with. Raises UsageError where there is none."""
    if argument:
        raise UsageError(f"{name}:{argument}: this reward takes no argument", f"write {name}, and name its model apart")
    if chat is None:
        raise UsageError(f"{name}: no model is named that judges", "embedded, openai:MODEL or vllm:MODEL")
    return chat


def options_of(cls: type[Options], name: str, given: Mapping[str, Any]) -> Options:
    """The options `cls` (a dataclass) of the reward `name`. Raises UsageError for one that it does not have."""
    known = [f.name for f in fields(cls)]  # pyright: ignore[reportArgumentType]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise UsageError(f"{name}: no option is called {unknown[0]!r}", f"it has: {', '.join(known)}")
    return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in given.items()})
