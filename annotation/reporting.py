"""What the owner wants to know of a round: how far it is, how well people agree, and how each of them judges.

Everything is computed from the state as plain rows; `Report.frames` gives them as pandas frames. A share without a
denominator is `None`, never 0.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING, Any

from ser_toolkit.metrics.agreement import Agreement, cohen_kappa, fleiss_kappa, krippendorff_alpha
from ser_toolkit.metrics.exact import binomial_two_sided, fisher_two_sided

from .consensus import all_consensus, waiting
from .items import PARTS, Answer, Part, Source
from .rounds import RoundState

if TYPE_CHECKING:
    import pandas

Row = dict[str, Any]
SIGNIFICANT = 0.05
TABLES = ("annotators", "drift", "agreement", "pairs")


@dataclass(frozen=True, slots=True)
class Report:
    """Rows of four tables.

    `annotators`: a row a person or judge. `drift`: its first and its second half. `agreement`: a coefficient a part.
    `pairs`: Cohen's kappa of each two who share items, a part.
    """

    annotators: list[Row]
    drift: list[Row]
    agreement: list[Row]
    pairs: list[Row]

    def frames(self) -> dict[str, pandas.DataFrame]:
        """The same as pandas frames, by name."""
        import pandas

        return {name: pandas.DataFrame(rows) for name, rows in asdict(self).items()}


def report(state: RoundState, sources: Sequence[Source], *, resamples: int = 2_000) -> Report:
    """All that can be said of the annotators of these sources."""
    people = [a for a, s in state.annotators.items() if s in sources]
    return Report(
        annotators=[_annotator(state, a) for a in people],
        drift=[row for a in people for row in _halves(state, a)],
        agreement=[
            {"part": part, **asdict(found)}
            for part in PARTS
            for found in agreement(state, part, sources, resamples=resamples)
        ],
        pairs=list(_pairs(state, people, sources, resamples)),
    )


def every_report(state: RoundState, *, resamples: int = 2_000) -> dict[str, Any]:
    """The report's tables of people and of judges, apart, each row with its source; and the conflicts of each."""
    sources = tuple(dict.fromkeys(state.annotators.values()))
    tables = {s: asdict(report(state, (s,), resamples=resamples)) for s in sources}
    found = {n: [{"source": s, **row} for s in sources for row in tables[s][n]] for n in TABLES}
    return {**found, "conflicts": {s: conflicts(state, (s,)) for s in sources}}


def status(state: RoundState, sources: Sequence[Source], now: float) -> Row:
    """How far the round is: {items, answers, done, disputed, agreement} and more, for `ser annotate status --json`."""
    found = all_consensus(state, sources)
    answers = [a for table in state.answers.values() for a in table.values()]
    return {
        "items": len(found),
        "answers": sum(a.skip is None for a in answers),
        "done": sum(c.state == "done" for c in found),
        "disputed": sum(c.state == "disputed" for c in found),
        "agreement": {part: _brief(agreement(state, part, sources, resamples=0)) for part in PARTS},
        "open": sum(c.state == "open" for c in found),
        "undecided": sum(bool(c.undecided) for c in found),
        "waiting": len(waiting(state, sources, now, found)),
        "in_progress": sum(a.is_live(now) for a in state.open.values()),
        "skipped": dict(Counter(a.skip for a in answers if a.skip)),
        "surplus": sum(a.is_surplus for a in answers),
        "gold": len(state.gold),
        "sources": list(sources),
        "annotators": dict(state.annotators),
    }


def label_report(state: RoundState, sources: Sequence[Source], *, resamples: int = 2_000) -> Row:
    """What a release's card and manifest tell of its labels; people are counted, never named."""
    found = all_consensus(state, sources)
    done = [c for c in found if c.state == "done"]
    judges = sorted(a for a, s in state.annotators.items() if s == "llm") if "llm" in sources else []
    return {
        "sources": list(sources),
        "people": sum(s == "person" for s in state.annotators.values()) if "person" in sources else 0,
        "judges": judges,
        "items": len(found),
        "done": len(done),
        "votes": sum(c.votes for c in found),
        "by_owner": sum(any(r.how == "owner" for r in c.parts.values()) for c in done),
        "undecided": {p: sum(p in c.undecided for c in done) for p in PARTS},
        "labels": {p: _tally(c.parts[p].label for c in done if p in c.parts) for p in PARTS},
        "agreement": {p: [asdict(a) for a in agreement(state, p, sources, resamples=resamples)] for p in PARTS},
    }


def agreement(
    state: RoundState, part: Part, sources: Sequence[Source], *, resamples: int = 2_000
) -> tuple[Agreement, Agreement]:
    """(Fleiss' kappa over the first two votes of each item, Krippendorff's alpha over all votes) for one part."""
    rows = _ratings(state, part, sources)
    first_two = [r[:2] for r in rows if len(r) >= 2]
    return fleiss_kappa(first_two, resamples=resamples), krippendorff_alpha(rows, resamples=resamples)


def conflicts(state: RoundState, sources: Sequence[Source]) -> int:
    """Items of which one annotator prefers the generated reply and another the reference: a tie is no conflict."""
    return sum({"generated", "reference"} <= set(row) for row in _ratings(state, "reply", sources))


def answer_rows(state: RoundState) -> Iterator[Row]:
    """Every answer that holds, a row each, with the position shown and what the verdict says of the two replies."""
    for item, table in state.answers.items():
        for answer in sorted(table.values(), key=lambda a: (a.time, a.annotator)):
            yield {
                "trace_id": state.items[item].trace_id,
                **answer.model_dump(mode="json"),
                "better": answer.better,
                "is_gold": item in state.gold,
                "is_vote": answer.is_vote and item not in state.gold,
            }


