"""A policy as its users meet it: a chat model that is given a talk, and the reply that comes out of what it writes.

The prompt is the one that training and a release use (`releases.prompting`): a policy is asked as it was taught. It may
write the three steps and a boxed reply, or answer plainly; only the reply reaches the seeker. Needs no torch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ser_toolkit.errors import RecordError
from ser_toolkit.history import first_fitting
from ser_toolkit.llm.chat import ChatModel, Message, Request, usable
from ser_toolkit.prompting import Prompts
from ser_toolkit.reasoning import OUT_OF_ORDER, parse_trace
from ser_toolkit.reasoning_parse import find_boxes
from ser_toolkit.recipe import Llm
from ser_toolkit.releases.prompting import INSTRUCTIONS, policy_prompt
from ser_toolkit.schema import Dialogue, Lang, Source, Turn
from ser_toolkit.seeds import derive_seed

Style = Literal["ser", "plain", "bare"]
"""What it is told: to write the three steps and the reply; to answer as one speaks; nothing at all."""
SILENT = frozenset({"truncated", "empty_reply", "filtered", "format"})
"""Failures that are the policy's own: it was asked, and no reply of it can be shown. Others are its server's."""
_THOUGHT = re.compile(r"\A\s*<think>(?:.*?</think>|.*\Z)\s*", re.DOTALL)
TRIES = 2


@dataclass(frozen=True, slots=True)
class Answer:
    """What a policy wrote: the whole text, its three steps where it wrote them, and the reply (`None`: there is none).

    `is_formatted`: all three steps in order and a boxed reply. `key` is the journal's.
    """

    text: str
    reply: str | None
    steps: tuple[str | None, str | None, str | None]
    is_formatted: bool
    key: str | None = None


def read_answer(text: str, key: str | None = None) -> Answer:
    """The parts of what a policy wrote. Without any step, the text itself is the reply (or its box); with steps and no
    reply, there is none. A reasoning model's own thoughts in front are passed over. Never raises.
    """
    said = _THOUGHT.sub("", text, count=1)
    parsed = parse_trace(said)
    reply = parsed.reply
    if reply is None and not any(parsed.steps):
        boxed = [c.strip() for c in find_boxes(said).contents if c.strip()]
        reply = boxed[-1] if boxed else said.strip() or None
    in_order = OUT_OF_ORDER not in parsed.problems
    return Answer(text, reply, parsed.steps, parsed.complete and parsed.boxed and in_order, key)


@dataclass(frozen=True, slots=True)
class Policy:
    """A chat model in the supporter's place. `settings` are its temperature, top_p and max_tokens."""

    chat: ChatModel
    settings: Llm
    prompts: Prompts
    style: Style = "ser"
    seed: int = 0
    stage: str = "policy"

    async def answer(self, turns: Sequence[Turn], lang: Lang, record_id: str, salt: Sequence[str | int] = ()) -> Answer:
        """Its answer to a talk that the seeker spoke last in; asked once more where none can be shown.

        Raises RecordError: one of `SILENT` where it gave no reply, else what its server raises.
        """
        request = self._request(turns, lang, record_id, salt)
        failure = RecordError("empty_reply", "it was not asked")
        for _ in range(TRIES):
            try:
                reply = usable(await self.chat.complete(request))
                answer = read_answer(reply.text, reply.request_key)
                if answer.reply is not None:
                    return answer
                failure = RecordError(
                    "format", "there are steps, and no reply", text=reply.text, request_key=reply.request_key
                )
            except RecordError as exc:
                if exc.kind not in SILENT:
                    raise
                failure = exc
                if exc.kind == "filtered":
                    break
            request = request.again()
        raise failure

    def _request(self, turns: Sequence[Turn], lang: Lang, record_id: str, salt: Sequence[str | int]) -> Request:
        limit = self.settings.max_tokens
        start = first_fitting(turns, lang, self.chat.context_tokens, limit, lambda: self._system(lang))
        return Request(
            self.messages(turns, lang, start),
            temperature=self.settings.temperature,
            top_p=self.settings.top_p,
            max_tokens=limit,
            seed=derive_seed(self.seed, record_id, self.stage, len(turns), *salt),
            stage=self.stage,
            record_id=record_id,
        )

    def messages(self, turns: Sequence[Turn], lang: Lang, start: int = 0) -> tuple[Message, ...]:
        """The chat that it is asked with, of the turns from `start` on."""
        chat = policy_prompt(talk_dialogue(turns, lang), len(turns), start).messages
        return (*self._system(lang), *(Message(m["role"], m["content"]) for m in chat[1:]))  # type: ignore[arg-type]

    def _system(self, lang: Lang) -> tuple[Message, ...]:
        if self.style == "ser":
            return (Message("system", INSTRUCTIONS[lang]),)
        if self.style == "bare":
            return ()
        return tuple(m for m in self.prompts.get("policy_plain", lang).render() if m.role == "system")


def talk_dialogue(turns: Sequence[Turn], lang: Lang) -> Dialogue:
    """A talk in progress as the dialogue that prompts are made from; no text of it opens or ends a message."""
    safe = tuple(t.model_copy(update={"text": t.text.replace("<|", "< |").replace("|>", "| >")}) for t in turns)
    return Dialogue(id="talk", root_id="talk", lang=lang, source=Source(format="talk"), turns=safe)
