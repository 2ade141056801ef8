"""`ser show ID`: a record and what was made from it, as a person reads it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

from ser_toolkit.errors import UsageError
from ser_toolkit.schema import Dialogue, Failure, Media, Record, Scenario, Trace, Turn, Verdict
from ser_toolkit.store import read_table
from ser_toolkit.visible import visible
from ser_toolkit.workspace import Workspace

from .stages.rewriting.compare import DIMENSIONS
from .stages.rewriting.records import Profile, Quality
from .withdrawing import TABLES

WIDTH = 100
CANDIDATES = 10
"""Ids that are named where the start of one is not enough."""
SHOWN = (
    *("imported", "scenarios", "invented", "synthesized", "verdicts", "traces", "failures"),
    *("profiles", "rewritten", "rewrite_verdicts", "rewrite_quality", "rewrite_traces"),
)


def find(home: Workspace, id: str) -> list[Record]:
    """The records of one id, with the verdicts, traces and failures of a dialogue; the start of an id will do, where no
    other begins so. Raises UsageError, which lists the candidates.
    """
    home.must_exist()
    parents = {i: p for r in _records(home) for i, p in _names(r) if id and i.startswith(id)}
    heads = [i for i, parent in parents.items() if parent == i or parent not in parents]
    if not heads:
        raise UsageError(
            f"{id or '(no id)'}: nothing in {home.root} has that id", "`ser build` prints where its tables are"
        )
    if id not in parents and len(heads) > 1:
        some = sorted(heads)[:CANDIDATES]
        more = f" and {len(heads) - len(some)} more" if len(heads) > len(some) else ""
        raise UsageError(f"{id}: {len(heads)} ids begin so", f"which one? {', '.join(some)}{more}")
    wanted = id if id in parents else heads[0]
    return [r for r in _records(home) if any(wanted in pair for pair in _names(r))]


def render(records: Iterable[Record]) -> str:
    """The records one under the other. Control characters of the text are shown, never sent to the terminal."""
    return "\n\n".join("\n".join(visible(line, one_line=True) for line in _lines(r)) for r in records)


def _records(home: Workspace) -> Iterator[Record]:
    return (r for name in SHOWN for r in read_table(home.table(name), TABLES[name]))


def _names(record: Record) -> Iterator[tuple[str, str]]:
    """Each id by which a record can be asked for, and that of the record which it belongs to (itself, if none)."""
    own = _own_id(record)
    if own:
        yield own, _parent_id(record)
    if isinstance(record, Failure) and record.request_key:
        yield record.request_key, own or record.request_key


def _own_id(record: Record) -> str:
    if isinstance(record, Verdict | Failure | Quality):
        return record.record_id
    return str(getattr(record, "id", ""))


def _parent_id(record: Record) -> str:
    if isinstance(record, Trace | Profile):
        return record.dialogue_id
    if isinstance(record, Failure) and record.stage == "reason":  # known by the trace that was not made
        return re.sub(r"-r\d+$", "", record.record_id)
    rewritten_from = record.rewritten_from if isinstance(record, Dialogue) else None
    return rewritten_from or _own_id(record)


def _lines(record: Record) -> list[str]:
    match record:
        case Dialogue():
            source = record.source
            where = f"{source.format} {source.file} {source.position}".strip()
            head = f"dialogue {record.id}  [{record.lang}]  {where}  licence {source.licence}"
            about = [f"  {n}: {v}" for n, v in (("problem", record.problem), ("situation", record.situation)) if v]
            if record.rewritten_from:
                about.insert(0, f"  rewritten from {record.rewritten_from}")
            flags = [f"  flags: {', '.join(record.flags)}"] if record.flags else []
            return [head, *about, *flags, *(line for t in record.turns for line in _turn(t))]
        case Scenario():
            return [
                f"scenario {record.id}  [{record.lang}]",
                *_wrap(record.situation),
                *_wrap(f"opening: {record.opening}"),
            ]
        case Trace():
            labels = ", ".join(
                filter(
                    None,
                    (record.stage, record.strategy, record.sentiment, record.intensity, *record.emotions),
                )
            )
            steps = [line for s in record.steps for line in (f"  {s.number}. {s.title}", *_wrap(s.text, 5))]
            reference = _wrap(f"reference: {record.reference}") if record.reference else []
            return [
                f"trace {record.id}  round {record.round}  {record.model}  {record.prompt}",
                f"  labels: {labels or 'none read'}",
                *steps,
                *_wrap(f"reply: {record.reply}"),
                *reference,
            ]
        case Verdict():
            word = {True: "keep", False: "drop", None: "no verdict"}[record.keep]
            return [
                f"verdict on {record.record_id}: {word}, {'enforced' if record.enforced else 'recorded only'}",
                *_wrap("; ".join(filter(None, (", ".join(record.failed), record.reason)))),
            ]
        case Profile():
            lines = [f"{t.dimension} {t.score}/10: {t.analysis}" for t in record.traits]
            return [f"profile {record.id}  {record.model}  {record.prompt}", *(w for x in lines for w in _wrap(x))]
        case Quality():
            scores = ", ".join(f"{d.replace('_', ' ')} {getattr(record, d)}/3" for d in DIMENSIONS)
            return [f"quality of {record.record_id}: {scores}"]
        case Failure():
            where = " ".join(x for x in (record.source, record.file, record.position) if x)
            return [
                f"failure {record.record_id or where}: {record.kind} in {record.stage}",
                *_wrap(record.reason),
                *_wrap(record.text),
                f"  call: {record.request_key or 'none'}",
            ]
    return [repr(record)]


def _turn(turn: Turn) -> list[str]:
    labels = ", ".join(label.corpus or label.original for label in (*turn.strategies, *turn.emotions))
    cues = [line for c in turn.cues for line in _wrap(f"({c.channel}: {c.text})", 5)]
    media = [line for m in turn.media for line in _wrap(_medium(m), 5)]
    return [*_wrap(f"{turn.speaker}{f' [{labels}]' if labels else ''}: {turn.text}"), *cues, *media]


def _medium(medium: Media) -> str:
    where = f"media/{medium.path}" if medium.status == "ok" else medium.path or medium.url or ""
    told = [f"{medium.kind}: {where or medium.status}"]
    told += [medium.status] if where and medium.status != "ok" else []
    told += [f"from {medium.origin}"] if medium.origin != "corpus" else []
    told += [f"shows {medium.shows}"] if medium.shows else []
    return f"({', '.join(told)})"


def _wrap(text: str, indent: int = 2) -> list[str]:
    pad = " " * indent
    return [
        line
        for part in visible(text).split("\n")
        for line in textwrap.wrap(part, WIDTH, initial_indent=pad, subsequent_indent=pad + "  ")
    ]
