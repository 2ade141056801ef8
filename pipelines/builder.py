"""`ser build`: the order of the stages, and what stands between them.

    import and protect -> synthesize (scenarios only) -> filter -> sample and reason -> rewrite -> export

Each stage reads tables and writes one; the engine runs it, the journal remembers its calls. Nothing here is resumed by
bookkeeping of its own: a build that was stopped is run again from the start and replays what it has paid for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import uvloop

from ser_toolkit.engine import Stage, StageTotals, run_stage
from ser_toolkit.errors import DataError, TooManyFailures, UsageError
from ser_toolkit.journal import Journal
from ser_toolkit.llm.journaled import JournaledChat
from ser_toolkit.llm.open import open_model
from ser_toolkit.progress import Progress
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe, SourceSpec, load_recipe
from ser_toolkit.registry import load
from ser_toolkit.releases.write import check_version
from ser_toolkit.schema import Dialogue, Failure, Record, Scenario, Trace, Verdict
from ser_toolkit.store import TableWriter, read_table, write_table
from ser_toolkit.workspace import Workspace

from .exporting import ExportResult, export_tables
from .lineage import forget_build, lineage_of, save_build
from .rewriting import notes_of, rewrite_dialogues
from .sources.base import ReadContext, SourceFormat
from .stages.filter import filter_is_enforced, judge_dialogue
from .stages.protect import ProtectCounts, protect, supporter_may_be_imitated
from .stages.reason import reason
from .stages.sample import keep_drawn
from .stages.synthesize import synthesize
from .withdrawing import withdrawn_ids


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What a build came to. `calls` were made now, `replayed` came from the journal."""

    export: ExportResult
    failures: dict[str, int]
    calls: int
    replayed: int
    tokens: int
    cost: float | None
    seconds: float
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            **self.export.to_json(),
            "failures": sum(self.failures.values()),
            "failure_kinds": self.failures,
            "calls": self.calls,
            "replayed": self.replayed,
            "tokens": self.tokens,
            "cost": self.cost,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
        }

    def render(self) -> str:
        calls = f"{self.calls} model calls, {self.replayed} replayed, {self.tokens:,} tokens"
        cost = "" if self.cost is None else f", {self.cost:.4f} USD"
        failed = ", ".join(f"{k} {n}" for k, n in sorted(self.failures.items())) or "none"
        lines = [
            self.export.render(),
            f"  failures  {failed}",
            f"  calls     {calls}{cost}, {self.seconds:.1f} s",
        ]
        lines += [f"  note      {n}" for n in self.notes]
        return "\n".join([*lines, self.export.next_steps()])


def build(
    workspace: str | Path = ".",
    *,
    sources: Iterable[str] = (),
    limit: int | None = None,
    model: str | None = None,
    sets: Iterable[str] = (),
    version: str | None = None,
    fresh: bool = False,
    strict: bool = False,
    retry_failures: bool = False,
    quiet: bool = False,
) -> BuildResult:
    """Build a release in `workspace`, from its ser.yaml and what is given here; made to be run again.

    `sources` are "FORMAT:PATH", `sets` "key=value", as on the command line. Raises SerError: UsageError for the
    recipe, DataError for data and workspace, RemoteError for the model, TooManyFailures past `failures.max_share`.
    """
    home = Workspace(Path(workspace))
    check_version(version)
    flags: dict[str, Any] = {} if model is None else {"llm.model": model}
    recipe = load_recipe(home.root, sets, flags)
    specs = [_parse_source(s) for s in sources] or [_beside(home.root, s) for s in recipe.sources] or [SEEDS]
    specs = [s.model_copy(update={"limit": limit}) for s in specs] if limit is not None else specs
    with home.locked():
        work = _Build(home, recipe, specs, Progress(quiet=quiet), strict=strict)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(work.run(version=version, fresh=fresh, retry_failures=retry_failures))


SEEDS = SourceSpec(format="seeds")


