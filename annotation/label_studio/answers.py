"""An annotation as Label Studio keeps it, read as a Response. It keeps whatever it is sent, so all is checked here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from annotation.items import Response
from ser_toolkit.errors import RecordError
from ser_toolkit.plain import plain_error

LABELS = {"True": True, "False": False}
CHOICES = {"step1": 1, "step2": 1, "step3": 1, "verdict": 1, "skip": 1, "reasons": 99}
"""What is chosen -> how many at most."""
TEXTS = ("critique1", "critique2", "critique3", "comment")


def read_annotation(view_id: str, annotation: Mapping[str, Any]) -> Response:
    """What an annotation says to this view; a skipped one is a skip. Raises RecordError for what is no answer."""
    result = annotation.get("result") or []
    try:
        said = _values(result)
        is_skipped = bool(annotation.get("was_cancelled"))
        if is_skipped:
            body: dict[str, Any] = {"skip": _one(said, "skip") or "other"}
        elif "skip" in said:
            raise ValueError(f"submitted, but with a reason to skip ({said['skip'][0]}): take it away, or press Skip")
        else:
            body = {
                "steps": [_step(said, n) for n in (1, 2, 3)],
                "verdict": _one(said, "verdict"),
                "reasons": said.get("reasons", ()),
            }
        seconds = annotation.get("lead_time")
        body |= {
            "comment": _one(said, "comment") or "",
            "seconds": seconds if isinstance(seconds, int | float) else None,
        }
        return Response.model_validate({"view_id": view_id, **body})
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the answer"
        raise RecordError("malformed", f"{view_id}: {where}: {plain_error(first)}", text=_told(result)) from exc
    except ValueError as exc:
        raise RecordError("malformed", f"{view_id}: {exc}", text=_told(result)) from exc


def _values(result: Any) -> dict[str, Sequence[str]]:
    """Control -> what it holds. Raises ValueError for a control that is not ours, comes twice, or holds no words."""
    if not isinstance(result, list):
        raise ValueError("the result is no list")
    said: dict[str, Sequence[str]] = {}
    for entry in result:
        name = entry.get("from_name") if isinstance(entry, Mapping) else None
        if name not in CHOICES and name not in TEXTS:
            raise ValueError(f"{name!r} is nothing that was asked")
        if name in said:
            raise ValueError(f"{name} is answered twice")
        value = entry.get("value")
        words = value.get("choices" if name in CHOICES else "text") if isinstance(value, Mapping) else None
        words = [words] if isinstance(words, str) else words
        if not isinstance(words, list) or not all(isinstance(w, str) for w in words):
            raise ValueError(f"{name} holds no words")
        if len(words) > CHOICES.get(name, 99):
            raise ValueError(f"{name} has {len(words)} answers")
        if any(words):
            said[name] = words
    return said


def _one(said: Mapping[str, Sequence[str]], name: str) -> str | None:
    return "\n".join(said[name]) if name in said else None


def _step(said: Mapping[str, Sequence[str]], number: int) -> dict[str, Any]:
    word = _one(said, f"step{number}")
    if word is None:
        raise ValueError(f"step {number} is not judged")
    if word not in LABELS:
        raise ValueError(f"step {number} is {word!r}, neither True nor False")
    # The field of a critique keeps its text when the step is turned to True and the field is hidden.
    return {"label": LABELS[word], "critique": "" if LABELS[word] else _one(said, f"critique{number}") or ""}


def _told(result: Any) -> str:
    return json.dumps(result, ensure_ascii=False, default=str)[:4000]
