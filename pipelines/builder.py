"""`ser build`: the order of the stages, and what stands between them.

    import, media, protect -> synthesize (from scenarios) -> filter -> faces -> sample and reason -> rewrite -> export

Each stage reads tables and writes one; the engine runs it, the journal remembers its calls. Nothing here is resumed by
bookkeeping of its own: a build that was stopped is run again from the start and replays what it has paid for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import uvloop

from ser_toolkit.errors import RemoteError, TooManyFailures
from ser_toolkit.journal import Journal
from ser_toolkit.llm.journaled import JournaledChat
from ser_toolkit.llm.open import open_model
from ser_toolkit.media.store import MediaStore
from ser_toolkit.progress import Progress
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe, SourceSpec, load_recipe
from ser_toolkit.releases.write import check_version
from ser_toolkit.schema import Dialogue, Failure, Trace, Verdict
from ser_toolkit.store import TableWriter, read_table, write_table
from ser_toolkit.workspace import Workspace

from .exporting import ExportResult, export_tables
from .facing import check_faces, give_faces
from .importing import import_sources
from .lineage import forget_build, lineage_of, save_build
from .rewriting import notes_of, profile_embedder, rewrite_dialogues
from .sources.base import SourceFormat
from .sources.specs import formats_of, sources_of
from .stage_runner import StageRunner
from .stages.filter import filter_is_enforced, judge_dialogue
from .stages.protect import ProtectCounts, supporter_may_be_imitated
from .stages.reason import reason
from .stages.sample import keep_drawn
from .synthesizing import synthesize_scenarios


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
    specs = sources_of(home, recipe, sources, limit)
    formats = formats_of(specs)
    check_faces(home, recipe)
    profile_embedder(recipe)  # told before anything is paid for
    with home.locked(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
        return loop.run(
            _run(
                home,
                recipe,
                specs,
                formats,
                Progress(quiet=quiet),
                version=version,
                fresh=fresh,
                strict=strict,
                retry_failures=retry_failures,
            )
        )


async def _run(
    home: Workspace,
    recipe: Recipe,
    specs: Sequence[SourceSpec],
    formats: Mapping[str, SourceFormat],
    progress: Progress,
    *,
    version: str | None,
    fresh: bool,
    strict: bool,
    retry_failures: bool,
) -> BuildResult:
    began = time.monotonic()
    is_first = fresh or not home.journal.exists()
    failed = read_table(home.table("failures"), Failure) if retry_failures else ()
    to_retry = [f.request_key for f in failed if f.request_key]
    forget_build(home)
    journal = Journal(home.journal, fresh=fresh)
    failures = TableWriter(home.table("failures"), Failure)
    try:
        journal.retire(to_retry)
        chat = JournaledChat(open_model(recipe.llm), journal)
        progress.chat = chat
        try:
            # Twice as many records as calls, since some wait for a retry; a local model's slots, where it has slots,
            # so that each keeps to one record and what it has read of it.
            places = getattr(chat.inner, "max_concurrency", 2 * recipe.llm.concurrency)
            await _check_model(chat, progress, is_first)
            runner = StageRunner(home, recipe, progress, failures, strict, places)
            work = _Build(home, recipe, specs, formats, journal, chat, Prompts(home.prompts), runner, fresh)
            for stage in work.stages():
                await stage()
        finally:
            progress.stop()
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
    save_build(home, work.lineage())
    exported = export_tables(home, version)
    return BuildResult(
        export=exported,
        failures=dict(runner.kinds),
        calls=chat.calls + work.calls,
        replayed=chat.replayed + work.replayed,
        tokens=chat.meter.prompt_tokens + chat.meter.completion_tokens,
        cost=chat.meter.cost(recipe.llm.prices),
        seconds=time.monotonic() - began,
        notes=tuple(work.notes),
    )


async def _check_model(chat: JournaledChat, progress: Progress, is_first: bool) -> None:
    """Have a model that can be asked whether it is there say so. An absent server stops only a first build: another
    may need no call.
    """
    check = getattr(chat.inner, "check", None)
    if check is None:
        return
    try:
        await check()
    except RemoteError as exc:
        if is_first:
            raise
        progress.say(f"{exc.message}; going on with the replies that are kept")


@dataclass(slots=True)
class _Build:
    """The stages of one build: a method each, which reads tables and writes its own.

    To add one, write the method and name it in `stages`; what a person should know goes into `notes`, what a release
    should tell into `found`.
    """

    home: Workspace
    recipe: Recipe
    specs: Sequence[SourceSpec]
    formats: Mapping[str, SourceFormat]
    journal: Journal
    chat: JournaledChat
    prompts: Prompts
    runner: StageRunner
    fresh: bool
    notes: list[str] = field(default_factory=list)
    protected: ProtectCounts = field(default_factory=ProtectCounts)
    calls: int = 0
    """Of models beside the chat: pictures, speech, embeddings."""
    replayed: int = 0
    found: dict[str, Any] = field(default_factory=dict)
    imitable: int = 0
    in_crisis: int = 0

    def stages(self) -> tuple[Callable[[], Awaitable[None]], ...]:
        return (self._import, self._synthesize, self._filter, self._keep, self._faces, self._reason, self._rewrite)

    def lineage(self) -> dict[str, Any]:
        protection = {"replaced": dict(self.protected.spans), "dialogues_by_risk": dict(self.protected.risk)}
        return lineage_of(self.recipe, self.specs, self.formats, self.chat, protection) | self.found

    async def _import(self) -> None:
        self.protected, media = await import_sources(
            *(self.home, self.recipe, self.specs, self.formats, self.runner, self.chat.languages), fresh=self.fresh
        )
        self.notes += media.notes()

    async def _synthesize(self) -> None:
        made = await synthesize_scenarios(self.home, self.recipe, self.chat, self.prompts, self.runner)
        self.protected += made.protected
        self.notes += made.notes
        if made.told:
            self.found["synthesis"] = made.told

    async def _filter(self) -> None:
        await self.runner.run(
            "filter",
            self._read_dialogues() if self.recipe.filter.enabled else (),
            lambda d: judge_dialogue(d, self.chat, self.recipe, self.prompts),
            TableWriter(self.home.table("verdicts"), Verdict),
        )

    async def _keep(self) -> None:
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
        write_table(self.home.table("dialogues"), Dialogue, self._counted(kept if enforced else None))

    def _counted(self, kept: set[str] | None) -> Iterator[Dialogue]:
        """The dialogues with these ids (None: all), and how many of them are to be reasoned about."""
        for dialogue in self._read_dialogues():
            if kept is not None and dialogue.id not in kept:
                continue
            may = supporter_may_be_imitated(dialogue, self.recipe.protect)
            self.imitable += may
            self.in_crisis += not may
            yield keep_drawn(dialogue, self.recipe) if self.recipe.sample.keep == "history" else dialogue

    async def _faces(self) -> None:
        given = await give_faces(self.home, self.recipe, self.prompts, self.journal, self.runner.run)
        self.calls += given.calls
        self.replayed += given.replayed
        self.notes += given.notes
        if given.told:
            self.found["faces"] = given.told

    async def _reason(self) -> None:
        """A dialogue with crisis content stays in the release, but nobody learns to answer as its supporter did."""
        dialogues = read_table(self.home.table("dialogues"), Dialogue)
        await self.runner.run(
            "reason",
            (d for d in dialogues if supporter_may_be_imitated(d, self.recipe.protect)),
            lambda d: reason(d, self.chat, self.recipe, self.prompts, MediaStore(self.home.media)),
            TableWriter(self.home.table("traces"), Trace),
            total=self.imitable,
        )
        if self.in_crisis:
            self.notes.append(f"{self.in_crisis} dialogues with crisis content have no traces (protect.imitate_crisis)")
        other = {t.lang for t in read_table(self.home.table("traces"), Trace)} - self.chat.languages
        if self.chat.languages and other:
            known, other_words = ", ".join(sorted(self.chat.languages)), ", ".join(sorted(other))
            self.notes.append(f"{self.chat.model} writes {known} only: its {other_words} traces are of no use")

    async def _rewrite(self) -> None:
        embedder = None if (model := profile_embedder(self.recipe)) is None else JournaledChat(model, self.journal)
        summary = await rewrite_dialogues(self.home, self.recipe, self.chat, self.prompts, self.runner.run, embedder)
        if embedder is not None:
            self.calls += embedder.calls
            self.replayed += embedder.replayed
        self.notes += notes_of(summary)
        if summary:
            self.found["rewriting"] = summary

    def _read_dialogues(self) -> Iterator[Dialogue]:
        names = ("imported", "synthesized")
        return chain.from_iterable(read_table(self.home.table(n), Dialogue) for n in names)
