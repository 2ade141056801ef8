"""A corpus' own words, read through its label map and the recipe; and the small values of a record.

A word that the map does not hold stays as written, mapped to nothing. A speaker that nobody names is the
record's Failure: who said what is never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ser_toolkit.errors import RecordError
from ser_toolkit.schema import Failure, Label, Role
from ser_toolkit.taxonomy import fold, load_map

from .base import ReadContext
from .reading import Raw, files_of
from .turn_rules import role_of

Reader = Callable[[Path, ReadContext], Iterator[Raw | Failure]]


class Words:
    """The label map of a format, with the recipe's `roles` laid over its speakers."""

    def __init__(self, format: str, context: ReadContext) -> None:
        self._map = load_map(format, context.maps)
        self._roles: dict[str, Role] = {fold(word): role for word, role in context.spec.roles.items()}

    def role(self, word: Any, where: str) -> Role:
        """Who speaks. Raises RecordError("unknown_speaker"); these corpora know no third voice."""
        role = role_of(word, where, self._roles, self._map)
        if role == "system":
            raise RecordError("unknown_speaker", f"{where}: {word!r} is neither seeker nor supporter", text=str(word))
        return role

    def known_role(self, word: str) -> Role | None:
        """Who speaks, by the map and the recipe alone; `None` where they name nobody so."""
        role = self._roles.get(fold(word)) or self._map.speaker(word)
        return role if role == "seeker" or role == "supporter" else None

    def strategies(self, value: Any) -> tuple[Label, ...]:
        """The labels of a word, a list of words, or nothing."""
        labels = (self._map.strategy(word) for word in _listed(value))
        return tuple(label for label in labels if label)

    def emotions(self, value: Any) -> tuple[Label, ...]:
        """The labels of a word, a list of words, or nothing."""
        return tuple(label for word in _listed(value) if (label := self.emotion(word)))

    def emotion(self, word: str | None) -> Label | None:
        return self._map.emotion(word)

    def problem(self, word: str | None) -> str:
        """The corpus' canonical spelling, the word itself where the map does not hold it, "" for none."""
        label = self._map.problem(word)
        return (label.corpus or label.original) if label else ""


def _listed(value: Any) -> list[str]:
    words = value if isinstance(value, list) else [value]
    if not all(word is None or isinstance(word, str) for word in words):
        raise RecordError("malformed", f"a label is neither a word nor a list of words: {value!r}")
    return [word for word in words if word]


def text_or_none(record: dict[str, Any], key: str) -> str | None:
    """`record[key]`, `None` where it is absent or null. Raises RecordError where it is no text."""
    value = record.get(key)
    if value is None or isinstance(value, str):
        return value
    raise RecordError("malformed", f"{key!r} is of type {type(value).__name__}, not a text")


def own_id(value: Any) -> str | None:
    """A record's own id, from a text or a number; `None` where it has none."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None


def score(record: dict[str, Any], key: str) -> int | None:
    """A whole number, also one written as text; `None` where there is none. Raises RecordError for other values."""
    value = record.get(key)
    if isinstance(value, str):
        value = value.strip()
        if not value or fold(value) in ("none", "null", "nan", "n/a"):
            return None
        if value.lstrip("-").isdecimal():
            return int(value)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    raise RecordError("malformed", f"{key!r} is {value!r}, not a whole number")


def by_suffix(path: Path, context: ReadContext, readers: dict[str, Reader]) -> Iterator[Raw | Failure]:
    """A file or a folder whose files need different readers, told by suffix; a lone file of another suffix
    goes to the first. Raises UsageError as `files_of` does.
    """
    fallback = next(iter(readers.values()))
    for file in files_of(path, tuple(readers)):
        name = file.name if file == path else file.relative_to(path).as_posix()
        for raw in readers.get(file.suffix.lower(), fallback)(file, context):
            yield replace(raw, file=name) if isinstance(raw, Raw) else raw.model_copy(update={"file": name})
