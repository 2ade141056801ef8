"""Consensus: what the annotators' votes come to, part by part (METHOD 1.5).

More than half of the votes decide a part. A part without such a majority is undecided: it is kept aside with its reason
and dropped from the release, until the owner decides it. Who voted first never matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, cast, get_args

from ser_toolkit.schema import Record
from ser_toolkit.verdicts import Better

from .items import Part, Source
from .rounds import RoundState, majority

if TYPE_CHECKING:
    from ser_toolkit.releases.labels import TraceLabels

How = Literal["unanimous", "majority", "owner"]


class PartResult(Record):
    """One part: its `label` ("True", "False" or a `Better`) and `how` it came, or `None` and the `reason`."""

    votes: Mapping[str, int]
    label: str | None = None
    how: How | None = None
    reason: str = ""


class Consensus(Record):
    """One item. `state`: "open" while votes are missing, "disputed" while one more is asked because the first disagree,
    "done" when nothing more is asked; only then has a part a result that will stay.
    """

    item_id: str
    trace_id: str
    state: Literal["open", "disputed", "done"]
    votes: int
    parts: Mapping[Part, PartResult]

    @property
    def undecided(self) -> tuple[Part, ...]:
        """The parts of a finished item that have no label."""
        return tuple(p for p, r in self.parts.items() if r.label is None) if self.state == "done" else ()


def consensus(state: RoundState, item: str, sources: Sequence[Source]) -> Consensus:
    """What the votes of these sources, and the owner's decision, come to for one item."""
    info, votes = state.items[item], state.votes(item, sources)
    overlap = state.settings.overlap
    stage = "disputed" if len(votes) >= overlap else "open"
    if len(votes) >= state.wanted(item, votes):
        stage = "done"
    decision = state.decisions.get(item)
    parts: dict[Part, PartResult] = {}
    for part in info.parts:
        counts = _counted(str(a.label(part)) for a in votes)
        decided = decision.label(part) if decision else None
        label = majority(a.label(part) for a in votes) if stage == "done" else None
        if decided is not None:
            parts[part] = PartResult(votes=counts, label=decided, how="owner")
        elif label is not None:
            parts[part] = PartResult(votes=counts, label=label, how="unanimous" if len(counts) == 1 else "majority")
        else:
            told = ", ".join(f"{label} {n}" for label, n in sorted(counts.items())) or "no vote"
            reason = "no majority" if stage == "done" else f"{len(votes)} of {state.wanted(item, votes)} votes"
            parts[part] = PartResult(votes=counts, reason=f"{reason}: {told}")
    if stage != "done" and all(r.how == "owner" for r in parts.values()):
        stage = "done"  # the owner has decided all of it
    return Consensus(item_id=item, trace_id=info.trace_id, state=stage, votes=len(votes), parts=parts)


def all_consensus(state: RoundState, sources: Sequence[Source]) -> list[Consensus]:
    """Every item of the round but the gold ones, which check annotators and are no data."""
    return [consensus(state, i, sources) for i in state.items if i not in state.gold]


def waiting(
    state: RoundState, sources: Sequence[Source], now: float, found: Iterable[Consensus] | None = None
) -> list[Consensus]:
    """The adjudication queue: undecided parts, and items that want a vote which nobody is left to give.

    `found` is `all_consensus`, where it is at hand.
    """
    stuck = {i for source in sources for i in state.stuck(source, now)}
    return [
        c
        for c in (all_consensus(state, sources) if found is None else found)
        if c.undecided or (c.state != "done" and c.item_id in stuck and c.item_id in state.answers)
    ]


def trace_labels(found: Iterable[Consensus], source: str) -> Iterable[TraceLabels]:
    """The decided parts as a release takes them; an item without any is left out."""
    from ser_toolkit.releases.labels import TraceLabels  # with pyarrow, which the page has no use for

    for item in found:
        if item.state != "done" or all(r.label is None for r in item.parts.values()):
            continue
        steps = tuple(_mark(item.parts[p].label) for p in ("step1", "step2", "step3"))
        reply = item.parts.get("reply")
        yield TraceLabels(
            trace_id=item.trace_id,
            steps=(steps[0], steps[1], steps[2]),
            better=_better(reply.label) if reply else None,
            source=source,
            votes=item.votes,
            by_owner=any(r.how == "owner" for r in item.parts.values()),
        )


def _counted(labels: Iterable[str]) -> dict[str, int]:
    """As a Counter, at a tenth of its cost for so few."""
    counts: dict[str, int] = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    return counts


def _mark(label: str | None) -> bool | None:
    return None if label is None else label == "True"


def _better(label: str | None) -> Better | None:
    return cast(Better, label) if label in get_args(Better) else None
