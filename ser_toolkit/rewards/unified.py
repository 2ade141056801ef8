"""UnifiReward: one judge for process and outcome, served by any chat model, as a reward over a group.

    r = 0.5 * (s1 + s2 + s3) + 0.5 * pref + 1.0 * format, in [0, 3]            PEER, arXiv 2508.09521, section 4.1

A completion is judged in one chat of four dependent rounds: each step True or False, then its reply against the scene's
reference, by position. The completions of a group are judged at once. A part that the policy did not write scores 0
unasked; an answer that cannot be read, even when asked again, is missing. What the paper leaves open is an option.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..history import first_fitting
from ..llm.chat import ChatModel, Message
from ..reasoning import format_ok
from ..releases.judging import JUDGE_INSTRUCTIONS, REPLY_ANSWERS, STEP_ANSWERS, judge_rounds, reply_question
from ..seeds import derive_seed
from ..verdicts import Position, Shown, is_pair, unblinded
from .aggregate import Score, peer_reward
from .base import Completion, RewardBreakdown, Scene
from .rounds import ANSWER_TOKENS, Answer, Asking, Round, ask_rounds

REPLY_ROUND = 4
VERDICT_OF: dict[str, Shown] = {answer: verdict for verdict, answer in REPLY_ANSWERS.items()}
"""The judge's whole answer -> verdict."""
ALLOWED: tuple[tuple[str, ...], ...] = (STEP_ANSWERS,) * 3 + (tuple(REPLY_ANSWERS.values()),)
"""The allowed answers of the four rounds."""


@dataclass(frozen=True, slots=True)
class UnifiedOptions:
    """What the paper leaves open.

    `soft`: probabilities instead of verdicts. `position`: where the policy's reply stands: "random" (by seed, scene and
    completion) or "both" (the mean over both orders). `require_box`: whether the format asks for the boxed reply.
    `max_tokens`: the longest answer of a served judge; more for one that thinks aloud.
    """

    soft: bool = False
    position: Literal["random", "both"] = "random"
    require_box: bool = True
    seed: int = 0
    max_tokens: int = ANSWER_TOKENS


