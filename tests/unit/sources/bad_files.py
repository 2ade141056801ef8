"""Files as they should not be, and what reading them comes to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pipelines.sources.base import Imported, ReadContext, SourceFormat
from ser_toolkit.errors import FAILURE_KINDS
from ser_toolkit.recipe import SourceSpec
from ser_toolkit.schema import Failure

SAID = "I’m scared - really"
HEAD = "dialogue_id,speaker,text\n"
"""Of a CSV with a turn a row."""


def dialogue(id: str, said: str = SAID, **more: Any) -> dict[str, Any]:
    return {
        "id": id,
        "turns": [{"speaker": "seeker", "text": said}, {"speaker": "supporter", "text": "Of what?"}],
        **more,
    }


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def lines(*ids: str, said: str = SAID) -> str:
    return "".join(dump(dialogue(id, said)) + "\n" for id in ids)


def read(format: SourceFormat, path: Path, data: bytes | str, **spec: Any) -> list[Imported]:
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
    found = list(format.read(path, ReadContext(SourceSpec(format=format.name, path=str(path), **spec))))
    for record in found:
        if isinstance(record, Failure):
            assert record.kind in FAILURE_KINDS
            assert (record.stage, record.source, record.file) == ("import", format.name, path.name)
            assert record.reason
            assert len(record.text) <= 500
    return found


def outcome(found: list[Imported]) -> list[str]:
    """Ids of dialogues, kinds of failures."""
    return [record.kind if isinstance(record, Failure) else record.id for record in found]


def failures(found: list[Imported]) -> list[Failure]:
    return [record for record in found if isinstance(record, Failure)]
