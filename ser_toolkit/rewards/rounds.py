"""The judge's rounds over any chat model: dependent questions, each with its allowed answers.

A round's answer stands in the chat of the next one. An answer that cannot be read is asked for once more, then missing;
so are those of the rounds after it, which would have hung on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import RecordError
from ..llm.chat import ChatModel, Image, Message, Request, usable
from ..llm.structured import ASK_AGAIN
from ..seeds import derive_seed
from .answers import answer_probabilities, read_answer

STAGE = "judge"
ANSWER_TOKENS = 64
TOP_LOGPROBS = 20


@dataclass(frozen=True, slots=True)
class Round:
    """One question and its allowed answers. `beside` is the same question asked another way (the replies exchanged):
    both are asked after the same rounds, and only the first answer goes into the chat.
    """

    question: str
    allowed: tuple[str, ...]
    beside: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a judge said in one round: one of the allowed answers, `None` where it is missing, and `note` says why.

    `chances`: answer -> probability, where log-probabilities were asked for and given.
    """

    answer: str | None
    chances: Mapping[str, float] | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Asking:
    """How to ask: answer's token limit, seed, whether for log-probabilities, and whose record it is in the journal."""

    record_id: str
    seed: int = 0
    max_tokens: int = ANSWER_TOKENS
    logprobs: bool = False


async def ask_rounds(
    chat: ChatModel, system: str, rounds: Sequence[Round], asking: Asking, images: tuple[Image, ...] = ()
) -> list[tuple[Answer, Answer | None]]:
    """By round: the answer, and that to `beside` where there is one. `images` stand with the first question."""
    messages: tuple[Message, ...] = (Message("system", system),) if system else ()
    found: list[tuple[Answer, Answer | None]] = []
    for i, r in enumerate(rounds):
        question = Message("user", r.question, images if i == 0 and chat.vision else ())
        both = [question, *([Message("user", r.beside, question.images)] if r.beside else [])]
        answer, *beside = await asyncio.gather(*(_ask(chat, (*messages, q), r.allowed, asking) for q in both))
        found.append((answer, beside[0] if beside else None))
        if answer.answer is None:
            unasked = Answer(None, note="an earlier round has no answer")
            return found + [(unasked, unasked if later.beside else None) for later in rounds[i + 1 :]]
        messages = (*messages, question, Message("assistant", answer.answer))
    return found


async def _ask(chat: ChatModel, messages: tuple[Message, ...], allowed: tuple[str, ...], asking: Asking) -> Answer:
    request = Request(
        messages,
        temperature=0.0,
        max_tokens=asking.max_tokens,
        seed=derive_seed(asking.seed, asking.record_id, STAGE),
        choices=allowed,
        choices_named=True,
        logprobs=TOP_LOGPROBS if asking.logprobs else None,
        stage=STAGE,
        record_id=asking.record_id,
    )
    note = ""
    for attempt in (request, request.again()):
        try:
            reply = usable(await chat.complete(attempt))
        except RecordError as exc:
            note = f"{exc.kind}: {exc.reason}"
            if exc.kind not in ASK_AGAIN:
                break
            continue
        answer = read_answer(reply.text, allowed)
        if answer is not None:
            return Answer(answer, answer_probabilities(reply.logprobs, allowed))
        note = f"unreadable: {reply.text.strip()[:80]!r} is none of {', '.join(allowed)}"
    return Answer(None, note=note)
