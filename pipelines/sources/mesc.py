"""MESC: scenes of a television therapy, with emotion per turn and strategy per turn of the therapist.

JSON Lines of dialogues, or CSV of utterances, told apart by suffix; the rows of one Dialogue_ID that follow one
another are a dialogue. The captioners' clue sentences that stand glued to the text become cues, or stay and are
flagged (`cues.py`). The files name no picture or sound: dialogues are flagged "no_media".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from ser_toolkit.schema import Dialogue, Failure, Json, Turn

from .base import Imported, ReadContext, SourceFormat
from .cues import KEPT, split_cues
from .finish import make_dialogue, member, read_records
from .joining import Joined, join_rows
from .reading import Raw, csv_rows, json_records
from .words import Words, by_suffix, own_id, text_or_none

NAME, LICENCE = "mesc", "unknown"
_CLOCK = re.compile(r"(\d+):(\d\d):(\d\d)(?:[,.](\d{1,3}))?")


def read(path: Path, context: ReadContext) -> Iterator[Imported]:
    words = Words(NAME, context)

    def parse(raw: Raw) -> Dialogue:
        return _from_rows(raw, words, context) if isinstance(raw.value, Joined) else _from_object(raw, words, context)

    readers = {".jsonl": json_records, ".json": json_records, ".txt": json_records, ".csv": _scenes, ".tsv": _scenes}
    yield from read_records(by_suffix(path, context, readers), NAME, parse)


def _from_object(raw: Raw, words: Words, context: ReadContext) -> Dialogue:
    record = raw.value
    turns = [
        _turn(
            words,
            where=f"turn {place}",
            who=member(turn, "speaker", str, f"turn {place}"),
            text=member(turn, "text", str, f"turn {place}"),
            emotion=turn.get("emotion"),
            strategy=turn.get("strategy"),
        )
        for place, turn in enumerate(member(record, "dialog", list), 1)
    ]
    return make_dialogue(
        raw,
        NAME,
        LICENCE,
        context,
        own_id=own_id(record.get("id")),
        turns=turns,
        situation=text_or_none(record, "situation") or "",
        problem=words.problem(text_or_none(record, "problem_type")),
        flags=("no_media",),
        meta={"shape": "object"},
    )


def _from_rows(raw: Raw, words: Words, context: ReadContext) -> Dialogue:
    rows: list[dict[str, str]] = raw.value["turns"]
    columns = _columns(context)
    turns = [
        _turn(
            words,
            where=f"row {place}",
            who=row[columns["speaker"]],
            text=row[columns["text"]],
            emotion=row.get("Emotion"),
            strategy=row.get("Strategy"),
            start_s=_seconds(row.get("StartTime")),
            end_s=_seconds(row.get("EndTime")),
        )
        for place, row in enumerate(rows, 1)
    ]
    scene: Json = {key: rows[0][key] for key in ("Season", "Episode") if rows[0].get(key)}
    stem = PurePosixPath(raw.file).stem
    return make_dialogue(
        raw,
        NAME,
        LICENCE,
        context,
        own_id="-".join([stem, *map(str, scene.values()), raw.value["id"]]),
        turns=turns,
        flags=("no_media",),
        meta={"shape": "rows", **scene, "Dialogue_ID": raw.value["id"]},
    )


def _columns(context: ReadContext) -> dict[str, str]:
    return {"dialogue_id": "Dialogue_ID", "speaker": "Speaker", "text": "Utterance", **context.spec.columns}


def _scenes(path: Path, context: ReadContext) -> Iterator[Raw | Failure]:
    return join_rows(csv_rows(path, context), _columns(context), NAME, is_table=True)


def _turn(
    words: Words,
    *,
    where: str,
    who: str,
    text: str,
    emotion: Any,
    strategy: Any,
    start_s: float | None = None,
    end_s: float | None = None,
) -> Turn:
    split = split_cues(text)
    return Turn(
        speaker=words.role(who, where),
        text=split.said,
        raw=text if split.cues else None,
        cues=split.cues,
        flags=(KEPT,) if split.kept else (),
        emotions=words.emotions(emotion),
        strategies=words.strategies(strategy),
        start_s=start_s,
        end_s=end_s,
    )


def _seconds(clock: str | None) -> float | None:
    """ "00:01:02,500" -> 62.5; `None` where there is no such time."""
    found = _CLOCK.fullmatch((clock or "").strip())
    if not found:
        return None
    hours, minutes, seconds, fraction = found.groups(default="0")
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + int(fraction.ljust(3, "0")) / 1000


FORMAT = SourceFormat(
    name=NAME,
    title="MESC",
    yields="dialogues",
    languages=("en",),
    licence=LICENCE,
    expects="JSON Lines of dialogues or CSV of utterances (the suffix tells)",
    read=read,
)
