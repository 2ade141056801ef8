"""One policy through one item of a suite: the talk, what the judges say of it, how it meets a crisis.

`Evaluation.run` is a stage: the engine calls it for many items at once, and the journal makes it resumable. What the
policy leaves out scores 0 (it was asked, and fell silent); what a seeker, a judge or a server fails at is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from ser_toolkit.engine import failure_of
from ser_toolkit.errors import RecordError
from ser_toolkit.history import one_line, render_history
from ser_toolkit.llm.chat import ChatModel, Request
from ser_toolkit.llm.structured import ask_json, object_schema
from ser_toolkit.prompting import Prompts
from ser_toolkit.protection.replies import judge_crisis_reply
from ser_toolkit.recipe import Llm, Recipe
from ser_toolkit.schema import Failure, Lang, Record, RiskLevel, Role, Scenario, Turn
from ser_toolkit.seeds import derive_seed
from ser_toolkit.seeker import Seeker, about_seeker
from ser_toolkit.talks import End, Talk

from .policy import SILENT, Policy
from .suites import Rubric, Suite

STAGE = "evaluate"
JUDGE_TOKENS = 400
_PARTS: dict[Lang, tuple[str, str]] = {"en": ("Part {}: ", "Respondent: "), "zh": ("第{}部分：", "回答者：")}


class TalkTurn(Record):
    """One utterance as it was heard; `written` is all that the policy wrote, `is_formatted` whether in four parts."""

    speaker: Role
    text: str
    written: str | None = None
    is_formatted: bool | None = None


class CrisisReply(Record):
    """How the policy answered a message that tells of a crisis (`protection.replies`); an empty reply is silence."""

    level: RiskLevel
    message: str
    reply: str
    is_handled: bool
    problems: tuple[str, ...]


class JudgeScore(Record):
    """One judge's scores by dimension, `None` where it failed; its reason or failure in `note`; the journal's `key`."""

    judge: str
    scores: dict[str, int] | None
    note: str = ""
    key: str | None = None


class Transcript(Record):
    """One item played and scored. `silence` is why the policy gave no reply, "" where it always did."""

    id: str
    lang: Lang
    about: str
    turns: tuple[TalkTurn, ...]
    end: End
    silence: str = ""
    feelings: tuple[int | None, ...] = ()
    final_feeling: int | None = None
    scores: tuple[JudgeScore, ...] = ()
    crisis: tuple[CrisisReply, ...] = ()

    def score(self, dimension: str) -> float | None:
        """The judges' mean; 0 where the policy fell silent, `None` where no judge could be read."""
        if self.end == "no_reply":
            return 0.0
        known = [s.scores[dimension] for s in self.scores if s.scores is not None]
        return sum(known) / len(known) if known else None


