"""How the importers' tests hand hand-written files to an importer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.sources.base import Imported, ReadContext, SourceFormat
from ser_toolkit.recipe import SourceSpec


@pytest.fixture
def importing(tmp_path: Path) -> Callable[..., list[Imported]]:
    """`importing(FORMAT, {"a.json": value or text}, **spec)` -> all that the importer yields of that folder.

    A value is written as JSON, a list under a name in ".jsonl" as JSON Lines.
    """

    def run(format: SourceFormat, files: dict[str, Any], **spec: Any) -> list[Imported]:
        for name, value in files.items():
            if isinstance(value, str):
                text = value
            elif name.endswith(".jsonl"):
                text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in value)
            else:
                text = json.dumps(value, ensure_ascii=False)
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")
        path = tmp_path / next(iter(files)) if len(files) == 1 else tmp_path
        context = ReadContext(SourceSpec(format=format.name, path=str(path), **spec))
        return list(format.read(path, context))

    return run
