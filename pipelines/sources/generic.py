"""One's own dialogues: JSON, JSON Lines, CSV, Parquet and `datasets` folders, with a column mapping.

A record is a dialogue: its turns are objects with speaker and text, objects keyed by the speaker, or (in a cell of
a table) such a list as JSON. Or a row is a turn (`joining`). What the recipe's `columns` does not say is looked for
under common names (`columns`); fields without a name of ours go to `meta`, a turn's under "turn_fields". The
licence is "unknown" unless the recipe states one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ser_toolkit.errors import RecordError
from ser_toolkit.schema import Dialogue, Failure, Media, Role
from ser_toolkit.taxonomy import EMOTIONS, STRATEGIES, LabelMap, fold, load_map

from .base import Imported, ReadContext, SourceFormat
from .collecting import Collected
from .columns import (
    DIALOGUE_FIELDS,
    MEDIA_FIELDS,
    ROW_FIELDS,
    TURN_FIELDS,
    Fields,
    check_names,
    key_of,
    missing,
    turns_key,
)
from .finish import make_dialogue, read_records
from .joining import Joined, join_rows
from .media_parts import may_be_media, media_of
from .reading import Raw, csv_rows, json_records
from .shapes import turns_of
from .tables import dataset_rows, parquet_rows
from .turn_rules import ROLE_WORDS


def _read(
    name: str,
    rows: Callable[[Path, ReadContext], Iterator[Raw | Failure]],
    is_table: bool,
    path: Path,
    context: ReadContext,
) -> Iterator[Imported]:
    columns = context.spec.columns
    check_names(columns)
    labels = _labels(name, context.maps)
    raws = join_rows(rows(path, context), columns, name, is_table=is_table)
    return read_records(raws, name, lambda raw: _dialogue(raw, name, labels, context))


def _labels(name: str, overrides: Path | None) -> LabelMap:
    """SER's own words mean themselves; the workspace's `maps/<format>.toml` adds to them."""
    own = load_map(name, overrides)
    return LabelMap(
        strategies={**{fold(word): (word, word) for word in STRATEGIES}, **own.strategies},
        emotions={**{fold(word): (word, word) for word in EMOTIONS}, **own.emotions},
        problems=own.problems,
        speakers=own.speakers,
        missing=own.missing,
    )


def _dialogue(raw: Raw, name: str, labels: LabelMap, context: ReadContext) -> Dialogue:
    record: Any = {"turns": raw.value} if isinstance(raw.value, list) else raw.value
    if not isinstance(record, dict):
        raise RecordError("malformed", f"a record is an object or a list of turns, not {type(record).__name__}")
    spec = context.spec
    collected = Collected(spec.roles, labels)
    if isinstance(record, Joined):
        own_id, fields = record["id"], _collect_rows(record["turns"], spec.columns, collected, raw.files)
        shape = "row a turn" if own_id else "objects"
    else:
        key = turns_key(record, spec.columns)
        if key is None:
            raise RecordError("malformed", missing("turns (a list)", None, record))
        fields = Fields(record, spec.columns, {key})
        own_id = fields.id()
        shape = _collect_list(_as_list(record[key], key), spec.columns, spec.roles, collected, raw.files)
    meta: dict[str, Any] = {"shape": shape, **collected.meta()}
    if name == "datasets" and raw.file:
        meta["split"] = raw.file
        own_id = f"{raw.file}-{own_id}" if own_id else ""
    situation, problem, emotion = (fields.text(field) for field in ("situation", "problem", "emotion"))
    return make_dialogue(
        raw,
        name,
        "unknown",
        context,
        turns=collected.turns,
        own_id=own_id,
        situation=situation,
        problem=problem,
        emotion=labels.emotion(emotion),
        meta=fields.rest() | meta,
    )


def _as_list(value: Any, key: str) -> list[Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as exc:
            raise RecordError("malformed", f"{key!r} is a text, but no JSON list: {exc}", text=value) from exc
    if not isinstance(value, list):
        raise RecordError("malformed", f"{key!r} is of type {type(value).__name__}, not a list of turns")
    return value


def _collect_list(
    items: list[Any],
    columns: Mapping[str, str],
    roles: Mapping[str, Role],
    collected: Collected,
    files: Mapping[str, bytes],
) -> str:
    """The turns of a list; returns the shape's name."""
    keyed = _speaker_keys(items, columns, roles)
    if keyed:
        triples, shape = turns_of(items, *keyed, strategy_key=columns.get("turns.strategy", "strategy"))
        for place, (role, text, strategy) in enumerate(triples, 1):
            collected.add(place, role, text, strategy=strategy)
        return shape
    for place, item in enumerate(items, 1):
        if not isinstance(item, dict):
            raise RecordError("malformed", f"turn {place} is of type {type(item).__name__}, not an object")
        _collect_turn(place, item, columns, collected, files)
    return "objects"


