"""What comes back from Argilla, checked: nothing on a server is believed because it is there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from annotation.items import Response
from ser_toolkit.errors import RecordError
from ser_toolkit.plain import plain_error

LABELS = {"true": True, "false": False}


def response(view_id: str, status: str, values: Mapping[str, Any] | None) -> Response:
    """A submitted or discarded response as ours. Raises RecordError where it is none."""
    said = {name: entry.get("value") if isinstance(entry, Mapping) else entry for name, entry in (values or {}).items()}
    if status == "discarded":
        body = {"skip": said.get("skip") or "other", "comment": said.get("comment") or ""}
    elif said.get("skip"):
        raise RecordError(
            "malformed",
            f"{view_id}: submitted, but with a reason to skip ({said['skip']}): discard it, or take the reason away",
            text=_text(said),
        )
    else:
        body = {
            "steps": [_step(said, number) for number in (1, 2, 3)],
            "verdict": said.get("verdict"),
            "reasons": said.get("reasons") or (),
            "comment": said.get("comment") or "",
        }
    try:
        return Response.model_validate({"view_id": view_id, **body})
    except ValidationError as exc:
        raise RecordError("malformed", f"{view_id}: {_finding(exc)}", text=_text(said)) from exc


def _step(said: Mapping[str, Any], number: int) -> dict[str, Any]:
    label = said.get(f"step{number}")
    critique = said.get(f"critique{number}") or ""
    return {"label": LABELS.get(label) if isinstance(label, str) else None, "critique": critique}


def _finding(exc: ValidationError) -> str:
    first = exc.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the answer'}: {plain_error(first)}"


def _text(said: Mapping[str, Any]) -> str:
    return json.dumps(said, ensure_ascii=False, default=str)
