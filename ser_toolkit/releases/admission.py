"""Who stands in a release and who is left out, each with its reason: withdrawn, a copy, or unfit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import chain
from typing import Any

from ser_toolkit.errors import RecordError
from ser_toolkit.schema import Dialogue, Trace

from .prompting import PROMPT_VERSION
from .rows import Row, photos, sounds, trace_row
from .splits import SPLITS, Assignment
from .staging import Staging


def withdraw(staging: Staging, ids: frozenset[str]) -> tuple[set[str], list[Row]]:
    """The dialogues that are withdrawn or descend from one that is; and the list of what stays out for it."""
    gone = set(ids)
    found: list[str] = []
    if ids:
        family = [(d.id, (d.id, d.root_id, d.rewritten_from, d.scenario_id)) for d in staging.all_dialogues()]
        before = -1
        while len(gone) != before:  # a rewrite of a rewrite follows its parent
            before = len(gone)
            gone |= {id for id, kin in family if not gone.isdisjoint(kin)}
        found = [id for id, _ in family if id in gone]
    return gone, [_out(id, "dialogue", "withdrawn", traces=staging.traces_of(id)) for id in found]


def left_out_copies(staging: Staging, assignment: Assignment) -> list[Row]:
    return [
        _out(
            c.id, "dialogue", f"{', '.join(c.reasons)}: a copy is in {c.like_split}",
            split=c.split, like=c.like, traces=staging.traces_of(c.id),
        )
        for c in assignment.copies
    ]  # fmt: skip


def _out(id: str, kind: str, reason: str, **more: object) -> Row:
    return {"id": id, "kind": kind, "reason": reason, **more}


def survey(staging: Staging, withdrawn: Collection[str], has_media: bool) -> tuple[list[Row], dict[str, Any]]:
    """One look at every record: the traces that cannot be released and why, and the manifest's counts."""
    unfit = [_out(id, "trace", "its dialogue is not in the tables") for id in staging.orphans()]
    sources: dict[tuple[str, str], Counter[str]] = {}
    languages: Counter[str] = Counter()
    writers: Counter[tuple[str, str]] = Counter()
    totals: Counter[str] = Counter()
    media: Counter[tuple[str, str, str]] = Counter()
    for dialogue in chain.from_iterable(map(staging.dialogues, SPLITS)):
        key = (dialogue.source.format, dialogue.source.licence)
        sources.setdefault(key, Counter())["dialogues"] += 1
        languages[dialogue.lang] += 1
        totals["turns"] += len(dialogue.turns)
        totals["synthetic_turns"] += sum(t.origin.startswith("model") for t in dialogue.turns)
        totals["synthetic_dialogues"] += any(t.origin.startswith("model") for t in dialogue.turns)
        totals["supporter_first"] += dialogue.is_supporter_first
        if has_media:
            totals["with_audio"] += bool(sounds(dialogue))
            licence = dialogue.source.licence
            media.update(
                (m.kind, m.origin, m.licence or licence) for t in dialogue.turns for m in t.media if m.status == "ok"
            )
    for dialogue, trace in chain.from_iterable(map(staging.rounds, SPLITS)):
        problem = "withdrawn" if trace.id in withdrawn else _problem(dialogue, trace)
        if problem:
            unfit.append(_out(trace.id, "trace", problem))
            continue
        sources[dialogue.source.format, dialogue.source.licence]["traces"] += 1
        writers[trace.model, trace.prompt] += 1
        totals["openings_added"] += dialogue.turns[trace.history_start].speaker == "supporter"
        totals["with_images"] += has_media and bool(photos(dialogue, trace))
    return unfit, {
        "with": {"images": totals.pop("with_images", 0), "audio": totals.pop("with_audio", 0)},
        "media": [
            {"kind": kind, "origin": origin, "licence": licence, "count": n}
            for (kind, origin, licence), n in sorted(media.items())
            if kind != "video"  # of a video a release holds the pictures alone
        ],
        "sources": [
            {"format": f, "licence": licence, "dialogues": n["dialogues"], "traces": n["traces"]}
            for (f, licence), n in sorted(sources.items())
        ],
        "languages": dict(sorted(languages.items())),
        "written_by": [
            {"model": model, "prompt": prompt, "traces": n} for (model, prompt), n in sorted(writers.items())
        ],
        "policy_prompt": PROMPT_VERSION,
        "totals": {
            k: totals[k]
            for k in ("turns", "synthetic_turns", "synthetic_dialogues", "supporter_first", "openings_added")
        },
    }


def _problem(dialogue: Dialogue, trace: Trace) -> str | None:
    """Why a trace cannot stand in a release, or None."""
    if not trace.history_start < trace.target < len(dialogue.turns):
        return f"its target, turn {trace.target}, does not lie in its dialogue"
    if dialogue.turns[trace.target].speaker != "supporter" or dialogue.turns[trace.target - 1].speaker != "seeker":
        return f"its target, turn {trace.target}, is not a supporter's answer to the seeker"
    try:
        trace_row(dialogue, trace)
    except RecordError as exc:
        return exc.reason
    return None