def _speaker_keys(items: list[Any], columns: Mapping[str, str], roles: Mapping[str, Role]) -> tuple[str, str] | None:
    """The seeker's and the supporter's key, where turns are objects keyed by the speaker."""
    objects = [item for item in items if isinstance(item, dict)]
    if not objects or "turns.text" in columns or key_of(objects[0], "turns.speaker", columns) is not None:
        return None
    words = {**ROLE_WORDS, **{fold(word): role for word, role in roles.items()}}
    keys = {words[fold(key)]: key for item in objects for key in item if fold(key) in words}
    return (keys["seeker"], keys["supporter"]) if len(keys) == 2 else None


def _collect_turn(
    place: int, item: dict[str, Any], columns: Mapping[str, str], collected: Collected, files: Mapping[str, bytes]
) -> None:
    found: dict[str, Any] = {}
    used: set[str | None] = set()
    media: list[Media] = []
    for field in TURN_FIELDS:
        is_needed = field in ("turns.speaker", "turns.text")
        named = columns.get(field)
        key = named if named in item else None if named else key_of(item, field, {})
        if key is None and is_needed:
            raise RecordError("malformed", f"turn {place}: {missing(field, named, item)}")
        if key is not None and (kind := MEDIA_FIELDS.get(field)):
            if not named and not may_be_media(item[key], kind):
                continue
            media += media_of(item[key], kind, f"{key!r} of turn {place}", files)
        used.add(key)
        found[field] = item[key] if key else None
    rest = {key: value for key, value in item.items() if key not in used}
    collected.add(
        place,
        found["turns.speaker"],
        found["turns.text"],
        strategy=found["turns.strategy"],
        emotion=found["turns.emotion"],
        media=media,
        rest=rest,
    )


def _collect_rows(
    rows: list[dict[str, Any]], columns: Mapping[str, str], collected: Collected, files: Mapping[str, bytes]
) -> Fields:
    """The turns of rows; returns what the rows share: columns with one value, and those mapped to the dialogue."""
    of_turn = {field: columns[own] for field, own in ROW_FIELDS.items() if own in columns} | {
        field: column for field, column in columns.items() if field in TURN_FIELDS
    }
    of_dialogue = {field: column for field, column in columns.items() if field in DIALOGUE_FIELDS}
    turn_keys = {of_turn.get(field) or key_of(rows[0], field, {}) for field in TURN_FIELDS}
    shared: dict[str, Any] = {}
    for key in rows[0]:
        values = [row[key] for row in rows if row.get(key) not in (None, "")]
        is_one = key not in turn_keys and all(value == values[0] for value in values)
        if key in of_dialogue.values() or is_one:
            shared[key] = values[0] if values else None
    for place, row in enumerate(rows, 1):
        own = {key: value for key, value in row.items() if key not in shared or key in turn_keys}
        _collect_turn(place, own, of_turn, collected, files)
    return Fields(shared, of_dialogue, {key_of(rows[0], "dialogue_id", columns) or ""})


def _format(
    name: str, title: str, expects: str, rows: Callable[..., Iterator[Raw | Failure]], is_table: bool
) -> SourceFormat:
    read = partial(_read, name, rows, is_table)
    return SourceFormat(name, title, "dialogues", ("en", "zh"), "unknown", expects, read)


JSON = _format("json", "one's own JSON", "a list of dialogues, or a dialogue a file", json_records, False)
JSONL = _format("jsonl", "one's own JSON Lines", "a dialogue a line", json_records, False)
CSV = _format(
    "csv", "one's own CSV", "a turn a row with dialogue_id, speaker, text; or a dialogue a row", csv_rows, True
)
PARQUET = _format("parquet", "one's own Parquet", "a dialogue or a turn a row", parquet_rows, True)
DATASETS = _format("datasets", "a dataset on disk", "a folder written by save_to_disk", dataset_rows, True)
