"""ESConv: emotional-support dialogues with a strategy per supporter turn and a survey of both speakers.

Also its rejected dialogues ("FailedESConv"), which call the two speakers "speaker" (the seeker) and "listener".
Numbers are written as text; a survey value that was not given is `None`. Source: arXiv 2106.01144.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ser_toolkit.errors import RecordError
from ser_toolkit.schema import Dialogue, Survey, Turn

from .base import Imported, ReadContext, SourceFormat
from .finish import make_dialogue, member, read_records
from .reading import Raw, json_records
from .words import Words, own_id, score, text_or_none

NAME, LICENCE = "esconv", "CC-BY-NC-4.0"


def read(path: Path, context: ReadContext) -> Iterator[Imported]:
    words = Words(NAME, context)

    def parse(raw: Raw) -> Dialogue:
        record = raw.value
        dialog = member(record, "dialog", list)
        experience = text_or_none(record, "experience_type")
        return make_dialogue(
            raw,
            NAME,
            LICENCE,
            context,
            own_id=own_id(record.get("id")),
            turns=[_turn(turn, f"turn {place}", words) for place, turn in enumerate(dialog, 1)],
            situation=text_or_none(record, "situation") or "",
            problem=words.problem(text_or_none(record, "problem_type")),
            emotion=words.emotion(text_or_none(record, "emotion_type")),
            survey=_survey(record.get("survey_score") or {}),
            meta={"experience_type": experience} if experience else {},
        )

    yield from read_records(json_records(path, context), NAME, parse)


def _turn(turn: Any, where: str, words: Words) -> Turn:
    text = member(turn, "content", str, where)
    annotation = turn.get("annotation") or {}
    return Turn(
        speaker=words.role(member(turn, "speaker", str, where), where),
        text=text,
        strategies=words.strategies(_part(annotation, "strategy", where)),
        feedback=score(annotation, "feedback"),
    )


def _part(annotation: Any, key: str, where: str) -> Any:
    if not isinstance(annotation, dict):
        raise RecordError("malformed", f"'annotation' of {where} is no object")
    return annotation.get(key)


def _survey(survey: Any) -> Survey:
    seeker, supporter = survey.get("seeker") or {}, survey.get("supporter") or {}
    return Survey(
        initial_intensity=score(seeker, "initial_emotion_intensity"),
        final_intensity=score(seeker, "final_emotion_intensity"),
        empathy=score(seeker, "empathy"),
        relevance=score(seeker, "relevance"),
        supporter_relevance=score(supporter, "relevance"),
    )


FORMAT = SourceFormat(
    name=NAME,
    title="ESConv",
    yields="dialogues",
    languages=("en",),
    licence=LICENCE,
    expects="a JSON list or JSON Lines of dialogues, or one dialogue",
    read=read,
)
