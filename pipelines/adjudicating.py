"""`ser annotate adjudicate`: what annotators left undecided is listed, shown, and decided by the owner.

The owner is as blind as everyone: the replies stand in an order drawn for the owner, the verdict is by that position.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annotation.adjudication import OWNER, Marks, owner_decision
from annotation.blinding import blind
from annotation.consensus import Consensus, consensus, waiting
from annotation.items import Decision, Part, Source, View
from annotation.ledger import Ledger
from ser_toolkit.errors import RecordError, UsageError
from ser_toolkit.history import ROLE_NAMES
from ser_toolkit.recipe import load_recipe
from ser_toolkit.verdicts import read_verdict
from ser_toolkit.workspace import Workspace

from .annotating import known_round

Sources = Sequence[Source]


@dataclass(frozen=True, slots=True)
class Adjudication:
    """The items that wait; or one item as shown to the owner, with what is undecided of it."""

    queue: tuple[Consensus, ...]
    view: View | None = None
    decided: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "waiting": [{**c.model_dump(mode="json"), "undecided": list(_undecided(c))} for c in self.queue],
            "item": None if self.view is None else self.view.model_dump(mode="json"),
            "decided": self.decided,
        }

    def render(self) -> str:
        if self.view is None:
            if not self.queue:
                return "nothing waits for a decision"
            lines = [f"{len(self.queue)} items wait:"]
            for c in self.queue:
                lines.append(f"  {c.item_id}  " + "; ".join(f"{p}: {c.parts[p].reason}" for p in _undecided(c)))
            return "\n".join([*lines, "next: ser annotate adjudicate ITEM shows one"])
        if self.decided:
            return f"kept; {len(self.queue)} items wait"
        return _shown(self.view, self.queue)


def adjudicate(
    workspace: Path, item: str | None, steps: Marks, verdict: str | None, note: str, sets: Iterable[str]
) -> Adjudication:
    """List, show or decide. Raises UsageError for an item that does not wait, or a part that the annotators decided."""
    sources = load_recipe(workspace, sets).annotate.sources
    with known_round(Workspace(workspace)) as ledger:
        queue = waiting(ledger.state, sources, time.time())
        if item is None:
            if verdict is not None or steps != (None, None, None):
                raise UsageError("a decision wants an item", "`ser annotate adjudicate` lists those that wait")
            return Adjudication(tuple(queue))
        if item not in ledger.state.items or item in ledger.state.gold:
            raise UsageError(f"{item}: no such item", "`ser annotate adjudicate` lists those that wait")
        found = consensus(ledger.state, item, sources)
        if verdict is None and steps == (None, None, None):
            return Adjudication((found,), blind(ledger.item(item), ledger.state.key, OWNER))
        ledger.decide(_decision(ledger, item, steps, verdict, note, sources))
        return Adjudication(
            tuple(waiting(ledger.state, sources, time.time())),
            blind(ledger.item(item), ledger.state.key, OWNER),
            decided=True,
        )


def _decision(ledger: Ledger, item: str, steps: Marks, verdict: str | None, note: str, sources: Sources) -> Decision:
    try:
        shown = None if verdict is None else read_verdict(verdict)
        return owner_decision(ledger.state, item, steps, shown, note, sources)
    except RecordError as exc:
        raise UsageError(f"{item}: {exc.reason}", "`ser annotate adjudicate ITEM` shows what is open") from exc


def _undecided(found: Consensus) -> list[Part]:
    return [p for p, r in found.parts.items() if r.label is None]


def _shown(view: View, queue: tuple[Consensus, ...]) -> str:
    names = ROLE_NAMES[view.lang]
    lines = [f"{names[t.speaker]}: {t.text}" for t in view.history]
    lines += [f"\nStep {s.number}: {s.text}" for s in view.steps]
    if view.replies:
        lines += [f"\nFirst:  {view.replies[0]}", f"Second: {view.replies[1]}"]
    for found in queue:
        for part, result in found.parts.items():
            lines.append(f"\n{part}: {result.label or result.reason}")
    return "\n".join([*lines, "", "decide with --step1/--not-step1, ..., --verdict first_better|second_better|..."])
