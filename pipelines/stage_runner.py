"""How a build runs one stage: into its table, failures counted and kept, and an end where too many fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ser_toolkit.engine import Stage, StageTotals, run_stage
from ser_toolkit.errors import DataError, TooManyFailures
from ser_toolkit.progress import Progress
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Failure, Record
from ser_toolkit.store import TableWriter
from ser_toolkit.workspace import Workspace


@dataclass(slots=True)
class StageRunner:
    """Runs the stages of one build. `places` is how many records may be under way at once."""

    home: Workspace
    recipe: Recipe
    progress: Progress
    failures: TableWriter[Failure]
    strict: bool
    places: int
    kinds: Counter[str] = field(default_factory=Counter)
    """The build's failures by kind, those of a crisis by its level too."""

    async def run(
        self,
        name: str,
        records: Iterable[Any],
        stage: Stage[Any],
        table: TableWriter[Any],
        total: int | None = None,
    ) -> None:
        """Run one stage into its table; rows keep the order of the records. Raises TooManyFailures."""
        totals = StageTotals()

        def emit(record: Record, rows: list[Record]) -> None:
            for row in rows:
                if isinstance(row, Failure):  # what is lost in a crisis is counted on its own
                    risk = getattr(record, "risk", None)
                    self.fail(row.model_copy(update={"risk": risk}) if risk else row, totals)
                else:
                    table.append(row)
                    totals.rows += 1

        self.progress.start(name, total)
        try:
            await run_stage(name, records, stage, emit, concurrency=self.places, watcher=self.progress)
        except BaseException:
            table.abandon()
            raise
        table.finish()
        if totals.rows or totals.failures:
            self.progress.stop()
        self.check_share(name, totals)

    def fail(self, failure: Failure, totals: StageTotals) -> None:
        """Keep a failure, and count it. Raises DataError where the build is strict."""
        self.stop_if_strict(failure)
        self.failures.append(failure)
        totals.failures += 1
        self.kinds[f"{failure.kind}, {failure.risk} risk" if failure.risk else failure.kind] += 1

    def stop_if_strict(self, failure: Failure) -> None:
        """Raises DataError for a failure, where the build is strict."""
        if self.strict:
            where = " ".join(x for x in (failure.file, failure.position, failure.record_id) if x)
            raise DataError(f"{failure.stage}: {where}: {failure.reason}", "mend it, or leave out --strict")

    def check_share(self, stage: str, totals: StageTotals) -> None:
        """Raises TooManyFailures past the recipe's `failures.max_share`."""
        done, limit = totals.rows + totals.failures, self.recipe.failures.max_share
        if totals.failures > limit * done:
            kinds = ", ".join(f"{k} {n}" for k, n in sorted(self.kinds.items()))
            raise TooManyFailures(
                f"{stage}: {totals.failures} of {done} failed, more than failures.max_share {limit:g} ({kinds})",
                f"each stands in {self.home.table('failures')}; mend the cause, or allow more: "
                f"--set failures.max_share={min(1.0, totals.failures / done + 0.005):.2f}",
            )
