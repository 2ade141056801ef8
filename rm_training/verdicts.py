"""Verdicts by likelihood, the plain way: the reference that every faster way is held to.

Round by round: each allowed answer is put behind the chat so far, its log-probabilities are summed over the whole
answer, end of turn included, and a softmax is taken over the allowed ones; the most likely answer then stands in the
chat of the next round (METHOD 2; PEER, arXiv 2508.09521, section 4.1). Nothing is generated, so nothing is unreadable.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ser_toolkit.errors import RecordError
from ser_toolkit.training.pictures import shape_of, stacked

from .rounds import ChatEncoder, EncodedChat, JudgeChat, Tokens

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Judged:
    """What the judge says of one chat. By round: allowed answer -> probability.

    `trouble` says why there is no verdict (too long, a damaged picture, numbers that are none); then it is missing.
    """

    rounds: tuple[Mapping[str, float], ...] = ()
    trouble: str = ""

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The most likely answer of each round; of equal ones the first."""
        return tuple(max(r, key=r.__getitem__) for r in self.rounds)


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One sequence to score: what was asked so far, and an answer. `media` belong to what was asked."""

    asked: Tokens
    answer: Tokens
    media: Mapping[str, Tensor]


def judge_plainly(
    model: Any, processing: Any, chats: Sequence[JudgeChat], *, batch_size: int = 8, max_tokens: int | None = None
) -> list[Judged]:
    """The verdicts on each chat, four dependent rounds (or as many as it has), in padded batches of sequences.

    `model` a causal LM or VLM of transformers, in eval mode while this runs; `processing` its tokenizer or processor.
    A result does not hang on the other chats, on the padding side or on the pad token.
    """
    encoded = encode_all(ChatEncoder(processing, max_tokens or context_of(model)), chats)
    given: list[Tokens] = [()] * len(chats)
    found: list[list[dict[str, float]]] = [[] for _ in chats]
    troubles = {i: e for i, e in enumerate(encoded) if isinstance(e, str)}
    for number in range(max((len(c.questions) for c in chats), default=0)):
        open_ = {
            i: e
            for i, e in enumerate(encoded)
            if isinstance(e, EncodedChat) and i not in troubles and number < len(e.asked)
        }
        rows: list[AnswerRow] = []
        for i, e in open_.items():
            given[i] += e.asked[number]
            rows += [AnswerRow(given[i], answer, e.media) for answer in e.answers[number]]
        logps = iter(answer_logps(model, rows, batch_size))
        for i, e in open_.items():
            chances = softmax([next(logps) for _ in e.answers[number]])
            if chances is None:
                troubles[i] = f"round {number + 1}: the model's numbers are not finite"
                continue
            found[i].append(dict(zip(chats[i].allowed[number], chances, strict=True)))
            given[i] += e.answers[number][chances.index(max(chances))]
    return [Judged(trouble=troubles[i]) if i in troubles else Judged(tuple(f)) for i, f in enumerate(found)]


def encode_all(encoder: ChatEncoder, chats: Sequence[JudgeChat]) -> list[EncodedChat | str]:
    """Each chat's tokens, or in words why it cannot be judged."""
    out: list[EncodedChat | str] = []
    for chat in chats:
        try:
            out.append(encoder.encode(chat))
        except RecordError as exc:
            out.append(f"{exc.kind}: {exc.reason}")
    return out


def answer_logps(model: Any, rows: Sequence[AnswerRow], batch_size: int) -> list[float]:
    """log p(answer | asked) of each row, summed over the answer's tokens; NaN where the model's numbers are none."""

    def likeness(i: int) -> tuple[Any, int]:
        return shape_of(rows[i].media), len(rows[i].asked) + len(rows[i].answer)

    order = sorted(range(len(rows)), key=likeness)
    out = [math.nan] * len(rows)
    with judging(model):
        while order:
            shape = likeness(order[0])[0]
            batch = [i for i in order[:batch_size] if likeness(i)[0] == shape]
            order = order[len(batch) :]
            for i, value in zip(batch, _batch_logps(model, [rows[i] for i in batch]), strict=True):
                out[i] = value
    return out


@contextmanager
def judging(model: Any) -> Iterator[None]:
    """The model in eval mode and without gradients while this runs, then in the mode in which it was."""
    import torch

    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(was_training)


def _batch_logps(model: Any, rows: Sequence[AnswerRow]) -> list[float]:
    """One forward pass of right-padded rows: with causal attention no token ever sees a pad."""
    import torch

    width = max(len(r.asked) + len(r.answer) for r in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    seen = torch.zeros_like(ids)
    for number, row in enumerate(rows):
        tokens = torch.tensor(row.asked + row.answer)
        ids[number, : len(tokens)] = tokens
        seen[number, : len(tokens)] = 1
    inputs = {"input_ids": ids.to(model.device), "attention_mask": seen.to(model.device)}
    media = stacked([r.media for r in rows], width, model.device)
    logits = model(**inputs, **media, use_cache=False).logits
    out: list[float] = []
    for number, row in enumerate(rows):
        start = len(row.asked)
        logps = logits[number, start - 1 : start - 1 + len(row.answer)].float().log_softmax(-1)
        told = logps.gather(-1, torch.tensor(row.answer, device=logps.device)[:, None])
        out.append(float(told.double().sum()))
    return out


def softmax(logps: Sequence[float]) -> list[float] | None:
    """Probabilities that sum to 1; `None` where a number is NaN, or all are minus infinity."""
    top = max(logps) if not any(map(math.isnan, logps)) else -math.inf
    if not math.isfinite(top):
        return None
    weights = [math.exp(v - top) for v in logps]
    return [w / sum(weights) for w in weights]


def context_of(model: Any) -> int | None:
    """How many tokens the model can take, `None` where it does not say."""
    config = model.config
    return getattr(config.get_text_config(), "max_position_embeddings", None)
