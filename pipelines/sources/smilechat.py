"""SmileChat: Chinese support dialogues, one JSON file each, rewritten from single-turn questions and answers.

A file is a list of {role: client or counselor, content, annotation: [{sentence, label}]}. The labels of the published
files that were seen are all empty; one that is not becomes a strategy of its turn. The file's name is the id.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from ser_toolkit.errors import RecordError
from ser_toolkit.schema import Dialogue, Turn

from .base import Imported, ReadContext, SourceFormat
from .finish import make_dialogue, member, read_records
from .reading import Raw, json_files
from .words import Words

NAME, LICENCE = "smilechat", "CC0-1.0"


def read(path: Path, context: ReadContext) -> Iterator[Imported]:
    words = Words(NAME, context)

    def parse(raw: Raw) -> Dialogue:
        if not isinstance(raw.value, list):
            raise RecordError("malformed", f"the file holds {type(raw.value).__name__}, not a list of turns")
        return make_dialogue(
            raw,
            NAME,
            LICENCE,
            context,
            own_id="-".join(PurePosixPath(raw.file).with_suffix("").parts),
            turns=[_turn(turn, f"turn {place}", words) for place, turn in enumerate(raw.value, 1)],
        )

    yield from read_records(json_files(path, context), NAME, parse)


def _turn(turn: Any, where: str, words: Words) -> Turn:
    text = member(turn, "content", str, where)
    labels = [sentence.get("label") for sentence in turn.get("annotation") or []]
    return Turn(
        speaker=words.role(member(turn, "role", str, where), where),
        text=text,
        strategies=tuple(dict.fromkeys(words.strategies(labels))),
    )


FORMAT = SourceFormat(
    name=NAME,
    title="SmileChat",
    yields="dialogues",
    languages=("zh",),
    licence=LICENCE,
    expects="a folder of JSON files, one dialogue each",
    read=read,
)
