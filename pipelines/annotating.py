"""`ser annotate`: a round of annotation over the traces of a finished build.

The ledger needs no lock of the workspace, so that a page may be served for days while other commands run; only the
judge, which writes the journal, holds it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop

from annotation.consensus import all_consensus, trace_labels
from annotation.gold import read_gold
from annotation.items import Item, Source, build_items
from annotation.judge import Judged, judge_round, seat_names
from annotation.ledger import Ledger, ledger_path
from annotation.reporting import label_report
from annotation.rounds import RoundSettings, RoundState
from ser_toolkit.errors import DataError, TooManyFailures
from ser_toolkit.journal import Journal
from ser_toolkit.llm.journaled import JournaledChat
from ser_toolkit.llm.open import open_model
from ser_toolkit.progress import Progress
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Annotate, Recipe, load_recipe
from ser_toolkit.releases.labels import TraceLabels
from ser_toolkit.schema import Dialogue, Trace
from ser_toolkit.store import read_table
from ser_toolkit.workspace import Workspace

from .lineage import load_build
from .withdrawing import withdrawn_ids


def open_round(
    home: Workspace, recipe: Recipe, annotators: Iterable[str] = (), *, overlap: int | None = None
) -> Ledger:
    """The round of a workspace, begun where there is none, with the items that the last build added and these people.

    `overlap` counts only when the round begins. Raises DataError where no build is complete or it has no trace,
    UsageError for the gold file or a name.
    """
    load_build(home.must_exist())
    settings = recipe.annotate
    ledger = Ledger(
        ledger_path(home.root),
        RoundSettings(
            overlap=overlap or settings.overlap,
            check_every=settings.check_every,
            lease_s=settings.lease_minutes * 60,
        ),
    )
    items = list(workspace_items(home))
    if not items:
        ledger.close()
        raise DataError(f"{home.root}: the build has no trace to judge", "`ser build` makes some; see its failures")
    gold = read_gold(home.root / settings.gold, items) if settings.gold else ()
    ledger.add_items(items, gold)
    ledger.add_annotators(annotators)
    return ledger


def known_round(home: Workspace) -> Ledger:
    """The round of a workspace. Raises UsageError where none has begun."""
    return Ledger(ledger_path(home.must_exist().root))


def workspace_items(home: Workspace, only: frozenset[str] | None = None) -> Iterator[Item]:
    """The items of the last build's traces (of those called `only`); what was withdrawn is none."""
    gone = withdrawn_ids(home)
    traces = [
        t
        for t in read_table(home.table("traces"), Trace)
        if (only is None or t.id in only) and gone.isdisjoint((t.id, t.dialogue_id, t.root_id))
    ]
    wanted = {t.dialogue_id for t in traces}
    dialogues = (d for d in read_table(home.table("dialogues"), Dialogue) if d.id in wanted)
    return build_items(dialogues, traces)


@dataclass(frozen=True, slots=True)
class ReleaseLabels:
    """What a round gives to a release: the labels, and what the card tells of them; `absent` where there are none."""

    labels: Sequence[TraceLabels]
    told: dict[str, Any]
    absent: str
    has_round: bool = True


def release_labels(home: Workspace, settings: Annotate) -> ReleaseLabels:
    """The decided labels of the sources that the recipe allows, for the traces as they stand now.

    A label belongs to the text that was judged: where a later build wrote another one, it is stale, counted, and not
    used.
    """
    path = ledger_path(home.root)
    if not path.exists():
        return ReleaseLabels((), {}, "nobody has labelled this yet: `ser annotate` asks people, or an LLM judge", False)
    with Ledger(path) as ledger:
        state, sources = ledger.state, settings.sources
        done = [c for c in all_consensus(state, sources) if c.state == "done"]
        current = {i.id for i in workspace_items(home, frozenset(c.trace_id for c in done))}
        labels = sorted(trace_labels((c for c in done if c.item_id in current), "+".join(sources)), key=_trace_id)
        told = label_report(state, sources)
    told["stale"] = len([c for c in done if c.item_id not in current])
    return ReleaseLabels(labels, told if labels else {}, _absent(state, sources))


