"""ExTES: synthetic support dialogues with a strategy per supporter turn.

Written from memory of the published file (arXiv 2308.11584), which was not at hand: {scene, description, content:
[{"User": ...}, {"AI": ..., "AI Strategy": ...}]}. Files in the wild also write both speakers in one object, or the
text a level deeper; `meta["shape"]` names what was met.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ser_toolkit.schema import Dialogue, Turn

from .base import Imported, ReadContext, SourceFormat
from .finish import make_dialogue, member, read_records
from .reading import Raw, json_records
from .shapes import turns_of
from .words import Words, own_id, text_or_none

NAME, LICENCE = "extes", "unknown"


def read(path: Path, context: ReadContext) -> Iterator[Imported]:
    words = Words(NAME, context)

    def parse(raw: Raw) -> Dialogue:
        record = raw.value
        spoken, shape = turns_of(member(record, "content", list))
        return make_dialogue(
            raw,
            NAME,
            LICENCE,
            context,
            own_id=own_id(record.get("id")),
            turns=[Turn(speaker=who, text=text, strategies=words.strategies(word)) for who, text, word in spoken],
            situation=text_or_none(record, "description") or "",
            problem=words.problem(text_or_none(record, "scene")),
            meta={"shape": shape},
        )

    yield from read_records(json_records(path, context), NAME, parse)


FORMAT = SourceFormat(
    name=NAME,
    title="ExTES",
    yields="dialogues",
    languages=("en",),
    licence=LICENCE,
    expects="a JSON list of {scene, description, content} (shape from memory, not seen)",
    read=read,
)
