"""A judge's chat as tokens: what is asked in each round, and the allowed answers, each with its end of turn.

The chat template renders the whole chat once, as in training, with a mark in each answer's place; the text is then cut
right behind each end of turn, a special token at which every tokenizer cuts anyway. So a round's tokens do not hang on
the answers before it, and are those of the whole text. May import: the ground; transformers' objects are handed in.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from ser_toolkit.errors import RecordError, UsageError
from ser_toolkit.llm.chat import Image
from ser_toolkit.releases.judging import REPLY_ANSWERS, STEP_ANSWERS
from ser_toolkit.training.plain_text import PlainText

Tokens = tuple[int, ...]
UNIFIED_ROUNDS: tuple[tuple[str, ...], ...] = (STEP_ANSWERS,) * 3 + (tuple(REPLY_ANSWERS.values()),)
"""The allowed answers of the unified judge's four rounds."""
_MARK = "SERanswer{}mark7f3a"


@dataclass(frozen=True, slots=True)
class JudgeChat:
    """A chat of one or more rounds: a question each, and its allowed answers. `images` stand before the first one."""

    system: str
    questions: tuple[str, ...]
    allowed: tuple[tuple[str, ...], ...] = UNIFIED_ROUNDS
    images: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if len(self.questions) != len(self.allowed) or not self.questions:
            raise UsageError(f"{len(self.questions)} questions for {len(self.allowed)} sets of answers")


@dataclass(frozen=True, slots=True)
class EncodedChat:
    """Tokens by round: `asked[r]` up to the answer, `answers[r][a]` the rest of that answer, end of turn included.

    `media` are the processor's other inputs (pixels), for a batch of one; per-token ones are as long as `asked[0]`.
    """

    asked: tuple[Tokens, ...]
    answers: tuple[tuple[Tokens, ...], ...]
    media: Mapping[str, Any] = field(default_factory=dict)


def chat_of_row(row: Mapping[str, Any], allowed: Sequence[Sequence[str]] = UNIFIED_ROUNDS) -> JudgeChat:
    """The questions of a row of `judgements/`, without its answers. Raises RecordError for another number of rounds."""
    said = {role: [m["content"] for m in row["messages"] if m["role"] == role] for role in ("system", "user")}
    if len(said["user"]) != len(allowed):
        raise RecordError("malformed", f"{len(said['user'])} questions instead of {len(allowed)}")
    answers = tuple(tuple(a) for a in allowed)
    return JudgeChat("\n\n".join(said["system"]), tuple(said["user"]), answers, tuple(row.get("images") or ()))


class ChatEncoder:
    """Renders and tokenises judge's chats for one model's tokenizer, or its processor where it takes images.

    `max_tokens`: a longer chat raises RecordError instead of being cut.
    """

    def __init__(self, processing: Any, max_tokens: int | None = None) -> None:
        self.tokenizer: Any = getattr(processing, "tokenizer", processing)
        self._processor: Any = processing if processing is not self.tokenizer else None
        self._max_tokens = max_tokens
        self._plain = PlainText(self.tokenizer)
        self._seen: tuple[Any, Any] = (None, None)  # the last pictures with what stands before them, and their tokens
        special = sorted(self.tokenizer.get_added_vocab(), key=len, reverse=True)
        self._end = re.compile(r"\s*(?:" + "|".join(map(re.escape, special)) + ")") if special else None

    def encode(self, chat: JudgeChat) -> EncodedChat:
        """The chat's tokens. Raises RecordError where the chat is too long, or imitates what the template writes."""
        units = self._units(self.render(chat), len(chat.questions))
        head, media, units[0] = self._with_images(chat.images, units[0])
        asked: list[Tokens] = []
        answers: list[tuple[Tokens, ...]] = []
        for (before, after), allowed in zip(units, chat.allowed, strict=True):
            whole = self.tokenizer([before + a + after for a in allowed], add_special_tokens=False)["input_ids"]
            shared = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*whole, strict=False)))
            asked.append(tuple(whole[0][:shared]))
            answers.append(tuple(tuple(ids[shared:]) for ids in whole))
        asked[0] = head + asked[0]
        longest = sum(map(len, asked)) + sum(max(map(len, a)) for a in answers)
        if self._max_tokens is not None and longest > self._max_tokens:
            raise RecordError("malformed", f"the chat takes {longest} tokens, and the model at most {self._max_tokens}")
        return EncodedChat(tuple(asked), tuple(answers), media)

    def render(self, chat: JudgeChat) -> str:
        """The whole chat as the template writes it, a mark in each answer's place; what is asked is text, no marks."""
        system = self._plain(chat.system)
        messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if chat.system else []
        for number, question in enumerate(chat.questions):
            messages.append({"role": "user", "content": self._plain(question)})
            messages.append({"role": "assistant", "content": _MARK.format(number)})
        if self._processor is None:
            return self.tokenizer.apply_chat_template(messages, tokenize=False)
        for message in messages:
            message["content"] = [{"type": "text", "text": message["content"]}]
        first = next(m for m in messages if m["role"] == "user")
        first["content"] = [{"type": "image"}] * len(chat.images) + first["content"]
        return self._processor.apply_chat_template(messages, tokenize=False)

    def _units(self, text: str, rounds: int) -> list[tuple[str, str]]:
        """By round: the text between the last end of turn and the answer, and the end of turn behind the answer."""
        units: list[tuple[str, str]] = []
        for number in range(rounds):
            before, *after = text.split(_MARK.format(number))
            if len(after) != 1:
                raise RecordError("malformed", f"answer {number + 1} has {len(after)} places in the rendered chat")
            end = self._end.match(after[0]) if self._end else None
            if end is None:
                raise UsageError(
                    "this model's chat template does not end an answer with a special token",
                    "a judge needs to know where an answer ends: take an instruction-tuned model",
                )
            units.append((before, end[0]))
            text = after[0][end.end() :]
        return units

    def _with_images(
        self, images: Sequence[Any], unit: tuple[str, str]
    ) -> tuple[Tokens, dict[str, Any], tuple[str, str]]:
        """The tokens up to and with the last image's, what the model needs to see them, and the rest of the unit."""
        if not images or self._processor is None:
            return (), {}, unit
        before, after = unit
        cut = before.rfind(self._processor.image_token) + len(self._processor.image_token)
        head = before[:cut]
        if self._seen[0] != (head, images):  # the chats of a group have the same ones: they share the very tensors
            made = self._processor(
                text=[head], images=[[as_picture(i) for i in images]], add_special_tokens=False, return_tensors="pt"
            )
            ids = made.pop("input_ids")
            made.pop("attention_mask", None)
            self._seen = (head, images), (tuple(ids[0].tolist()), dict(made))
        tokens, media = self._seen[1]
        return tokens, media, (before[cut:], after)


def as_picture(image: Any) -> Any:
    """A PIL image (RGB) from what a release, a Scene or a data set holds. Raises RecordError for a damaged one."""
    from PIL import Image as Pillow

    if isinstance(image, Mapping):
        image = image["bytes"]
    if isinstance(image, Image):
        image = image.data
    try:
        opened = Pillow.open(io.BytesIO(image)) if isinstance(image, bytes) else image
        return opened.convert("RGB")
    except (OSError, ValueError) as exc:
        raise RecordError("media", f"a picture cannot be read: {exc}") from exc
