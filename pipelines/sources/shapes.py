"""The shapes in which files write a dialogue as objects keyed by speaker: `{"User": ...}`, `{"AI": ...}`.

Published files of one corpus differ: one speaker an object, both in one, or the text a level deeper.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ser_toolkit.errors import RecordError
from ser_toolkit.schema import Role
from ser_toolkit.taxonomy import fold


def turns_of(
    content: Any, user_key: str = "User", ai_key: str = "AI", strategy_key: str = "AI Strategy"
) -> tuple[list[tuple[Role, str, str | None]], str]:
    """(speaker, text, strategy word) of each turn, and the shape's name. Keys match in any case.

    Shapes: "single" (one speaker an object), "paired" (both in one), "nested" (a text a level deeper), joined
    by "+" where a dialogue mixes them; keys that are none of the three are named behind it, for the report.
    Raises RecordError("malformed") with the place inside.
    """
    if not isinstance(content, list):
        raise RecordError("malformed", f"content is {_kind(content)}, not a list of turns")
    roles: dict[str, Role] = {fold(user_key): "seeker", fold(ai_key): "supporter"}
    strategy = fold(strategy_key)
    turns: list[tuple[Role, str, str | None]] = []
    shapes: set[str] = set()
    unread: set[str] = set()
    for place, item in enumerate(content, 1):
        where = f"turn object {place}"
        if not isinstance(item, dict):
            raise RecordError("malformed", f"{where} is {_kind(item)}, not an object")
        spoken = [(key, value) for key, value in item.items() if fold(key) in roles and value is not None]
        if not spoken:
            raise RecordError("malformed", f"{where} has neither {user_key!r} nor {ai_key!r}: {', '.join(item)}")
        shapes.add("single" if len(spoken) == 1 else "paired")
        word = _word(_under(item, strategy), where, strategy_key)
        for key, value in spoken:
            role = roles[fold(key)]
            if isinstance(value, dict):
                shapes.add("nested")
                inner = _under(value, fold(key))
                own = _word(_under(value, strategy), where, strategy_key) or word
                unread.update(k for k in value if fold(k) not in (fold(key), strategy))
            else:
                inner, own = value, word
            if not isinstance(inner, str):
                raise RecordError("malformed", f"{where}: {key!r} is {_kind(inner)}, not a text")
            turns.append((role, inner, own if role == "supporter" else None))
        unread.update(k for k in item if fold(k) not in roles and fold(k) != strategy)
    name = "nested" if "nested" in shapes else "+".join(sorted(shapes))
    return turns, name + (f" (unread: {', '.join(sorted(unread))})" if unread else "")


def _under(item: dict[str, Any], folded: str) -> Any:
    return next(_matching(item, folded), None)


def _matching(item: dict[str, Any], folded: str) -> Iterator[Any]:
    return (value for key, value in item.items() if fold(key) == folded)


def _word(value: Any, where: str, key: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise RecordError("malformed", f"{where}: {key!r} is {_kind(value)}, not a word")


def _kind(value: Any) -> str:
    """A JSON value's kind, for a sentence."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "missing"}
    return names.get(type(value), "a number")
