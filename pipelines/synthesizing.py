"""The order of synthesis within a build: which scenarios, which of them are missing, how they are played and rejected.

    scenarios -> (the mix) -> invented
    scenarios, invented    -> plays, in rounds -> synthesized

A dialogue that repeats an earlier one (of this build, or of the bundled seeds), or whose speakers fell out of role, is
played anew, with other seeds and manners; `rounds` tells why that never hangs on what finished first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ser_toolkit.errors import RecordError
from ser_toolkit.llm.chat import ChatModel
from ser_toolkit.near_duplicates import Repeats, opening_of
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Dialogue, Failure, Lang, Record, Scenario
from ser_toolkit.store import TableWriter, read_table, write_table
from ser_toolkit.workspace import Workspace

from .rounds import run_rounds
from .sources import seeds
from .sources.base import ReadContext
from .sources.specs import SEEDS
from .stage_runner import StageRunner
from .stages.protect import ProtectCounts
from .stages.synthesis.casting import Draw
from .stages.synthesis.checks import REJECTED, SupporterRules
from .stages.synthesis.inventing import STAGE as INVENT
from .stages.synthesis.inventing import Wanted, invent
from .stages.synthesis.mix import Plan, cell_of, plan_draws
from .stages.synthesis.mix_notes import shortfalls
from .stages.synthesis.play import play
from .stages.synthesis.written import STAGE
from .withdrawing import withdrawn_ids

NEAR_DUPLICATE = "near_duplicate"
MOST_UNLIKE = 3
"""Stories that an invented one is told not to repeat."""


@dataclass(slots=True)
class Synthesis:
    """What it came to. `told` stands in the manifest (`None` where nothing was played), `notes` are for people."""

    told: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    protected: ProtectCounts = field(default_factory=ProtectCounts)


async def synthesize_scenarios(
    home: Workspace, recipe: Recipe, chat: ChatModel, prompts: Prompts, runner: StageRunner
) -> Synthesis:
    """Play what the recipe asks for into the table `synthesized`, and what it lacks of scenarios into `invented`.

    Raises UsageError for a list of stock phrases that cannot be read, TooManyFailures where too many are rejected.
    """
    work = _Synthesizing(home, recipe, chat, prompts, runner, SupporterRules(recipe, home.root), withdrawn_ids(home))
    table = TableWriter(home.table("synthesized"), Dialogue)
    try:
        made = await work.run(table)
    except BaseException:
        table.abandon()
        raise
    table.finish()
    return made


@dataclass(slots=True)
class _Synthesizing:
    home: Workspace
    recipe: Recipe
    chat: ChatModel
    prompts: Prompts
    runner: StageRunner
    rules: SupporterRules
    withdrawn: frozenset[str]
    protected: ProtectCounts = field(default_factory=ProtectCounts)
    values: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    """Dialogues by what their scenarios say, in each dimension of the mix."""
    endings: Counter[str] = field(default_factory=Counter)

    async def run(self, table: TableWriter[Dialogue]) -> Synthesis:
        settings = self.recipe.synthesize
        stored = read_table(self.home.table("scenarios"), Scenario)
        scenarios = [s for s in stored if s.id not in self.withdrawn]
        plan = plan_draws(scenarios, settings, self.recipe.seed)
        invented = await self._invent(plan, scenarios)
        draws = [*plan.draws, *(Draw(scenario=s) for s in invented)]
        draws = [d for d in draws if d.dialogue_id not in self.withdrawn]
        anew = await self._play(draws, table)
        if not plan.count:
            return Synthesis(protected=self.protected)
        told = {
            "mode": settings.mode,
            "planned": plan.count,
            "made": table.rows,
            "scenarios": len({d.scenario.id for d in draws}),
            "invented": len(invented),
            "played_anew": dict(sorted(anew.items())),
            "endings": dict(sorted(self.endings.items())),
            "mix": {
                d: {w: {"asked": share, "made": self.values[d, w]} for w, share in shares.items()}
                for d, shares in settings.mix.dimensions()
            },
        }
        return Synthesis(told, tuple(shortfalls(plan, settings, self.values, table.rows)), self.protected)

    async def _play(self, draws: Sequence[Draw], table: TableWriter[Dialogue]) -> Counter[str]:
        mix = self.recipe.synthesize.mix
        names = [name for name, _ in mix.dimensions()]
        repeats = self._bundled() if draws else Repeats()
        scenarios = {d.dialogue_id: d.scenario for d in draws}
        counts: dict[str, ProtectCounts] = {}

        async def one(draw: Draw) -> list[Record]:
            dialogue, counts[draw.dialogue_id] = await play(draw, self.chat, self.recipe, self.prompts, self.rules)
            return [dialogue]

        def keep(row: Record) -> RecordError | None:
            if not isinstance(row, Dialogue):
                raise TypeError(type(row))
            if repeat := repeats.take_dialogue(row):
                return RecordError(NEAR_DUPLICATE, f"{repeat.reason} as in {repeat.id}", text=row.turns[0].text)
            table.append(row)
            self.protected += counts.pop(row.id)
            self.values.update(zip(names, cell_of(scenarios[row.id], mix), strict=True))
            told: Any = row.meta["synthesis"]
            self.endings[told["ending"]] += 1
            return None

        return await run_rounds(self.runner, STAGE, draws, one, keep, _again, self.recipe.synthesize.retries)

    def _bundled(self) -> Repeats:
        """The hand-written dialogues: a model that was shown them must not give them back."""
        repeats = Repeats(self.recipe.synthesize.near)
        for record in seeds.read(Path(), ReadContext(SEEDS, self.home.maps)):
            if isinstance(record, Dialogue):
                repeats.take_dialogue(record)
        return repeats

    async def _invent(self, plan: Plan, scenarios: Sequence[Scenario]) -> list[Scenario]:
        """The scenarios that the plan lacks, written by the model; none repeats another or one that was there."""
        wishes = [w for w in _wishes(plan, scenarios, self.chat) if w.id not in self.withdrawn]
        found: list[Scenario] = []
        repeats = Repeats(self.recipe.synthesize.near)
        for scenario in scenarios if wishes else ():
            repeats.take(scenario.id, scenario.situation, opening_of([scenario.opening]))
        repeated: dict[str, str] = {}

        async def one(wanted: Wanted) -> list[Record]:
            return [*await invent(wanted, self.chat, self.recipe, self.prompts)]

        def keep(row: Record) -> RecordError | None:
            if not isinstance(row, Scenario):
                raise TypeError(type(row))
            if repeat := repeats.take(row.id, row.situation, opening_of([row.opening])):
                repeated[row.id] = row.situation
                return RecordError(NEAR_DUPLICATE, f"{repeat.reason} as in {repeat.id}", text=row.situation)
            found.append(row)
            return None

        def again(wanted: Wanted, failure: Failure) -> Wanted | None:
            if failure.kind != NEAR_DUPLICATE:
                return None
            unlike = (*wanted.unlike, repeated[wanted.id])[-MOST_UNLIKE:]
            return wanted.model_copy(update={"attempt": wanted.attempt + 1, "unlike": unlike})

        await run_rounds(self.runner, INVENT, wishes, one, keep, again, self.recipe.synthesize.retries)
        write_table(self.home.table("invented"), Scenario, found)
        return found


def _again(draw: Draw, failure: Failure) -> Draw | None:
    """Played once more, where another talk may be a better one."""
    may_help = failure.kind == NEAR_DUPLICATE or failure.kind in REJECTED
    return draw.model_copy(update={"attempt": draw.attempt + 1}) if may_help else None


def _wishes(plan: Plan, scenarios: Sequence[Scenario], chat: ChatModel) -> Iterator[Wanted]:
    """What is to be invented. A language that the mix leaves open goes in turn through those of the scenarios."""
    known: list[Lang] = [s.lang for s in scenarios if not chat.languages or s.lang in chat.languages]
    known = known or (["zh"] if chat.languages == {"zh"} else ["en"])
    numbers: Counter[tuple[str, ...]] = Counter()
    for n, said in enumerate(plan.invented):
        wish = Wanted.model_validate({"lang": known[n % len(known)], "number": 0, **said})
        numbers[wish.kind] += 1
        yield wish.model_copy(update={"number": numbers[wish.kind]})
