"""The turns of a record of a general format, as they come in; what a Turn has no room for goes aside, for `meta`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ser_toolkit.errors import RecordError
from ser_toolkit.schema import Label, Media, Role, Turn
from ser_toolkit.taxonomy import LabelMap

from .turn_rules import role_of


class Collected:
    """Turns, and beside them the system's texts and the fields that have no name of ours."""

    def __init__(self, roles: Mapping[str, Role], labels: LabelMap) -> None:
        self.turns: list[Turn] = []
        self._roles = roles
        self._labels = labels
        self._system: list[str] = []
        self._fields: dict[str, Any] = {}

    def add(
        self,
        place: int,
        speaker: Any,
        text: Any,
        *,
        strategy: Any = None,
        emotion: Any = None,
        media: Sequence[Media] = (),
        rest: Mapping[str, Any] | None = None,
    ) -> None:
        """One turn, at this place of the record (from 1). Raises RecordError: unknown_speaker, malformed."""
        where = f"turn {place}"
        if text is not None and not isinstance(text, str):
            raise RecordError("malformed", f"the text of {where} is of type {type(text).__name__}")
        role = role_of(speaker, where, self._roles, self._labels)
        if rest:
            self._fields[str(place)] = dict(rest)
        if role == "system":
            self._system.append(text or "")
            return
        strategies = (self._labels.strategy(word) for word in _words(strategy, f"the strategy of {where}"))
        emotions = (self._labels.emotion(word) for word in _words(emotion, f"the emotion of {where}"))
        self.turns.append(
            Turn(
                speaker=role,
                text=text or "",
                strategies=_known(strategies),
                emotions=_known(emotions),
                media=tuple(media),
            )
        )

    def meta(self) -> dict[str, Any]:
        """ "system": its text, or a list where there are several; "turn_fields": by the turn's place, from 1."""
        found: dict[str, Any] = {}
        if self._system:
            found["system"] = self._system[0] if len(self._system) == 1 else self._system
        if self._fields:
            found["turn_fields"] = self._fields
        return found


def _words(value: Any, where: str) -> list[str]:
    words = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(word, str) for word in words):
        raise RecordError("malformed", f"{where} is neither a word nor a list of words: {value!r:.80}")
    return words


def _known(labels: Any) -> tuple[Label, ...]:
    return tuple(label for label in labels if label is not None)