def _trace_id(labels: TraceLabels) -> str:
    return labels.trace_id


def _absent(state: RoundState, sources: Sequence[Source]) -> str:
    """Why a config made from labels may be empty although a round has begun."""
    used = " and ".join({"person": "people", "llm": "LLM judges"}[s] for s in sources)
    others = {a.source for table in state.answers.values() for a in table.values() if a.is_vote} - set(sources)
    more = f"; the votes of source {', '.join(sorted(others))} are not used (annotate.sources)" if others else ""
    return f"no label by {used} decides it yet{more}"


@dataclass(frozen=True, slots=True)
class JudgeResult:
    """What `ser annotate judge` came to."""

    judged: Judged
    items: int
    seats: tuple[str, ...]
    calls: int
    replayed: int

    def to_json(self) -> dict[str, Any]:
        return {
            "items": self.items,
            "seats": list(self.seats),
            "answers": self.judged.answers,
            "surplus": self.judged.surplus,
            "failures": len(self.judged.failures),
            "failure_kinds": dict(self.judged.kinds),
            "calls": self.calls,
            "replayed": self.replayed,
        }

    def render(self) -> str:
        failed = ", ".join(f"{k} {n}" for k, n in sorted(self.judged.kinds.items())) or "none"
        return (
            f"{self.judged.answers} answers to {self.items} items by {', '.join(self.seats)}\n"
            f"  failures  {failed}\n  calls     {self.calls}, {self.replayed} replayed\n"
            "next: ser annotate status shows the agreement; a release uses these labels with annotate.sources: [llm]"
        )


def judge(
    workspace: str | Path = ".",
    *,
    model: str | None = None,
    seats: int = 3,
    sets: Iterable[str] = (),
    quiet: bool = False,
) -> JudgeResult:
    """Let a model answer the items of the round, begun where there is none; made to be run again.

    It takes up to `seats` places: two answer each item, a third where they disagree. Raises SerError: TooManyFailures
    past `failures.max_share`.
    """
    home = Workspace(Path(workspace)).must_exist()
    recipe = load_recipe(home.root, sets, {} if model is None else {"llm.model": model})
    with home.locked(), open_round(home, recipe) as ledger:
        journal = Journal(home.journal)
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                result = runner.run(_judge(home, recipe, ledger, journal, seats, Progress(quiet=quiet)))
        finally:
            journal.close()
    asked, failed = result.judged.answers + len(result.judged.failures), len(result.judged.failures)
    if failed > recipe.failures.max_share * asked:
        kinds = ", ".join(f"{k} {n}" for k, n in sorted(result.judged.kinds.items()))
        raise TooManyFailures(
            f"annotate: {failed} of {asked} answers failed, more than failures.max_share ({kinds})",
            f"the first: {result.judged.failures[0].reason}; what was answered is kept, and --seats {seats + 2} "
            "asks again in new places",
        )
    return result


async def _judge(
    home: Workspace, recipe: Recipe, ledger: Ledger, journal: Journal, seats: int, progress: Progress
) -> JudgeResult:
    chat = JournaledChat(open_model(recipe.llm), journal)
    names = seat_names(chat.model, seats)
    progress.chat = chat
    progress.start("annotate", None)
    try:
        places = getattr(chat.inner, "max_concurrency", 2 * recipe.llm.concurrency)
        judged = await judge_round(
            ledger, chat, recipe, Prompts(home.prompts), seats=names, media=home.media, concurrency=places,
            watcher=progress,
        )  # fmt: skip
    finally:
        progress.stop()
        await chat.aclose()
    journal.flush()
    return JudgeResult(judged, len(ledger.state.items), tuple(names), chat.calls, chat.replayed)
