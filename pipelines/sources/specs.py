"""What a build or a check is to read: from command line or recipe to SourceSpecs whose format and path are there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ser_toolkit.errors import UsageError
from ser_toolkit.recipe import Recipe, SourceSpec
from ser_toolkit.registry import load
from ser_toolkit.workspace import Workspace

from .base import SourceFormat

SEEDS = SourceSpec(format="seeds")
"""What is read where nothing else is named."""


def sources_of(
    home: Workspace, recipe: Recipe, given: Iterable[str] = (), limit: int | None = None
) -> list[SourceSpec]:
    """What to read: `given` ("FORMAT:PATH"), else the recipe's sources, else the seeds; `limit` is each one's."""
    specs = [_parse(s) for s in given] or [_beside(home.root, s) for s in recipe.sources] or [SEEDS]
    return specs if limit is None else [s.model_copy(update={"limit": limit}) for s in specs]


def formats_of(specs: Sequence[SourceSpec]) -> dict[str, SourceFormat]:
    """The formats by name. Raises UsageError for one that is not known, and for a path that is not there."""
    formats = {s.format: load("sources", s.format) for s in specs}
    for spec in specs:
        if spec.format == SEEDS.format:
            continue
        if not spec.path:
            raise UsageError(f"{spec.format}: no path is named", "FORMAT:PATH, or `path` in the recipe's source")
        if not Path(spec.path).exists():
            raise UsageError(f"{spec.path}: no such file or folder", "check the path after the colon of FORMAT:PATH")
    return formats


def _parse(text: str) -> SourceSpec:
    name, colon, path = text.partition(":")
    if not name or (not colon and name != SEEDS.format):
        raise UsageError(f"--source {text}: not of the form FORMAT:PATH", "`ser sources` lists the formats")
    return SourceSpec(format=name, path=path)


def _beside(root: Path, spec: SourceSpec) -> SourceSpec:
    """A recipe's relative path counts from the recipe."""
    return spec.model_copy(update={"path": str(root / spec.path)}) if spec.path else spec
