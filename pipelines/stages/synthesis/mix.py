"""Scenarios drawn to a target mix: how many dialogues from each, and which ones are to be invented.

The mix gives shares by dimension (problem, emotion, intensity, culture, language). Scenarios that say the same in all
dimensions that are named make a cell; an integer program (mix_program.py) finds how many dialogues each cell gives so
that every named share is met within a tenth of itself wherever that can be had at all, and as closely as can be had
where it cannot. Where scenarios may be invented, the program takes as many dialogues from the scenarios as the shares
allow, and the rest is spread over values so that each share comes out. What is not reached is told, never silent.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ser_toolkit.recipe import Synthesize
from ser_toolkit.recipe_synthesis import Mix
from ser_toolkit.schema import Scenario
from ser_toolkit.seeds import derive_seed
from ser_toolkit.taxonomy import fold

from .casting import Draw
from .mix_program import Cell, Program


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be played: draws of scenarios in their order, and the cells that want a new one each."""

    draws: tuple[Draw, ...]
    invented: tuple[Mapping[str, str], ...] = ()
    dimensions: tuple[str, ...] = ()
    cells: Mapping[str, Cell] = field(default_factory=dict)
    """Scenario id -> its cell."""

    @property
    def count(self) -> int:
        return len(self.draws) + len(self.invented)

    def shares(self) -> dict[str, Counter[str | None]]:
        """How many of the planned dialogues have each value."""
        if not self.dimensions:
            return {}
        told = [self.cells[d.scenario.id] for d in self.draws]
        told += [tuple(i.get(d) for d in self.dimensions) for i in self.invented]
        return {d: Counter(cell[n] for cell in told) for n, d in enumerate(self.dimensions)}


def plan_draws(scenarios: Sequence[Scenario], settings: Synthesize, seed: int) -> Plan:
    """Which scenarios are played how often, and what is to be invented, for `settings.count` dialogues of
    `settings.mix`; without a count each scenario `settings.per_scenario` times. `seed` is the recipe's.
    """
    if settings.count is None:
        draws = (Draw(scenario=s, number=n + 1) for s in scenarios for n in range(settings.per_scenario))
        return Plan(tuple(draws))
    targets = dict(settings.mix.dimensions())
    dimensions = tuple(targets)
    cells = {s.id: cell_of(s, settings.mix) for s in scenarios}
    members: dict[Cell, list[Scenario]] = defaultdict(list)
    for scenario in scenarios:
        members[cells[scenario.id]].append(scenario)
    sizes = {cell: len(found) for cell, found in members.items()}
    taken, missing = _solve(sizes, targets, settings)
    draws = [
        Draw(scenario=s, number=n + 1)
        for cell, found in members.items()
        for s, times in _spread(found, taken.get(cell, 0), seed)
        for n in range(times)
    ]
    order = {s.id: n for n, s in enumerate(scenarios)}
    draws.sort(key=lambda d: (d.number, order[d.scenario.id]))
    return Plan(tuple(draws), tuple(_zip_values(missing, seed)), dimensions, cells)


def cell_of(scenario: Scenario, mix: Mix) -> Cell:
    """What the scenario says in each dimension that the mix names."""
    emotion = scenario.emotion
    said: dict[str, str] = {
        "problem": scenario.problem,
        "emotion": (emotion.ser or emotion.original) if emotion else "",
        "intensity": scenario.intensity or "",
        "culture": scenario.culture,
        "lang": scenario.lang,
    }
    named = ((said[name], {fold(word): word for word in shares}) for name, shares in mix.dimensions())
    return tuple(spelt.get(fold(word)) for word, spelt in named)


def _spread(scenarios: Sequence[Scenario], total: int, seed: int) -> Iterable[tuple[Scenario, int]]:
    """`total` draws over the scenarios of a cell, as evenly as can be; who gets one more hangs on the ids alone."""
    least, more = divmod(total, len(scenarios))
    lucky = sorted(scenarios, key=lambda s: (derive_seed(seed, "draw", s.id), s.id))[:more]
    chosen = {s.id for s in lucky}
    return ((s, least + (s.id in chosen)) for s in scenarios)


def _zip_values(missing: Mapping[str, Mapping[str | None, int]], seed: int) -> Iterable[Mapping[str, str]]:
    """One cell for each scenario to be invented: the values of each dimension in their number, shuffled and put side by
    side. A value that is left open is left out.
    """
    columns: dict[str, list[str | None]] = {}
    for dimension, counts in missing.items():
        column = [value for value, n in counts.items() for _ in range(n)]
        random.Random(derive_seed(seed, "invent", dimension)).shuffle(column)
        columns[dimension] = column
    for row in zip(*columns.values(), strict=True):
        yield {d: v for d, v in zip(columns, row, strict=True) if v is not None}


def _solve(
    sizes: Mapping[Cell, int], targets: Mapping[str, Mapping[str, float]], settings: Synthesize
) -> tuple[dict[Cell, int], dict[str, dict[str | None, int]]]:
    """Dialogues of each cell, and by dimension and value the number of scenarios to be invented."""
    count = settings.count or 0
    there = sum(sizes.values())
    total = count if settings.invent else min(count, there * settings.per_scenario)
    if not targets or not total:  # then there is one cell, or none
        taken = dict.fromkeys(sizes, min(total, there * settings.per_scenario))
        return taken, {"": {None: total - sum(taken.values())}}
    level = 1 if settings.invent and there else max(1, -(-total // max(1, there)))
    while True:  # few dialogues of each scenario first: more of one only where the shares want it
        level = min(level, settings.per_scenario)
        caps = [min(total, size * level) for size in sizes.values()]
        found = Program(list(sizes), caps, targets, total, may_invent=settings.invent).run()
        is_enough = found.is_good and not any(sum(m.values()) for m in found.missing.values())
        if is_enough or level == settings.per_scenario:
            return found.taken, found.missing
        level *= 2
