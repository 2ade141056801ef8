"""What an importer is: a name, what it reads, and a generator of records.

An importer streams: it holds one record at a time, and turns each into a Dialogue (or Scenario) or a Failure
with file, position and reason, so that none vanishes. It never raises on bad data; what cannot be read at all (a
missing path) is a UsageError of the caller. To add one: write a module with a `read` generator, declare its
SourceFormat under `ser_toolkit.sources` in pyproject.toml, add a hand-written sample to its test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ser_toolkit.recipe import SourceSpec
from ser_toolkit.schema import Dialogue, Failure, Scenario

Imported = Dialogue | Scenario | Failure


@dataclass(frozen=True, slots=True)
class ReadContext:
    """How to read: the recipe's SourceSpec and the workspace's folder of label maps."""

    spec: SourceSpec
    maps: Path | None = None


@dataclass(frozen=True, slots=True)
class SourceFormat:
    """One format. `read(path, context)` yields in the file's order; `licence` is what the corpus' owners state.

    `looks_beside`: what lies beside a file that is read matters too (its media).
    """

    name: str
    title: str
    yields: Literal["dialogues", "scenarios"]
    languages: tuple[str, ...]
    licence: str
    expects: str
    read: Callable[[Path, ReadContext], Iterator[Imported]]
    looks_beside: bool = False
