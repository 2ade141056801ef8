"""What a chat model is asked and what it answers, whichever backend serves it.

Frozen slotted dataclasses, since one is made per call. A backend raises `RecordError` for what concerns one
request (refused, timed out after its retries) and `RemoteError` for what will fail for every request (a wrong
key, an unknown model, nobody listening). A `Reply` that came but cannot be used (cut, filtered, empty) is
returned, and `usable` turns it into a `RecordError`: the journal keeps it, so that a failure is as
repeatable as a success.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import orjson

from ..errors import RecordError
from ..schema import canonical_json

if TYPE_CHECKING:
    from .meter import UsageMeter


@dataclass(frozen=True, slots=True)
class Image:
    """An image part of a message; its hash, not its bytes, enters the journal's key."""

    data: bytes
    media_type: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. `images` are shown before `text`; where they cannot be, `without_images` is said instead."""

    role: Literal["system", "user", "assistant"]
    text: str
    images: tuple[Image, ...] = ()
    without_images: str | None = None

    def said(self, *, with_images: bool) -> str:
        """The text beside the images, or the one in their place."""
        return self.text if with_images or self.without_images is None else self.without_images


@dataclass(frozen=True, slots=True)
class Request:
    """One model call.

    `max_tokens` in tokens; `schema` a JSON schema that the reply must follow; `choices` allowed whole answers;
    `choices_named` the messages list these already, so that no server needs to be told in words;
    `logprobs` how many alternatives to return per token. `stage` and `record_id` are for the journal's
    books and never enter the key; `attempt` does, so asking again is another call.
    """

    messages: tuple[Message, ...]
    temperature: float = 0.7
    top_p: float = 1.0
    max_tokens: int = 512
    seed: int | None = None
    stop: tuple[str, ...] = ()
    schema: Mapping[str, Any] | None = None
    choices: tuple[str, ...] = ()
    choices_named: bool = False
    logprobs: int | None = None
    attempt: int = 1
    stage: str = ""
    record_id: str = ""

    def key(self, identity: str, model: str) -> str:
        """SHA-256 (hex) of the whole request as sent to `model` at `identity`."""
        tree = {
            "identity": identity,
            "model": model,
            "messages": [_key_of(m) for m in self.messages],
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_tokens": self.max_tokens,
            "seed": self.seed,
            "stop": self.stop,
            "schema": self.schema,
            "choices": self.choices,
            "logprobs": self.logprobs,
            "attempt": self.attempt,
        }
        if self.choices_named:
            tree["choices_named"] = True
        try:
            data = orjson.dumps(tree, option=orjson.OPT_SORT_KEYS)
        except TypeError:  # a lone surrogate, or a number past 64 bits
            data = canonical_json(tree)
        return hashlib.sha256(data).hexdigest()

    def again(self) -> Request:
        """The same request, asked once more: next attempt, another seed."""
        seed = None if self.seed is None else (self.seed + 1) % 2**31
        return replace(self, attempt=self.attempt + 1, seed=seed)


def _key_of(message: Message) -> list[Any]:
    instead = [] if message.without_images is None else [message.without_images]
    return [message.role, message.text, [i.sha256 for i in message.images], *instead]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. `finish_reason` as OpenAI names it: stop, length, content_filter.

    `logprobs` is the server's list of per-token entries ({token, logprob, top_logprobs}) where asked for.
    `request_key` is filled by the journal. `images_dropped`: the server took none, and was asked without them.
    """

    text: str
    finish_reason: str = "stop"
    usage: Usage = field(default_factory=Usage)
    logprobs: Sequence[Mapping[str, Any]] | None = None
    request_key: str | None = None
    images_dropped: bool = False


@runtime_checkable
class ChatModel(Protocol):
    """Anything that answers a `Request`.

    `identity` names the endpoint (the set of base URLs, or the name that the recipe gives it) and enters the
    journal's key; `model` is the model's name; `vision` whether image parts may be sent; `context_tokens`
    the longest prompt plus completion of one request, `None` where unknown; `languages` what it can write,
    empty where unknown; `meter` what its calls have cost so far.
    """

    identity: str
    model: str
    vision: bool
    context_tokens: int | None
    languages: frozenset[str]
    meter: UsageMeter

    async def complete(self, request: Request) -> Reply:
        """Answer once. Raises RecordError (this request) or RemoteError (every request)."""
        ...

    async def aclose(self) -> None:
        """Release connections, threads and weights."""
        ...


def usable(reply: Reply) -> Reply:
    """The reply itself, or RecordError where it was cut, withheld or is empty.

    A cut reply is never repaired: what is missing cannot be known. A withheld one is counted on its own, since
    dropping it silently removes the hardest cases.
    """
    if reply.finish_reason == "content_filter":
        raise RecordError(
            "filtered",
            "the server withheld the reply (content filter)",
            text=reply.text,
            request_key=reply.request_key,
        )
    if reply.finish_reason == "length":
        raise RecordError(
            "truncated",
            "the reply was cut at max_tokens",
            text=reply.text,
            request_key=reply.request_key,
        )
    if not reply.text.strip():
        raise RecordError("empty_reply", "the reply has no text", request_key=reply.request_key)
    return reply