@dataclass(slots=True)
class _Build:
    """One run of a build."""

    home: Workspace
    recipe: Recipe
    specs: Sequence[SourceSpec]
    progress: Progress
    strict: bool
    kinds: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    protected: ProtectCounts = field(default_factory=ProtectCounts)
    in_crisis: int = 0
    rewriting: dict[str, Any] | None = None

    async def run(self, *, version: str | None, fresh: bool, retry_failures: bool) -> BuildResult:
        began = time.monotonic()
        to_retry = self._failed_calls() if retry_failures else []
        forget_build(self.home)
        formats = {s.format: load("sources", s.format) for s in self.specs}
        journal = Journal(self.home.journal, fresh=fresh)
        failures = TableWriter(self.home.table("failures"), Failure)
        try:
            journal.retire(to_retry)
            chat = JournaledChat(open_model(self.recipe.llm), journal)
            self.progress.chat = chat
            try:
                await self._import(formats, chat, failures)
                await self._stages(chat, failures)
            finally:
                self.progress.stop()
                await chat.aclose()
            journal.flush()
        except TooManyFailures:
            failures.finish()
            raise
        except BaseException:
            failures.abandon()
            raise
        finally:
            journal.close()
        failures.finish()
        found = {"replaced": dict(self.protected.spans), "dialogues_by_risk": dict(self.protected.risk)}
        lineage = lineage_of(self.recipe, self.specs, formats, chat, found)
        save_build(self.home, {**lineage, "rewriting": self.rewriting} if self.rewriting else lineage)
        exported = export_tables(self.home, version)
        return BuildResult(
            export=exported,
            failures=self.kinds,
            calls=chat.calls,
            replayed=chat.replayed,
            tokens=chat.meter.prompt_tokens + chat.meter.completion_tokens,
            cost=chat.meter.cost(self.recipe.llm.prices),
            seconds=time.monotonic() - began,
            notes=tuple(self.notes),
        )

    def _failed_calls(self) -> list[str]:
        return [f.request_key for f in read_table(self.home.table("failures"), Failure) if f.request_key]

    async def _import(
        self, formats: dict[str, SourceFormat], chat: JournaledChat, failures: TableWriter[Failure]
    ) -> None:
        """Read every source into the tables `imported` and `scenarios`; what is private leaves each record first."""
        withdrawn = withdrawn_ids(self.home)
        seen: dict[str, str] = {}
        dialogues = TableWriter(self.home.table("imported"), Dialogue)
        scenarios = TableWriter(self.home.table("scenarios"), Scenario)
        totals = StageTotals()
        self.progress.start("import", None)
        try:
            for spec in self.specs:
                for record in self._read(formats[spec.format], spec, chat):
                    record, found = protect(_unless_seen(record, seen, spec), self.recipe.protect)
                    self.protected += found
                    totals.records += 1
                    if isinstance(record, Failure):
                        self._fail(record, failures, totals)
                    elif record.id not in withdrawn:
                        (dialogues if isinstance(record, Dialogue) else scenarios).append(record)  # type: ignore[arg-type]
                        totals.rows += 1
                    self.progress.advance(1, [record] if isinstance(record, Failure) else [])
                    if totals.records % 16 == 0:
                        await asyncio.sleep(0)  # Ctrl-C is heard here
        except BaseException:
            dialogues.abandon()
            scenarios.abandon()
            raise
        dialogues.finish()
        scenarios.finish()
        self.progress.stop()
        if not totals.rows and not totals.failures:
            raise DataError("the sources hold no record", "`ser sources check FORMAT PATH` shows what is read")
        self._check_share("import", totals)

    def _read(
        self, fmt: SourceFormat, spec: SourceSpec, chat: JournaledChat
    ) -> Iterator[Dialogue | Scenario | Failure]:
        records = fmt.read(Path(spec.path), ReadContext(spec, self.home.maps))
        if spec is SEEDS or spec.format == SEEDS.format:
            records = (r for r in records if isinstance(r, Failure) or not chat.languages or r.lang in chat.languages)
        return islice(records, spec.limit)

    async def _stages(self, chat: JournaledChat, failures: TableWriter[Failure]) -> None:
        home, recipe, prompts = self.home, self.recipe, Prompts(self.home.prompts)
        await self._stage(
            "synthesize",
            read_table(home.table("scenarios"), Scenario),
            lambda s: synthesize(s, chat, recipe, prompts),
            TableWriter(home.table("synthesized"), Dialogue),
            failures,
            chat,
        )
        await self._stage(
            "filter",
            self._read_dialogues() if recipe.filter.enabled else (),
            lambda d: judge_dialogue(d, chat, recipe, prompts),
            TableWriter(home.table("verdicts"), Verdict),
            failures,
            chat,
        )
        kept = self._write_kept()
        await self._stage(
            "reason",
            (d for d in read_table(home.table("dialogues"), Dialogue) if self._may_be_imitated(d)),
            lambda d: reason(d, chat, recipe, prompts),
            TableWriter(home.table("traces"), Trace),
            failures,
            chat,
            total=kept,
        )
        if self.in_crisis:
            self.notes.append(f"{self.in_crisis} dialogues with crisis content have no traces (protect.imitate_crisis)")
        self.rewriting = await rewrite_dialogues(
            home, recipe, chat, prompts, lambda n, records, f, table: self._stage(n, records, f, table, failures, chat)
        )
        self.notes += notes_of(self.rewriting)
        self._note_languages(chat)

    async def _stage(
        self,
        name: str,
        records: Iterable[Any],
        stage: Stage[Any],
        table: TableWriter[Any],
        failures: TableWriter[Failure],
        chat: JournaledChat,
        total: int | None = None,
    ) -> None:
        """Run one stage into its table; rows keep the order of the records."""
        totals = StageTotals()

        def emit(record: Record, rows: list[Record]) -> None:
            for row in rows:
                if isinstance(row, Failure):  # what is lost in a crisis is counted on its own
                    risk = getattr(record, "risk", None)
                    self._fail(row.model_copy(update={"risk": risk}) if risk else row, failures, totals)
                else:
                    table.append(row)
                    totals.rows += 1

        self.progress.start(name, total)
        try:
            await run_stage(name, records, stage, emit, concurrency=self._places(chat), watcher=self.progress)
        except BaseException:
            table.abandon()
            raise
        table.finish()
        if totals.rows or totals.failures:
            self.progress.stop()
        self._check_share(name, totals)

    def _places(self, chat: JournaledChat) -> int:
        """Records under way at once: twice the calls, since some wait for a retry; a local model's slots, where it
        has slots, so that each keeps to one record and what it has read of it.
        """
        return getattr(chat.inner, "max_concurrency", 2 * self.recipe.llm.concurrency)

    def _read_dialogues(self) -> Iterator[Dialogue]:
        names = ("imported", "synthesized")
        return chain.from_iterable(read_table(self.home.table(n), Dialogue) for n in names)

    def _write_kept(self) -> int:
        """The table `dialogues`: what the filter keeps. An enforced filter keeps only what its judge said yes to."""
        kept: set[str] = set()
        judged = dropped = 0
        for verdict in read_table(self.home.table("verdicts"), Verdict):
            judged += 1
            dropped += verdict.keep is False
            if verdict.keep:
                kept.add(verdict.record_id)
        enforced = self.recipe.filter.enabled and filter_is_enforced(self.recipe)
        if dropped:
            what = "left out" if enforced else "recorded, not enforced"
            self.notes.append(f"the filter said no to {dropped} of {judged} dialogues ({what})")
        return write_table(
            self.home.table("dialogues"),
            Dialogue,
            (self._sampled(d) for d in self._read_dialogues() if not enforced or d.id in kept),
        )

    def _may_be_imitated(self, dialogue: Dialogue) -> bool:
        """A dialogue with crisis content stays in the release, but nobody learns to answer as its supporter did."""
        may = supporter_may_be_imitated(dialogue, self.recipe.protect)
        self.in_crisis += not may
        return may

    def _sampled(self, dialogue: Dialogue) -> Dialogue:
        return keep_drawn(dialogue, self.recipe) if self.recipe.sample.keep == "history" else dialogue

    def _fail(self, failure: Failure, failures: TableWriter[Failure], totals: StageTotals) -> None:
        if self.strict:
            where = " ".join(x for x in (failure.file, failure.position, failure.record_id) if x)
            raise DataError(f"{failure.stage}: {where}: {failure.reason}", "mend it, or leave out --strict")
        failures.append(failure)
        totals.failures += 1
        self.kinds[failure.kind] = self.kinds.get(failure.kind, 0) + 1

    def _check_share(self, stage: str, totals: StageTotals) -> None:
        done, limit = totals.rows + totals.failures, self.recipe.failures.max_share
        if totals.failures > limit * done:
            kinds = ", ".join(f"{k} {n}" for k, n in sorted(self.kinds.items()))
            raise TooManyFailures(
                f"{stage}: {totals.failures} of {done} failed, more than failures.max_share {limit:g} ({kinds})",
                f"each stands in {self.home.table('failures')}; mend the cause, or allow more: "
                f"--set failures.max_share={min(1.0, totals.failures / done + 0.005):.2f}",
            )

    def _note_languages(self, chat: JournaledChat) -> None:
        other = {t.lang for t in read_table(self.home.table("traces"), Trace)} - chat.languages
        if chat.languages and other:
            known, other_words = ", ".join(sorted(chat.languages)), ", ".join(sorted(other))
            self.notes.append(f"{chat.model} writes {known} only: its {other_words} traces are of no use")


def _parse_source(text: str) -> SourceSpec:
    name, colon, path = text.partition(":")
    if not name or (not colon and name != SEEDS.format):
        raise UsageError(f"--source {text}: not of the form FORMAT:PATH", "`ser sources` lists the formats")
    return SourceSpec(format=name, path=path)


def _beside(root: Path, spec: SourceSpec) -> SourceSpec:
    """A recipe's relative path counts from the recipe."""
    return spec.model_copy(update={"path": str(root / spec.path)}) if spec.path else spec


def _unless_seen(
    record: Dialogue | Scenario | Failure, seen: dict[str, str], spec: SourceSpec
) -> Dialogue | Scenario | Failure:
    """The record, or a Failure where an earlier source already gave its id."""
    if isinstance(record, Failure):
        return record
    where = f"{spec.format}:{record.source.file} {record.source.position}".strip()
    first = seen.setdefault(record.id, where)
    if first is where:
        return record
    return Failure(
        kind="duplicate_id",
        stage="import",
        reason=f"the id {record.id} stands already at {first}",
        record_id=record.id,
        source=spec.format,
        file=record.source.file,
        position=record.source.position,
    )
