"""UnifiReward in this process: a judge that `ser train-rm` made, or any model of transformers, scores a group at once.

    reward = LocalUnifiedReward(load("runs/judge", device="auto"))        # or open_reward("unified-local:runs/judge")
    breakdowns = await reward.score(scene, completions)

The rounds, the reward and its options are those of `ser_toolkit.rewards.unified`; here a verdict is read by likelihood
over the allowed answers, so it is never unreadable, and history and photo are computed once for the whole group.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ser_toolkit.errors import UsageError
from ser_toolkit.history import first_fitting
from ser_toolkit.llm.chat import ChatModel, Message
from ser_toolkit.releases.judging import JUDGE_INSTRUCTIONS
from ser_toolkit.rewards.base import Completion, RewardBreakdown, Scene
from ser_toolkit.rewards.open import options_of
from ser_toolkit.rewards.rounds import Answer
from ser_toolkit.rewards.unified import Plan, UnifiedOptions, plan_rounds

from .rounds import ChatEncoder, EncodedChat, JudgeChat
from .speculation import judge_encoded
from .verdicts import Judged, context_of, encode_all

if TYPE_CHECKING:
    from ser_toolkit.training.models import Loaded

ANSWER_ROOM = 64
"""Tokens kept for four answers where a history must be cut."""


class LocalUnifiedReward:
    """UnifiReward over a loaded model, as a RewardFunction. Its model serves one group at a time."""

    def __init__(self, loaded: Loaded, options: UnifiedOptions | None = None, *, max_tokens: int | None = None) -> None:
        """`max_tokens`: the longest chat, by default what the model can take; a longer one loses its first turns."""
        self._model = loaded.model
        self._sees = loaded.is_vision
        self._options = options or UnifiedOptions()
        self._max_tokens = max_tokens or context_of(loaded.model)
        self._encoder = ChatEncoder(loaded.processing, self._max_tokens)
        self._turn = threading.Lock()

    async def score(self, scene: Scene, completions: Sequence[Completion]) -> list[RewardBreakdown]:
        """One breakdown a completion: components step1, step2, step3, preference (all in [0, 1]), format (0 or 1)."""
        return await asyncio.to_thread(self.score_now, scene, completions)

    def score_now(self, scene: Scene, completions: Sequence[Completion]) -> list[RewardBreakdown]:
        """The same, for callers without an event loop."""
        with self._turn:
            prepared = [self._fitting(scene, completion) for completion in completions]
            chats = [chat for _, own, _ in prepared for chat in own]
            judged = iter(judge_encoded(self._model, chats, [e for *_, encoded in prepared for e in encoded]))
        return [plan.breakdown(_answers(plan, [next(judged) for _ in own]), self._options) for plan, own, _ in prepared]

    def _fitting(self, scene: Scene, completion: Completion) -> tuple[Plan, list[JudgeChat], list[EncodedChat | str]]:
        """What is asked about a completion, and its tokens; the history loses its first turns only where it must."""
        plan = plan_rounds(scene, completion, self._options)
        chats = self._chats(scene, plan)
        encoded = encode_all(self._encoder, chats)
        if any(isinstance(e, str) for e in encoded) and (start := self._first_turn(scene, plan)):
            plan = plan_rounds(scene, completion, self._options, start)
            chats = self._chats(scene, plan)
            encoded = encode_all(self._encoder, chats)
        return plan, chats, encoded

    def _chats(self, scene: Scene, plan: Plan) -> list[JudgeChat]:
        """The chat about one completion, and the one with the two replies exchanged where both orders count."""
        if not plan.rounds:
            return []
        asked = tuple(r.question for r in plan.rounds)
        allowed = tuple(r.allowed for r in plan.rounds)
        both = [asked, *([(*asked[:-1], plan.rounds[-1].beside)] if plan.rounds[-1].beside else [])]
        images = scene.images if self._sees else ()
        return [JudgeChat(JUDGE_INSTRUCTIONS[scene.lang], questions, allowed, images) for questions in both]

    def _first_turn(self, scene: Scene, plan: Plan) -> int:
        def frame() -> list[Message]:
            bare = plan_rounds(scene, plan.completion, self._options, len(scene.turns))
            return [
                Message("system", JUDGE_INSTRUCTIONS[scene.lang]),
                *(Message("user", r.question) for r in bare.rounds),
            ]

        return first_fitting(scene.turns, scene.lang, self._max_tokens, ANSWER_ROOM, frame)


def make_local(argument: str, chat: ChatModel | None, **options: Any) -> LocalUnifiedReward:
    """`unified-local:MODEL`: UnifiReward with a model in this process (a folder, a run, or an id on the Hub)."""
    from ser_toolkit.training.models import load

    if not argument:
        raise UsageError(
            "unified-local: no model is named that judges", "write unified-local:RUN, a run of ser train-rm"
        )
    return LocalUnifiedReward(load(argument, device="auto"), options_of(UnifiedOptions, "unified-local", options))


def _answers(plan: Plan, judged: Sequence[Judged]) -> dict[int, tuple[Answer, Answer | None]]:
    """What the judge said, by round number."""
    if not judged:
        return {}
    own, *exchanged = [_rounds(one, len(plan.numbers)) for one in judged]
    beside = [None] * (len(own) - 1) + [exchanged[0][-1] if exchanged else None]
    return dict(zip(plan.numbers, zip(own, beside, strict=True), strict=True))


def _rounds(judged: Judged, count: int) -> list[Answer]:
    if judged.trouble:
        return [Answer(None, note=judged.trouble)] * count
    return [Answer(v, chances) for v, chances in zip(judged.verdicts, judged.rounds, strict=True)]