class UnifiedReward:
    """UnifiReward over any chat model, as a RewardFunction."""

    def __init__(self, chat: ChatModel, options: UnifiedOptions | None = None) -> None:
        self._chat = chat
        self._options = options or UnifiedOptions()

    async def score(self, scene: Scene, completions: Sequence[Completion]) -> list[RewardBreakdown]:
        """One breakdown a completion: components step1, step2, step3, preference (each in [0, 1]) and format (0 or 1).
        All completions are judged at once.
        """
        return list(await asyncio.gather(*(self._one(scene, c) for c in completions)))

    async def _one(self, scene: Scene, completion: Completion) -> RewardBreakdown:
        options = self._options
        plan = plan_rounds(scene, completion, options)
        if not plan.rounds:
            return plan.breakdown({}, options)
        start = first_fitting(
            scene.turns,
            scene.lang,
            self._chat.context_tokens,
            options.max_tokens * len(plan.rounds),
            lambda: _asked(plan_rounds(scene, completion, options, len(scene.turns))),
        )
        if start:
            plan = plan_rounds(scene, completion, options, start)
        asking = Asking(scene.id, options.seed, options.max_tokens, options.soft)
        answers = await ask_rounds(self._chat, JUDGE_INSTRUCTIONS[scene.lang], plan.rounds, asking, scene.images)
        return plan.breakdown(dict(zip(plan.numbers, answers, strict=True)), options)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a judge is asked about one completion, and what is known unasked.

    `numbers` are those of `rounds`, 1 to 4; `known` the scores of the other parts by number; `position` is where the
    policy's reply stands in round 4 (in `beside` it stands in the other place).
    """

    completion: Completion
    rounds: tuple[Round, ...]
    numbers: tuple[int, ...]
    known: Mapping[int, Score]
    position: Position
    notes: tuple[str, ...] = ()

    def breakdown(
        self, answers: Mapping[int, tuple[Answer, Answer | None]], options: UnifiedOptions
    ) -> RewardBreakdown:
        """The reward, from the answers by round number."""
        notes = list(self.notes)
        scores = dict(self.known)
        for number, (answer, beside) in answers.items():
            if number < REPLY_ROUND:
                scores[number] = _scored(answer, {STEP_ANSWERS[0]: 1.0}, options.soft, f"step {number}", notes)
                continue
            found = [_scored(answer, winning(self.position), options.soft, "reply", notes)]
            if beside is not None:
                other: Position = 2 if self.position == 1 else 1
                found.append(_scored(beside, winning(other), options.soft, "reply, exchanged", notes))
            known = [f for f in found if f is not None]
            scores[number] = sum(known) / len(known) if len(known) == len(found) else None
        steps = [scores[n] for n in (1, 2, 3)]
        preference = scores[REPLY_ROUND]
        is_whole = format_ok(self.completion.text, options.require_box)
        components = {f"step{n}": scores[n] for n in (1, 2, 3)}
        components |= {"preference": preference, "format": float(is_whole)}
        return RewardBreakdown(peer_reward(steps, preference, is_whole), components, tuple(notes))


def plan_rounds(scene: Scene, completion: Completion, options: UnifiedOptions, start: int = 0) -> Plan:
    """The rounds that a judge is asked about a completion, the history from turn `start` on.

    An absent step or reply is 0. A reply that is the reference is as good, unasked; without a reference the preference
    is missing, and a note says so.
    """
    parsed, reply = completion.parsed, completion.reply
    position = drawn_position(options.seed, scene.id, completion.text)
    known: dict[int, Score] = {n: 0.0 for n, step in enumerate(parsed.steps, 1) if not step}
    notes: tuple[str, ...] = ()
    pair: tuple[str, str] | None = None
    if not reply:
        known[REPLY_ROUND] = 0.0
    elif not scene.reference.strip():
        known[REPLY_ROUND], notes = None, ("reply: the scene has no reference to compare it with",)
    elif not is_pair(reply, scene.reference):
        known[REPLY_ROUND] = 1.0
    else:
        pair = (reply, scene.reference) if position == 1 else (scene.reference, reply)
    asked = judge_rounds(scene.turns[start:], parsed.steps, pair, scene.lang)
    rounds: list[Round] = []
    for number, question in asked:
        beside = ""
        if number == REPLY_ROUND and pair is not None and options.position == "both":
            beside = question.removesuffix(reply_question(pair, scene.lang)) + reply_question(
                (pair[1], pair[0]), scene.lang
            )
        rounds.append(Round(question, ALLOWED[number - 1], beside))
    return Plan(completion, tuple(rounds), tuple(n for n, _ in asked), known, position, notes)


def _asked(plan: Plan) -> list[Message]:
    return [Message("user", r.question) for r in plan.rounds]


def drawn_position(seed: int, scene_id: str, text: str) -> Position:
    """Where the policy's reply stands: by a hash, half and half."""
    return 1 if derive_seed(seed, "position", scene_id, text) % 2 == 0 else 2


def winning(position: Position) -> dict[str, float]:
    """Answer of round 4 -> 1 where the reply at `position` is better than, or almost equal to, the other one."""
    return {a: 1.0 for a, v in VERDICT_OF.items() if unblinded(v, position) in ("generated", "almost_equal")}


def _scored(answer: Answer, worth: Mapping[str, float], soft: bool, name: str, notes: list[str]) -> Score:
    """The answer's worth, or the expected one; `None` where the answer, or its probabilities, are missing."""
    if answer.answer is None:
        notes.append(f"{name}: {answer.note}")
        return None
    if not soft:
        return worth.get(answer.answer, 0.0)
    if answer.chances is None:
        notes.append(f"{name}: the server gave no log-probabilities for a soft score")
        return None
    return sum(chance * worth.get(a, 0.0) for a, chance in answer.chances.items())