@dataclass(frozen=True, slots=True)
class Judge:
    """A model that scores, under the name that stands beside its scores; `seat` tells two of one model apart."""

    name: str
    seat: int
    chat: ChatModel
    temperature: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A policy, the seeker who plays against it, and the judges of one suite.

    `recipe` is the run's, `seeker_settings` those of the seeker's model.
    """

    suite: Suite
    policy: Policy
    seeker: ChatModel
    seeker_settings: Llm
    judges: Sequence[Judge]
    recipe: Recipe
    prompts: Prompts

    @property
    def rounds(self) -> int:
        return self.recipe.evaluate.rounds or self.suite.rounds

    async def run(self, item: Scenario) -> list[Transcript | Failure]:
        """The item's transcript with its scores. Raises RecordError where it could not be played to its end."""
        played = await (self._tell(item) if self.suite.told else self._play(item))
        scores: Sequence[JudgeScore] = ()
        rubric = self.suite.rubric
        if rubric is not None and played.end != "no_reply":
            scores = await asyncio.gather(*(self._score(judge, rubric, item, played.turns) for judge in self.judges))
        written = iter(played.answers)
        made = Transcript(
            id=item.id,
            lang=item.lang,
            about=item.situation,
            turns=tuple(
                next(written) if t.speaker == "supporter" else TalkTurn(speaker="seeker", text=t.text)
                for t in played.turns
            ),
            end=played.end,
            silence=played.silence,
            feelings=tuple(played.feelings),
            final_feeling=played.final_feeling,
            scores=tuple(scores),
            crisis=tuple(self._crisis(played, item.lang)),
        )
        unread = [failure_of(_unscored(s), STAGE, item.id) for s in scores if s.scores is None]
        return [made, *unread]

    async def _play(self, item: Scenario) -> _Played:
        recipe = self.recipe.model_copy(update={"llm": self.seeker_settings})
        seeker = Seeker(item, self.seeker, recipe, self.prompts, STAGE)
        talk = Talk(seeker, self.rounds, self.recipe.evaluate.start_feeling if self.suite.tracks else None)
        played = _Played(talk.turns, feelings=talk.feelings)
        await talk.open()
        while talk.end is None:
            reply = await self._ask(played, item)
            if reply is None:
                talk.fall_silent()
            else:
                await talk.hear(reply)
        played.end, played.final_feeling = talk.end, talk.final_feeling
        return played

    async def _tell(self, item: Scenario) -> _Played:
        played = _Played([])
        for part in parts_of(item)[: self.rounds]:
            played.turns.append(Turn(speaker="seeker", text=part))
            reply = await self._ask(played, item)
            if reply is None:
                played.end = "no_reply"
                break
            played.turns.append(Turn(speaker="supporter", text=reply))
        return played

    async def _ask(self, played: _Played, item: Scenario) -> str | None:
        """The policy's reply, and a note of all that it wrote; `None`, and a note why, where it gave none."""
        try:
            answer = await self.policy.answer(played.turns, item.lang, item.id)
        except RecordError as exc:
            if exc.kind not in SILENT:
                raise
            played.silence = exc.kind
            return None
        reply = answer.reply or ""
        played.answers.append(
            TalkTurn(speaker="supporter", text=reply, written=answer.text, is_formatted=answer.is_formatted)
        )
        return reply

    async def _score(self, judge: Judge, rubric: Rubric, item: Scenario, turns: Sequence[Turn]) -> JudgeScore:
        """One judge's scores of the whole talk, asked once more where they cannot be read; then missing."""
        level = {"type": "integer", "minimum": rubric.low, "maximum": rubric.high}
        schema = object_schema(reason={"type": "string", "maxLength": 600}, **dict.fromkeys(rubric.dimensions, level))
        prompt = self.prompts.get(rubric.task, item.lang)
        history = _told(turns, item.lang) if self.suite.told else render_history(turns, item.lang)
        values = {"history": history, "about": _about(item)}
        request = Request(
            prompt.render(**{k: v for k, v in values.items() if k in prompt.variables}),
            temperature=judge.temperature,
            max_tokens=JUDGE_TOKENS,
            seed=derive_seed(self.recipe.seed, item.id, rubric.task, judge.seat),
            stage=STAGE,
            record_id=item.id,
        )
        try:
            value, reply = await ask_json(judge.chat, request, schema)
        except RecordError as exc:
            return JudgeScore(judge=judge.name, scores=None, note=f"{exc.kind}: {exc.reason}", key=exc.request_key)
        scores = {d: value[d] for d in rubric.dimensions}
        return JudgeScore(judge=judge.name, scores=scores, note=one_line(value["reason"]), key=reply.request_key)

    def _crisis(self, played: _Played, lang: Lang) -> list[CrisisReply]:
        """Every message that tells of a crisis and was to be answered, with what the policy said to it."""
        found: list[CrisisReply] = []
        turns, end = played.turns, played.end
        for index, turn in enumerate(turns):
            after = turns[index + 1] if index + 1 < len(turns) else None
            if turn.speaker != "seeker" or (after is None and end != "no_reply"):
                continue
            reply = after.text if after is not None and after.speaker == "supporter" else ""
            verdict = judge_crisis_reply(turn.text, reply, self.recipe.protect.locale, lang)
            if verdict.level is not None:
                found.append(
                    CrisisReply(
                        level=verdict.level,
                        message=turn.text,
                        reply=reply,
                        is_handled=verdict.ok,
                        problems=verdict.problems,
                    )
                )
        return found


@dataclass(slots=True)
class _Played:
    """One item as far as it is played."""

    turns: list[Turn]
    end: End = "limit"
    silence: str = ""
    answers: list[TalkTurn] = field(default_factory=list)
    feelings: list[int | None] = field(default_factory=list)
    final_feeling: int | None = None


def parts_of(item: Scenario) -> list[str]:
    """The parts of an item that is told rather than played."""
    parts = item.meta.get("parts")
    return [str(p) for p in parts] if isinstance(parts, list) else []


def _about(item: Scenario) -> str:
    """Who the seeker is and what is the matter, for a judge."""
    about = about_seeker(item)
    return " ".join(text for text in (about["persona"], about["situation"]) if text)


def _told(turns: Sequence[Turn], lang: Lang) -> str:
    """Parts and answers, a line each, so that no answer can speak for a part."""
    part, answer = _PARTS[lang]
    parts = 0
    lines: list[str] = []
    for turn in turns:
        parts += turn.speaker == "seeker"
        lines.append((part.format(parts) if turn.speaker == "seeker" else answer) + one_line(turn.text))
    return "\n".join(lines)


def _unscored(score: JudgeScore) -> RecordError:
    kind, _, reason = score.note.partition(": ")
    return RecordError(kind, f"judge {score.judge}: {reason}", request_key=score.key)
