"""The import of a build: every record of every source, protected, into the tables `imported` and `scenarios`.

A record whose id an earlier one has is a Failure, a withdrawn one is passed over. What is private leaves a record
before anything else sees it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from ser_toolkit.engine import StageTotals
from ser_toolkit.errors import DataError, UsageError
from ser_toolkit.recipe import Recipe, SourceSpec
from ser_toolkit.registry import load
from ser_toolkit.schema import Dialogue, Failure, Scenario
from ser_toolkit.store import TableWriter
from ser_toolkit.workspace import Workspace

from .sources.base import Imported, ReadContext, SourceFormat
from .stage_runner import StageRunner
from .stages.protect import ProtectCounts, protect
from .withdrawing import withdrawn_ids

STAGE = "import"
SEEDS = SourceSpec(format="seeds")
"""What is read where nothing else is named."""


def sources_of(
    home: Workspace, recipe: Recipe, given: Iterable[str] = (), limit: int | None = None
) -> list[SourceSpec]:
    """What to read: `given` ("FORMAT:PATH"), else the recipe's sources, else the seeds; `limit` is each one's."""
    specs = [_parse(s) for s in given] or [_beside(home.root, s) for s in recipe.sources] or [SEEDS]
    return specs if limit is None else [s.model_copy(update={"limit": limit}) for s in specs]


def formats_of(specs: Iterable[SourceSpec]) -> dict[str, SourceFormat]:
    """The formats by name. Raises UsageError for one that is not known."""
    return {s.format: load("sources", s.format) for s in specs}


async def import_sources(
    home: Workspace,
    recipe: Recipe,
    specs: Sequence[SourceSpec],
    formats: Mapping[str, SourceFormat],
    runner: StageRunner,
    languages: frozenset[str],
) -> ProtectCounts:
    """Write both tables; what protection came to. Seeds are read in the model's `languages` only (empty: all).

    Raises DataError where the sources hold no record, TooManyFailures where too many cannot be used.
    """
    withdrawn = withdrawn_ids(home)
    seen: dict[str, str] = {}
    dialogues = TableWriter(home.table("imported"), Dialogue)
    scenarios = TableWriter(home.table("scenarios"), Scenario)
    totals, protected = StageTotals(), ProtectCounts()
    runner.progress.start(STAGE, None)
    try:
        for spec in specs:
            for record in _read(formats[spec.format], spec, home, languages):
                record, found = protect(_unless_seen(record, seen, spec), recipe.protect)
                protected += found
                totals.records += 1
                if isinstance(record, Failure):
                    runner.fail(record, totals)
                elif record.id not in withdrawn:
                    (dialogues if isinstance(record, Dialogue) else scenarios).append(record)  # type: ignore[arg-type]
                    totals.rows += 1
                runner.progress.advance(1, [record] if isinstance(record, Failure) else [])
                if totals.records % 16 == 0:
                    await asyncio.sleep(0)  # Ctrl-C is heard here
    except BaseException:
        dialogues.abandon()
        scenarios.abandon()
        raise
    dialogues.finish()
    scenarios.finish()
    runner.progress.stop()
    if not totals.rows and not totals.failures:
        raise DataError("the sources hold no record", "`ser sources check FORMAT PATH` shows what is read")
    runner.check_share(STAGE, totals)
    return protected


def _read(fmt: SourceFormat, spec: SourceSpec, home: Workspace, languages: frozenset[str]) -> Iterator[Imported]:
    records = fmt.read(Path(spec.path), ReadContext(spec, home.maps))
    if spec.format == SEEDS.format and languages:
        records = (r for r in records if isinstance(r, Failure) or r.lang in languages)
    return islice(records, spec.limit)


def _unless_seen(record: Imported, seen: dict[str, str], spec: SourceSpec) -> Imported:
    """The record, or a Failure where an earlier source already gave its id."""
    if isinstance(record, Failure):
        return record
    where = f"{spec.format}:{record.source.file} {record.source.position}".strip()
    first = seen.setdefault(record.id, where)
    if first is where:
        return record
    return Failure(
        kind="duplicate_id",
        stage=STAGE,
        reason=f"the id {record.id} stands already at {first}",
        record_id=record.id,
        source=spec.format,
        file=record.source.file,
        position=record.source.position,
    )


def _parse(text: str) -> SourceSpec:
    name, colon, path = text.partition(":")
    if not name or (not colon and name != SEEDS.format):
        raise UsageError(f"--source {text}: not of the form FORMAT:PATH", "`ser sources` lists the formats")
    return SourceSpec(format=name, path=path)


def _beside(root: Path, spec: SourceSpec) -> SourceSpec:
    """A recipe's relative path counts from the recipe."""
    return spec.model_copy(update={"path": str(root / spec.path)}) if spec.path else spec
