"""The import of a build: every record of every source, protected, into the tables `imported` and `scenarios`.

What cannot be used stands in `import_failures`: so the tables of an import are a thing of their own, taken as they are
by the next build where nothing that they hang on has changed (`kept_import`). A record whose id an earlier one has is a
Failure, a withdrawn one is passed over. What is private leaves a record before anything else sees it; its media go
into the store before that, and no name or content of theirs into a table. An import that names media is always made
again, since their files may have changed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ser_toolkit.engine import StageTotals
from ser_toolkit.errors import DataError
from ser_toolkit.media.store import MediaStore
from ser_toolkit.recipe import Recipe, SourceSpec
from ser_toolkit.schema import Dialogue, Failure, Scenario
from ser_toolkit.store import TableWriter, read_table
from ser_toolkit.workspace import Workspace

from .kept_import import fingerprint, forget_import, keep_import, kept_import
from .sources.base import Imported, ReadContext, SourceFormat
from .sources.finish import first_words
from .sources.reading import import_failure
from .sources.specs import SEEDS
from .stage_runner import StageRunner
from .stages.media import MediaCounts, MediaIntake
from .stages.protect import ProtectCounts, protect
from .withdrawing import withdrawn_ids

STAGE = "import"


async def import_sources(
    home: Workspace,
    recipe: Recipe,
    specs: Sequence[SourceSpec],
    formats: Mapping[str, SourceFormat],
    runner: StageRunner,
    languages: frozenset[str],
    *,
    fresh: bool = False,
) -> tuple[ProtectCounts, MediaCounts]:
    """Have the tables of these sources; what protection and the intake of media came to. An unchanged import is made
    again only if `fresh`.

    Seeds are read in the model's `languages` only (empty: all). Raises DataError where the sources hold no record,
    TooManyFailures where too many cannot be used.
    """
    withdrawn = withdrawn_ids(home)
    mark = fingerprint(home, specs, formats, recipe.protect, withdrawn, languages)
    found = None if fresh else kept_import(home, mark)
    media = MediaIntake(MediaStore(home.media), recipe.media, withdrawn)
    if found is None:
        forget_import(home)
        records = chain.from_iterable(
            media.take(_read(formats[s.format], s, home, languages), _folder(s)) for s in specs
        )
        found = await _write_tables(home, recipe, _unless_seen(records), runner, withdrawn)
        if not media.named:
            keep_import(home, mark, found)
    else:
        runner.progress.say(f"{STAGE:<10} {found['rows']} records as the last build read them: nothing has changed")
    totals = StageTotals(rows=found["rows"])
    for failure in read_table(home.table("import_failures"), Failure):
        runner.fail(failure, totals)
    if not totals.rows and not totals.failures:
        raise DataError("the sources hold no record", "`ser sources check FORMAT PATH` shows what is read")
    runner.check_share(STAGE, totals)
    counts = Counter(found["replaced"]), Counter(found["risk"])
    return ProtectCounts(*counts, found["raw_dropped"], found["text_dropped"]), media.counts


async def _write_tables(
    home: Workspace, recipe: Recipe, records: Iterable[Imported], runner: StageRunner, withdrawn: frozenset[str]
) -> dict[str, Any]:
    """Read everything; the number of rows, and what protection came to, as JSON."""
    dialogues = TableWriter(home.table("imported"), Dialogue)
    scenarios = TableWriter(home.table("scenarios"), Scenario)
    failures = TableWriter(home.table("import_failures"), Failure)
    protected = ProtectCounts()
    runner.progress.start(STAGE, None)
    try:
        for number, record in enumerate(records, 1):
            record, found = protect(record, recipe.protect)
            protected += found
            if isinstance(record, Failure):
                runner.stop_if_strict(record)
                failures.append(record)
                runner.progress.advance(0, [record])
            else:
                if record.id not in withdrawn:
                    (dialogues if isinstance(record, Dialogue) else scenarios).append(record)  # type: ignore[arg-type]
                runner.progress.advance(1, [])
            if number % 16 == 0:
                await asyncio.sleep(0)  # Ctrl-C is heard here
    except BaseException:
        for table in (dialogues, scenarios, failures):
            table.abandon()
        raise
    for table in (dialogues, scenarios, failures):
        table.finish()
    runner.progress.stop()
    return {
        "rows": dialogues.rows + scenarios.rows,
        "replaced": protected.spans,
        "risk": protected.risk,
        "raw_dropped": protected.raw_dropped,
        "text_dropped": protected.text_dropped,
    }


def _read(fmt: SourceFormat, spec: SourceSpec, home: Workspace, languages: frozenset[str]) -> Iterator[Imported]:
    records = fmt.read(Path(spec.path), ReadContext(spec, home.maps))
    if spec.format == SEEDS.format and languages:
        records = (r for r in records if isinstance(r, Failure) or r.lang in languages)
    return islice(records, spec.limit)


def _folder(spec: SourceSpec) -> Path:
    """Where the files that a source names must lie."""
    path = Path(spec.path)
    return path if path.is_dir() else path.parent


def _unless_seen(records: Iterable[Imported]) -> Iterator[Imported]:
    """The records, and a Failure for each whose id an earlier one has."""
    seen: dict[str, str] = {}
    for record in records:
        if isinstance(record, Failure):
            yield record
            continue
        source = record.source
        where = f"{source.format}:{source.file} {source.position}".strip()
        first = seen.setdefault(record.id, where)
        if first is where:
            yield record
            continue
        reason = f"the id {record.id} stands already at {first}"
        yield import_failure(
            *(source.format, source.file, "duplicate_id", reason, source.position, first_words(record), record.id)
        )