def answers_jsonl(state: RoundState, annotator: str | None = None) -> Iterator[str]:
    """The same (or those of one annotator) as lines of JSON; no text is escaped that need not be."""
    rows = (row for row in answer_rows(state) if annotator in (None, row["annotator"]))
    return (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


# -- one annotator ---------------------------------------------------------------------------------------------------


def _annotator(state: RoundState, who: str) -> Row:
    answers = _answers(state, who)
    votes = [a for a in answers if a.skip is None]
    sides = Counter(a.verdict for a in votes if a.verdict in ("first_better", "second_better"))
    first, second = sides["first_better"], sides["second_better"]
    side_p = binomial_two_sided(first, first + second)
    same, compared = _agreeing(state, votes)
    early, late = (_agreeing(state, half) for half in _halved(votes))
    drift_p = fisher_two_sided(early[0], early[1] - early[0], late[0], late[1] - late[0])
    gold = [(a.label(p), state.gold[a.item_id].label(p)) for a in votes if a.item_id in state.gold for p in PARTS]
    gold = [(said, right) for said, right in gold if right is not None and said is not None]
    again = [
        (a.label(p), before.label(p))
        for a in votes
        if a.repeat and (before := state.answers[a.item_id].get((who, 0))) is not None
        for p in state.items[a.item_id].parts
    ]
    return {
        "annotator": who,
        "source": state.annotators[who],
        "answers": len(votes),
        "skipped": len(answers) - len(votes),
        "surplus": sum(a.is_surplus for a in votes),
        "median_seconds": _median(a.seconds for a in votes),
        "true_share": _share(*_true(votes)),
        "agreement": _share(same, compared),
        "first": first,
        "second": second,
        "side_share": _share(max(first, second), first + second),
        "side_p": side_p,
        "is_one_sided": side_p is not None and side_p < SIGNIFICANT,
        "drift": None if not early[1] or not late[1] else late[0] / late[1] - early[0] / early[1],
        "drift_p": drift_p,
        "is_drifting": drift_p is not None and drift_p < SIGNIFICANT,
        "gold_answered": len(gold),
        "gold_accuracy": _share(sum(said == right for said, right in gold), len(gold)),
        "repeats_answered": len(again),
        "self_consistency": _share(sum(a == b for a, b in again), len(again)),
    }


def _halves(state: RoundState, who: str) -> Iterator[Row]:
    votes = [a for a in _answers(state, who) if a.skip is None]
    for name, half in zip(("first", "second"), _halved(votes), strict=True):
        yield {
            "annotator": who,
            "half": name,
            "answers": len(half),
            "median_seconds": _median(a.seconds for a in half),
            "true_share": _share(*_true(half)),
            "agreement": _share(*_agreeing(state, half)),
        }


def _pairs(state: RoundState, people: Sequence[str], sources: Sequence[Source], resamples: int) -> Iterator[Row]:
    said: dict[str, dict[str, Answer]] = {who: {} for who in people}
    for item in state.items:
        for vote in state.votes(item, sources) if item not in state.gold else ():
            said[vote.annotator][item] = vote
    for a, b in combinations(people, 2):
        shared = sorted(said[a].keys() & said[b].keys())
        for part in PARTS if shared else ():
            found = cohen_kappa([(said[a][i].label(part), said[b][i].label(part)) for i in shared], resamples=resamples)
            yield {"first": a, "second": b, "part": part, **asdict(found)}


def _answers(state: RoundState, who: str) -> list[Answer]:
    """In the order in which they were given."""
    return [a for s in state.history.get(who, ()) if (a := state.answer_to(s)) is not None]


def _agreeing(state: RoundState, answers: Iterable[Answer]) -> tuple[int, int]:
    """(how many labels of others on the same items are the same, how many there are to compare with)."""
    same = compared = 0
    for answer in answers:
        if not answer.is_vote or answer.item_id in state.gold:
            continue
        for other in state.votes(answer.item_id, (answer.source,)):
            if other.annotator != answer.annotator:
                parts = state.items[answer.item_id].parts
                compared += len(parts)
                same += sum(answer.label(p) == other.label(p) for p in parts)
    return same, compared


def _true(answers: Iterable[Answer]) -> tuple[int, int]:
    marks = [m.label for a in answers for m in a.steps or ()]
    return sum(marks), len(marks)


def _halved(answers: Sequence[Answer]) -> tuple[Sequence[Answer], Sequence[Answer]]:
    middle = len(answers) // 2
    return answers[:middle], answers[middle:]


def _ratings(state: RoundState, part: Part, sources: Sequence[Source]) -> list[list[str | None]]:
    """A row an item: the votes on one part, the earliest first."""
    return [
        [a.label(part) for a in sorted(state.votes(item, sources), key=lambda a: (a.time, a.annotator))]
        for item, info in state.items.items()
        if part in info.parts and item not in state.gold
    ]


def _brief(found: tuple[Agreement, Agreement]) -> Mapping[str, Any]:
    fleiss, alpha = found
    return {
        "fleiss": fleiss.value,
        "alpha": alpha.value,
        "raw": alpha.raw,
        "items": alpha.items,
        "shares": alpha.shares,
        "reason": alpha.reason,
        "note": alpha.note,
    }


def _tally(labels: Iterable[str | None]) -> dict[str, int]:
    return dict(sorted(Counter(x for x in labels if x is not None).items()))


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _median(seconds: Iterable[float | None]) -> float | None:
    known = [s for s in seconds if s is not None]
    return median(known) if known else None
