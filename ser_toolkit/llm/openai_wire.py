"""Requests and replies as the OpenAI chat completions protocol writes them. Pure functions, no network."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from .chat import Message, Reply, Request, Usage

_OPTIONAL = ("temperature", "top_p", "seed", "stop", "logprobs")
_FINISH = {"max_tokens": "length", "length": "length", "content_filter": "content_filter"}
_CHOICE = "structured_outputs"
_ABOUT_IMAGES = ("image", "vision", "multimodal", "multi-modal")


class MalformedReply(ValueError):
    """A body that is no chat completion: cut, or of another kind."""


@dataclass(slots=True)
class Dialect:
    """What this server was found not to take; learnt from its refusals, kept for the run.

    `schemas_refused` holds the schemas (as bytes) for which it would not take `response_format`; `dropped` the optional
    parameters that it does not know; `max_tokens` the name under which it takes the limit.
    """

    images: bool
    max_tokens: str = "max_tokens"
    schemas_refused: set[bytes] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Form:
    """How one request is written down: what of it goes into the message, what is left out."""

    images: bool
    schema_in_prompt: bool
    max_tokens: str
    dropped: frozenset[str] = frozenset()


def form_for(request: Request, dialect: Dialect) -> Form:
    """The richest form that this server is not known to refuse."""
    refused = request.schema is not None and schema_bytes(request.schema) in dialect.schemas_refused
    return Form(dialect.images, refused, dialect.max_tokens, frozenset(dialect.dropped))


def schema_bytes(schema: Mapping[str, Any]) -> bytes:
    """A schema's identity within a run."""
    return orjson.dumps(schema)


def encode(request: Request, model: str, form: Form) -> bytes:
    """The body of one call."""
    body: dict[str, Any] = {
        "model": model,
        "messages": _messages(request, form),
        form.max_tokens: request.max_tokens,
        "temperature": request.temperature,
    }
    if request.top_p != 1.0:
        body["top_p"] = request.top_p
    if request.seed is not None:
        body["seed"] = request.seed
    if request.stop:
        body["stop"] = request.stop
    if request.logprobs is not None:
        body["logprobs"] = True
        body["top_logprobs"] = request.logprobs
    if request.schema is not None and not form.schema_in_prompt:
        schema = {"name": "reply", "schema": request.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.choices:  # vLLM's name for it; others pass over it, or refuse it once
        body[_CHOICE] = {"choice": request.choices}
    for name in form.dropped:
        body.pop(name, None)
    if "logprobs" in form.dropped:
        body.pop("top_logprobs", None)
    return orjson.dumps(body)


def _messages(request: Request, form: Form) -> list[dict[str, Any]]:
    messages = [{"role": m.role, "content": _content(m, form)} for m in request.messages]
    wish = _wish(request, form)
    if wish:
        last = next((m for m in reversed(messages) if m["role"] == "user"), None)
        if last is None:
            messages.append({"role": "user", "content": wish})
        elif isinstance(last["content"], str):
            last["content"] += f"\n\n{wish}"
        else:
            last["content"].append({"type": "text", "text": wish})
    return messages


def _content(message: Message, form: Form) -> str | list[dict[str, Any]]:
    if not (message.images and form.images):
        return message.said(with_images=form.images)
    parts: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": data_url(i.data, i.media_type)}} for i in message.images
    ]
    parts.append({"type": "text", "text": message.text})
    return parts


def data_url(data: bytes, media_type: str) -> str:
    """An image as chat messages carry it."""
    return f"data:{media_type};base64,{base64.b64encode(data).decode('ascii')}"


def _wish(request: Request, form: Form) -> str:
    """What must be asked for in words, since no parameter says it."""
    if request.choices and not request.choices_named:
        return f"Answer with exactly one of these, and nothing else: {' | '.join(request.choices)}"
    if request.schema is not None and form.schema_in_prompt:
        schema = orjson.dumps(request.schema).decode()
        return f"Answer with one JSON value that follows this JSON schema, and nothing else:\n{schema}"
    return ""


def decode(payload: Any) -> Reply:
    """The reply in a parsed body. Raises MalformedReply where there is none.

    A refusal in OpenAI's own field counts as withheld; its words become the text.
    """
    try:
        choice = payload["choices"][0]
        message = choice["message"]
        text = message.get("content")
        refusal = message.get("refusal")
        finish = choice.get("finish_reason") or "stop"
    except (KeyError, IndexError, TypeError, AttributeError) as exc:
        raise MalformedReply("no choices[0].message in the body") from exc
    if isinstance(text, list):  # some servers answer in parts, as they are asked
        text = "".join(str(p.get("text", "")) for p in text if isinstance(p, dict))
    if text is not None and not isinstance(text, str):
        raise MalformedReply("message.content is no text")
    if refusal and not text:
        text, finish = str(refusal), "content_filter"
    logprobs = choice.get("logprobs")
    entries = logprobs.get("content") if isinstance(logprobs, dict) else None
    return Reply(text or "", _FINISH.get(finish, "stop"), _usage(payload.get("usage")), _entries(entries))


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
    return Usage(prompt if isinstance(prompt, int) else 0, completion if isinstance(completion, int) else 0)


def _entries(entries: Any) -> Sequence[Mapping[str, Any]] | None:
    return entries if isinstance(entries, list) else None


class Refusal(Exception):
    """A 4xx that is about the request: the server's message, its code, and the parameter that it names."""

    def __init__(self, status: int, message: str, code: str = "", param: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param

    @property
    def is_content_filter(self) -> bool:
        return "content_filter" in self.code or "content_policy" in self.code


def concede(refusal: Refusal, request: Request, form: Form, *, may_drop_images: bool) -> Form | None:
    """The next poorer form to try after `refusal`, or `None` when the refusal stands."""
    told = f"{refusal.param} {refusal.message}".lower()
    if form.max_tokens == "max_tokens" and "max_completion_tokens" in told:
        return replace(form, max_tokens="max_completion_tokens")
    if refusal.param in _OPTIONAL and refusal.code.startswith("unsupported"):
        known = refusal.param in form.dropped
        return None if known else replace(form, dropped=form.dropped | {refusal.param})
    without_images = None
    if may_drop_images and form.images and any(m.images for m in request.messages):
        without_images = replace(form, images=False)
        if any(word in told for word in _ABOUT_IMAGES):
            return without_images
    if request.choices and _CHOICE not in form.dropped:
        return replace(form, dropped=form.dropped | {_CHOICE})
    if request.schema is not None and not form.schema_in_prompt:
        return replace(form, schema_in_prompt=True)
    return without_images


def learn(dialect: Dialect, request: Request, form: Form) -> list[str]:
    """Keep that the server took this poorer form; returns what is newly given up, for a warning."""
    given_up = sorted(form.dropped - dialect.dropped)
    if dialect.images and not form.images:
        given_up.append("images")
    dialect.images = form.images
    dialect.dropped |= form.dropped
    dialect.max_tokens = form.max_tokens
    if form.schema_in_prompt and request.schema is not None:
        dialect.schemas_refused.add(schema_bytes(request.schema))
    return given_up
