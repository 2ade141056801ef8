"""Preference pairs and labelled steps in TRL's columns, as JSON, JSON Lines or Parquet.

A pair is {prompt, chosen, rejected}, or {chosen, rejected} whose common beginning is the prompt; labelled steps are
{prompt, completions, labels}. Texts, or messages {role, content}; a text that names who speaks ("Human: ...
Assistant: ...") is cut into turns there.

The dialogue is the prompt with the better reply, or with the steps as one reply, behind it. What was labelled stands
in `meta.preference` and `meta.steps`, word for word: these are labels of somebody's replies, not votes on traces of
ours, so they enter no round of annotation. Other columns go to `meta`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ser_toolkit.errors import RecordError
from ser_toolkit.schema import Dialogue, Failure, Role, Turn
from ser_toolkit.taxonomy import LabelMap, load_map

from .base import Imported, ReadContext, SourceFormat
from .collecting import Collected
from .finish import make_dialogue, member, read_records, split_role_tags
from .openai_messages import read_content
from .reading import JSON_SUFFIXES, Raw, json_records
from .tables import parquet_rows

_COLUMNS = {"trl-preference": ("prompt", "chosen", "rejected"), "trl-steps": ("prompt", "completions", "labels")}


def _read(name: str, path: Path, context: ReadContext) -> Iterator[Imported]:
    labels = load_map(name, context.maps)
    parse = _pair if name == "trl-preference" else _steps
    return read_records(_raws(path, context), name, lambda raw: parse(raw, name, labels, context))


def _raws(path: Path, context: ReadContext) -> Iterator[Raw | Failure]:
    """The rows of tables first, where there are any, then JSON."""
    has_tables = path.suffix == ".parquet" or (path.is_dir() and any(path.rglob("*.parquet")))
    if has_tables:
        yield from parquet_rows(path, context)
    if not has_tables or (path.is_dir() and any(p for s in JSON_SUFFIXES for p in path.rglob(f"*{s}"))):
        yield from json_records(path, context)


def _pair(raw: Raw, name: str, labels: LabelMap, context: ReadContext) -> Dialogue:
    record = _object(raw)
    chosen, rejected = (member(record, key, (str, list, dict)) for key in ("chosen", "rejected"))
    has_prompt = record.get("prompt") is not None
    told = _told(member(record, "prompt", (str, list)) if has_prompt else chosen, "seeker", labels, context)
    if has_prompt:
        before = told.turns
        better, worse = (_told(reply, "supporter", labels, context).turns for reply in (chosen, rejected))
    else:
        other = _told(rejected, "seeker", labels, context).turns
        shared = next((n for n, (a, b) in enumerate(zip(told.turns, other, strict=False)) if a != b), None)
        if shared is None:
            shared = min(len(told.turns), len(other))
        if shared == 0:
            raise RecordError("malformed", "'chosen' and 'rejected' have no turn in common, and there is no 'prompt'")
        before, better, worse = told.turns[:shared], told.turns[shared:], other[shared:]
    texts = [_reply(turns, f"'{key}'") for key, turns in (("chosen", better), ("rejected", worse))]
    if texts[0] == texts[1]:
        raise RecordError("malformed", "'chosen' and 'rejected' are equal, so nothing is preferred", text=texts[0])
    turns = (*before, *better)
    return _made(raw, name, turns, record, context, {"preference": {"rejected": texts[1]}, **told.meta()})


def _steps(raw: Raw, name: str, labels: LabelMap, context: ReadContext) -> Dialogue:
    record = _object(raw)
    told = _told(member(record, "prompt", (str, list)), "seeker", labels, context)
    completions, judged = (member(record, key, list) for key in ("completions", "labels"))
    if len(completions) != len(judged) or not completions:
        raise RecordError(
            "malformed", f"{len(completions)} completions and {len(judged)} labels: one label a step is due"
        )
    steps: list[dict[str, Any]] = []
    for place, (step, label) in enumerate(zip(completions, judged, strict=True), 1):
        if not isinstance(step, str | list | dict):
            raise RecordError("malformed", f"step {place} is of type {type(step).__name__}")
        text = (
            step if isinstance(step, str) else _reply(_told(step, "supporter", labels, context).turns, f"step {place}")
        )
        steps.append({"text": text, "label": _label(label, place)})
    reply = Turn(speaker="supporter", text="\n".join(s["text"] for s in steps), flags=("labelled_steps",))
    return _made(raw, name, (*told.turns, reply), record, context, {"steps": steps, **told.meta()})


def _object(raw: Raw) -> dict[str, Any]:
    if not isinstance(raw.value, dict):
        raise RecordError("malformed", f"a record is an object, not {type(raw.value).__name__}")
    return raw.value


def _made(
    raw: Raw, name: str, turns: Sequence[Turn], record: dict[str, Any], context: ReadContext, labelled: dict[str, Any]
) -> Dialogue:
    own_id = record.get("id")
    is_id = isinstance(own_id, str | int) and not isinstance(own_id, bool)
    used = (*_COLUMNS[name], *(["id"] if is_id else []))
    meta = {**{key: value for key, value in record.items() if key not in used}, **labelled}
    return make_dialogue(raw, name, "unknown", context, turns=turns, own_id=str(own_id) if is_id else None, meta=meta)


def _told(value: str | list[Any] | dict[str, Any], speaker: Role, labels: LabelMap, context: ReadContext) -> Collected:
    """The turns of messages, or of a text: cut where it names who speaks, else `speaker`'s."""
    told = Collected(context.spec.roles, labels)
    if isinstance(value, str):
        parts = split_role_tags(Turn(speaker=speaker, text=value.strip()), context.spec.roles)
        told.turns += [Turn(speaker=part.speaker, text=part.text) for part in parts if part.text]
        return told
    for place, message in enumerate([value] if isinstance(value, dict) else value, 1):
        role = member(message, "role", str, f"message {place}")
        text, media = read_content(message.get("content"), f"message {place}")
        told.add(place, role, text, media=media)
    return told


def _reply(turns: Sequence[Turn], place: str) -> str:
    """The text of turns that must be the supporter's alone."""
    if not turns or any(turn.speaker != "supporter" for turn in turns):
        raise RecordError("malformed", f"{place} is no reply of the supporter alone")
    return "\n".join(turn.text for turn in turns)


def _label(value: Any, place: int) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    if value in (0, 1):
        return bool(value)
    raise RecordError("malformed", f"the label of step {place} is {value!r:.40}, neither true nor false")


def _format(name: str, title: str, expects: str) -> SourceFormat:
    return SourceFormat(name, title, "dialogues", ("en", "zh"), "unknown", expects, partial(_read, name))


PREFERENCE = _format("trl-preference", "preference pairs", "JSON, JSON Lines or Parquet with prompt, chosen, rejected")
STEPS = _format("trl-steps", "labelled steps", "JSON, JSON Lines or Parquet with prompt, completions, labels")
