"""Which key of a record holds what: by the recipe's `columns`, else by the names that files commonly use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from ser_toolkit.errors import RecordError, UsageError
from ser_toolkit.media.sniffing import Kind
from ser_toolkit.taxonomy import fold

_SPEAKER = ("speaker", "role", "from", "author", "sender")
_TEXT = ("text", "content", "utterance", "value", "message", "sentence")
_STRATEGY = ("strategy", "strategies")
_EMOTION = ("emotion", "emotions")
_IMAGE = ("image", "images", "image path", "photo", "picture")
_AUDIO = ("audio", "audio path", "wav")
_VIDEO = ("video", "video path")

FIELDS: dict[str, tuple[str, ...]] = {
    "id": ("id", "dialogue id", "dialog id", "conversation id", "conv id", "uid"),
    "turns": (
        *("turns", "dialog", "dialogue", "messages", "conversation", "conversations"),
        *("utterances", "content", "history"),
    ),
    "turns.speaker": _SPEAKER,
    "turns.text": _TEXT,
    "turns.strategy": _STRATEGY,
    "turns.emotion": _EMOTION,
    "turns.image": _IMAGE,
    "turns.audio": _AUDIO,
    "turns.video": _VIDEO,
    "situation": ("situation", "background", "description"),
    "problem": ("problem", "problem type", "topic"),
    "emotion": ("emotion", "emotion type"),
    "dialogue_id": ("dialogue id", "dialog id", "conversation id", "conv id", "session id", "thread id"),
    "speaker": _SPEAKER,
    "text": _TEXT,
    "strategy": _STRATEGY,
    "image": _IMAGE,
    "audio": _AUDIO,
    "video": _VIDEO,
}
"""Our fields, and the names (folded) under which they are looked for, in order."""

MEDIA_FIELDS: dict[str, Kind] = {"turns.image": "image", "turns.audio": "audio", "turns.video": "video"}
TURN_FIELDS = ("turns.speaker", "turns.text", "turns.strategy", "turns.emotion", *MEDIA_FIELDS)
DIALOGUE_FIELDS = ("id", "situation", "problem", "emotion")
ROW_FIELDS = {f"turns.{name}": name for name in ("speaker", "text", "strategy", "image", "audio", "video")}
"""Where a row is a turn: a turn's field -> its own column's."""


def check_names(columns: Mapping[str, str]) -> None:
    """Raises UsageError where `columns` names a field that we do not have."""
    unknown = sorted(set(columns) - set(FIELDS))
    if unknown:
        raise UsageError(f"columns: no field is called {unknown[0]!r}", f"known: {', '.join(FIELDS)}")


def key_of(item: Mapping[str, Any], field: str, columns: Mapping[str, str]) -> str | None:
    """The key of `item` that holds `field`; None where no common name is there.

    Raises RecordError where the recipe names a key that is not there.
    """
    if field not in columns:
        return _guess(tuple(item), field)
    if columns[field] not in item:
        raise RecordError("malformed", missing(field, columns[field], item))
    return columns[field]


def turns_key(record: Mapping[str, Any], columns: Mapping[str, str]) -> str | None:
    """The key of a record's turns: the first common name under which a list stands, or a list as JSON text."""
    if "turns" in columns:
        return key_of(record, "turns", columns)
    lists = {fold(str(key)): key for key, value in record.items() if _may_be_list(value)}
    return next((lists[name] for name in FIELDS["turns"] if name in lists), None)


def _may_be_list(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, str) and value.lstrip()[:1] == "[")


def missing(field: str, column: str | None, item: Iterable[str]) -> str:
    """What to say where a column is not there: what was looked for, and what there is."""
    wanted = f"no column {column!r} (for {field})" if column else f"no column for {field}"
    return f"{wanted}; there are: {', '.join(map(str, item)) or 'none'}"


@lru_cache(4096)
def _guess(keys: tuple[str, ...], field: str) -> str | None:
    folded = {fold(str(key)): key for key in reversed(keys)}
    return next((folded[name] for name in FIELDS[field] if name in folded), None)


class Fields:
    """The fields of a dialogue, as a record holds them; remembers which keys were used."""

    def __init__(self, record: Mapping[str, Any], columns: Mapping[str, str], used: set[str]) -> None:
        self._record = record
        self._columns = columns
        self._used = set(used)

    def id(self) -> str:
        """The record's own id, "" where it has none."""
        value = self._take("id", (str, int))
        return "" if value is None else str(value)

    def text(self, field: str) -> str:
        """The field's text, "" where it is missing."""
        return self._take(field, (str,)) or ""

    def rest(self) -> dict[str, Any]:
        """What was not used."""
        return {key: value for key, value in self._record.items() if key not in self._used}

    def _take(self, field: str, kinds: tuple[type, ...]) -> Any:
        """A guess that has another type is none and stays in the rest; a column that the recipe names must fit."""
        key = key_of(self._record, field, self._columns)
        if key is None or key in self._used:
            return None
        value = self._record[key]
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
            if field not in self._columns:
                return None
            raise RecordError("malformed", f"{key!r} (for {field}) is of type {type(value).__name__}")
        self._used.add(key)
        return value
