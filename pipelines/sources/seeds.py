"""The bundled seeds: hand-written dialogues and scenarios, for a first build that needs no data of one's own.

Written for this project, in English and Chinese; no text of any corpus. `path` may name another folder with
`dialogues.json` and `scenarios.json` in the same form.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ser_toolkit.errors import UsageError
from ser_toolkit.schema import Cue, Dialogue, Label, Scenario, Speaker, Turn

from .base import Imported, ReadContext, SourceFormat
from .finish import make_dialogue, make_source, member, read_records
from .reading import Raw, json_records

NAME = "seeds"
LICENCE = "Apache-2.0"
BUNDLED = Path(__file__).parents[1] / "seeds"


def read(path: Path, context: ReadContext) -> Iterator[Imported]:
    """The dialogues first, then the scenarios."""
    folder = path if context.spec.path else BUNDLED
    files = {kind: folder / f"{kind}.json" for kind in ("dialogues", "scenarios")}
    if not any(f.exists() for f in files.values()):
        raise UsageError(f"{folder}: neither dialogues.json nor scenarios.json is there", "leave the path out for ours")
    for kind, parse in (("dialogues", _dialogue), ("scenarios", _scenario)):
        if files[kind].exists():
            yield from read_records(json_records(files[kind], context), NAME, lambda r, p=parse: p(r, context))


def _dialogue(raw: Raw, context: ReadContext) -> Dialogue:
    record: dict[str, Any] = raw.value
    turns = [
        Turn(
            speaker=turn["speaker"],
            text=turn["text"],
            strategies=(_label(turn["strategy"]),) if turn.get("strategy") else (),
            cues=tuple(
                Cue(channel=channel, text=text, source=f"corpus:{NAME}")
                for channel, text in turn.get("cues", {}).items()
            ),
            origin="person",
        )
        for turn in member(record, "turns", list)
    ]
    return make_dialogue(
        raw,
        NAME,
        LICENCE,
        context,
        turns=turns,
        own_id=record["id"],
        situation=record.get("situation", ""),
        problem=record.get("problem", ""),
        emotion=_label(record["emotion"]) if record.get("emotion") else None,
    )


def _scenario(raw: Raw, context: ReadContext) -> Scenario:
    record: dict[str, Any] = raw.value
    persona = record.get("persona", "")
    return Scenario(
        id=f"{NAME}-{record['id']}",
        lang=record["lang"],
        source=make_source(raw, NAME, LICENCE, context),
        situation=record["situation"],
        problem=record.get("problem", ""),
        emotion=_label(record["emotion"]) if record.get("emotion") else None,
        intensity=record.get("intensity"),
        culture=record.get("culture", ""),
        speakers=(Speaker(role="seeker", persona=persona),) if persona else (),
        hidden_intention=record.get("hidden_intention", ""),
        opening=record.get("opening", ""),
    )


def _label(word: str) -> Label:
    return Label(original=word, corpus=word, ser=word)


FORMAT = SourceFormat(
    name=NAME,
    title="Bundled hand-written seeds",
    yields="dialogues",
    languages=("en", "zh"),
    licence=LICENCE,
    expects="nothing (the bundled ones), or a folder with dialogues.json and scenarios.json",
    read=read,
)
