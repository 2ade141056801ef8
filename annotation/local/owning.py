"""What the owner of a round may do: look, decide what the annotators left undecided, take the answers away.

It has a ledger of its own, in a thread of its own: counting agreement never makes an annotator wait.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

from annotation.adjudication import OWNER, owner_decision
from annotation.blinding import blind, generated_position
from annotation.consensus import consensus, waiting
from annotation.items import Answer, Source
from annotation.ledger import Ledger
from annotation.report_page import report_page
from annotation.reporting import answers_jsonl, every_report, report, status
from ser_toolkit.verdicts import Position, as_shown

from .access import Access
from .annotating import NotFound
from .wire import AnnotatorRow, Coefficients, Dispute, Overview, Queue, Ruling, Vote, Waiting

SOURCES: Sequence[Source] = ("person",)
"""Whose agreement the page shows and whose votes the owner settles: people are never mixed silently with judges."""
RESAMPLES = 500
"""Bootstrap resamples behind the intervals of the report's page; `ser annotate report` takes more."""
FRESH_S = 3.0
"""An overview is made anew after this, or after ten times as long as making it took."""


class Owning:
    """One round, for its owner."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._access = Access(ledger.state.key)
        self._overview: tuple[float, Overview] | None = None

    def must_be_owner(self, token: str) -> None:
        """Raises NotFound for any other link."""
        if not self._access.is_owner(token):
            raise NotFound

    def overview(self) -> Overview:
        began = time.monotonic()
        if self._overview is None or began > self._overview[0]:
            made = self._overview_now()
            took = time.monotonic() - began
            self._overview = (began + max(FRESH_S, 10 * took), made)
        return self._overview[1]

    def report(self) -> str:
        """How each annotator judges, as a page."""
        made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
        return report_page(every_report(self.ledger.refresh(), resamples=RESAMPLES), is_file=False, made=made)

    def queue(self) -> Queue:
        """The items whose votes leave a part undecided, and those that nobody is left to vote on."""
        state = self.ledger.refresh()
        found = (consensus(state, c.item_id, SOURCES) for c in waiting(state, SOURCES, time.time()))
        return Queue(
            waiting=tuple(
                Waiting(item_id=c.item_id, parts=tuple(p for p, r in c.parts.items() if r.label is None), votes=c.votes)
                for c in found
            )
        )

    def dispute(self, item_id: str) -> Dispute:
        """One item with its votes. Raises NotFound."""
        state = self.ledger.refresh()
        if item_id not in state.items:
            raise NotFound
        item = self.ledger.item(item_id)
        position = generated_position(state.key, item_id, OWNER)
        found = consensus(state, item_id, SOURCES)
        return Dispute(
            item_id=item_id,
            view=blind(item, state.key, OWNER),
            parts=tuple(p for p, r in found.parts.items() if r.label is None),
            votes=tuple(_vote(a, position) for a in state.votes(item_id, SOURCES)),
        )

    def rule(self, ruling: Ruling) -> None:
        """Keep the owner's word. Raises NotFound, or RecordError for a part that is not undecided."""
        state = self.ledger.refresh()
        if ruling.item_id not in state.items or ruling.item_id in state.gold:
            raise NotFound
        self.ledger.decide(owner_decision(state, ruling.item_id, ruling.steps, ruling.verdict, ruling.note, SOURCES))
        self._overview = None

    def export(self, annotator: str | None) -> bytes:
        """Every answer that holds, a line of JSON each; of one annotator, or of all."""
        state = self.ledger.refresh()
        return "".join(answers_jsonl(state, annotator)).encode()

    def may_see(self, item_id: str, sha256: str) -> None:
        """Raises NotFound unless the picture belongs to this item."""
        if item_id not in self.ledger.refresh().items:
            raise NotFound
        if not any(p.sha256 == sha256 for turn in self.ledger.item(item_id).history for p in turn.photos):
            raise NotFound

    def _overview_now(self) -> Overview:
        state, now = self.ledger.refresh(), time.time()
        row = status(state, SOURCES, now)
        rows = report(state, ("person", "llm"), resamples=0).annotators
        votes = [a.seconds for table in state.answers.values() for a in table.values() if a.skip is None]
        known = [s for s in votes if s is not None]
        return Overview(
            **{name: row[name] for name in _COUNTS},
            overlap=state.settings.overlap,
            median_seconds=median(known) if known else None,
            skipped=row["skipped"],
            agreement={part: Coefficients(**found) for part, found in row["agreement"].items()},
            annotators=tuple(AnnotatorRow(**{n: r[n] for n in AnnotatorRow.model_fields}) for r in rows),
        )


_COUNTS = ("items", "done", "open", "in_progress", "disputed", "waiting", "answers", "surplus")


def _vote(answer: Answer, position: Position) -> Vote:
    marks = answer.steps or ()
    one, two, three = (m.label for m in marks)
    first, second, third = (m.critique for m in marks)
    better = answer.better
    return Vote(
        annotator=answer.annotator,
        source=answer.source,
        labels=(one, two, three),
        critiques=(first, second, third),
        verdict=None if better is None else as_shown(better, position),
        reasons=answer.reasons,
        comment=answer.comment,
    )
