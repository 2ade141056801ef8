"""JSON out of a reply.

Models fence their JSON, talk around it, or forget a bracket. What is read here is exactly what was written, backticks
inside strings included; it is mended once, and only when the whole reply came: what was cut off cannot be known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ..errors import RecordError
from ..schema import canonical_json
from .chat import ChatModel, Reply, Request, usable

ASK_AGAIN = frozenset({"schema", "truncated", "empty_reply"})
"""Failures that another try may mend. A withheld reply is not asked for again."""

_FENCE = re.compile(r"^[ \t]*```[\w-]*[ \t]*$", re.MULTILINE)
_OPENING = re.compile(r"[{\[]")
_BRACKET = re.compile(r"[][{}]")
DEEPEST = 100
"""Open brackets at once in what is searched and mended; a model stuck on one bracket would take minutes to read."""


def object_schema(**properties: Any) -> dict[str, Any]:
    """The JSON schema of an object with just these properties, all required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


async def ask_json(chat: ChatModel, request: Request, schema: Mapping[str, Any]) -> tuple[Any, Reply]:
    """The value that `chat` answers under `schema`, and its reply; asks once more where that may help.

    Raises RecordError (schema, truncated, empty_reply, filtered, and what the model raises): this record's alone.
    """
    request = replace(request, schema=schema)
    reply = await chat.complete(request)
    try:
        return extract_json(reply, schema), reply
    except RecordError as exc:
        if exc.kind not in ASK_AGAIN:
            raise
    reply = await chat.complete(request.again())
    return extract_json(reply, schema), reply


def extract_json(reply: Reply, schema: Mapping[str, Any]) -> Any:
    """The JSON value of a reply, valid under `schema` (JSON schema, draft 7).

    Taken as it stands where it parses: the whole text, or else the last valid value in it (what comes before is thought
    or an echo of the task). Otherwise repaired once. Raises RecordError: truncated, filtered, empty_reply or schema.
    """
    text = usable(reply).text
    validate = _validator(canonical_json(schema))
    fault = "there is no JSON in it"
    for value in _values(text):
        problem = validate(value)
        if problem is None:
            return value
        fault = problem
    value = _repaired(text)
    if value is not None:
        problem = validate(value)
        if problem is None:
            return value
        fault = problem
    raise RecordError(
        "schema", f"the reply does not follow the schema: {fault}", text=text, request_key=reply.request_key
    )


def _values(text: str) -> Iterator[Any]:
    """JSON values in `text`: the whole, else each outermost object or array, the last one first."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    try:
        yield decoder.decode(text)
        return
    except (ValueError, RecursionError):
        pass
    if _is_deep(text):
        return
    found: list[Any] = []
    at = 0
    while (opening := _OPENING.search(text, at)) is not None:
        try:
            value, at = decoder.raw_decode(text, opening.start())
            found.append(value)
        except ValueError:
            at = opening.end()
    yield from reversed(found)


def _repaired(text: str) -> Any:
    """`text` from its first bracket on, mended by json_repair; `None` where that finds no object or array."""
    from json_repair import loads

    opening = _OPENING.search(text)
    if opening is None or _is_deep(text):
        return None
    body = text[opening.start() :]
    fences = [m.start() for m in _FENCE.finditer(body)]
    try:
        value = loads(body[: fences[-1]] if fences else body)
        json.dumps(value, allow_nan=False)
    except ValueError:
        return None
    return value if isinstance(value, dict | list) else None


def _is_deep(text: str) -> bool:
    depth = 0
    for bracket in _BRACKET.findall(text):
        depth = depth + 1 if bracket in "{[" else max(0, depth - 1)
        if depth > DEEPEST:
            return True
    return False


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


@lru_cache(maxsize=256)
def _validator(schema: bytes) -> Callable[[Any], str | None]:
    """A function that says what is wrong with a value, or `None`."""
    from fastjsonschema import JsonSchemaValueException, compile

    check = compile(json.loads(schema), use_default=False)

    def problem(value: Any) -> str | None:
        try:
            check(value)
        except JsonSchemaValueException as exc:
            return exc.message
        except RecursionError:
            return "it is nested too deeply"
        return None

    return problem
