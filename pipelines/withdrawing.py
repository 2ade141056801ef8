"""`ser withdraw ID`: a dialogue, and all that was made from it, leaves tables, journal and every later release."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from annotation.ledger import Ledger, ledger_path
from ser_toolkit.errors import UsageError
from ser_toolkit.journal import Journal
from ser_toolkit.media.store import MediaStore
from ser_toolkit.protection.ids import protect_id
from ser_toolkit.schema import Dialogue, Failure, Record, Scenario, Trace, Verdict
from ser_toolkit.store import read_table, sync, write_table
from ser_toolkit.workspace import Workspace, writing

from .rewriting import TABLES as REWRITING
from .stages.rewriting.records import Clustering, Draw, Profile, Quality

TABLES: dict[str, type[Record]] = {
    "imported": Dialogue,
    "scenarios": Scenario,
    "import_failures": Failure,
    "invented": Scenario,
    "synthesized": Dialogue,
    "verdicts": Verdict,
    "dialogues": Dialogue,
    "traces": Trace,
    "failures": Failure,
    **REWRITING,
}
"""Every table of a workspace and what it holds."""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """What left. `releases` are those on disk that still hold it: releases never change."""

    ids: tuple[str, ...]
    rows: int
    items: int
    replies: int
    media: int
    releases: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "ids": list(self.ids),
            "rows": self.rows,
            "items": self.items,
            "replies": self.replies,
            "media": self.media,
            "releases": list(self.releases),
        }

    def render(self) -> str:
        if not self.rows and not self.replies:
            return f"withdrawn already: {', '.join(self.ids)}; nothing of it was left in this workspace"
        text = (
            f"withdrawn: {', '.join(self.ids)}\n  deleted: {self.rows} rows of the tables, "
            f"{self.replies} kept replies, {self.items} annotated items and {self.media} pictures and sounds"
        )
        if self.releases:
            text += (
                f"\n  still in: {', '.join(self.releases)} (releases never change: delete them where they may not stay)"
            )
        return text + "\nnext: ser export makes a release without it"


def withdrawn_ids(home: Workspace) -> frozenset[str]:
    """The ids that no build may take in again."""
    if not home.withdrawn.exists():
        return frozenset()
    return frozenset(home.withdrawn.read_text(encoding="utf-8").split())


def withdraw(home: Workspace, id: str) -> Withdrawal:
    """Withdraw a dialogue or a scenario, by its id or by the one that the source gave it (a private id is hashed).

    Raises UsageError where the workspace knows no such id.
    """
    with home.must_exist().locked():
        family = _family(home, protect_id(id))
        shown = _media_of(home, family)
        _remember(home, withdrawn_ids(home) | family)
        rows = sum(_without(home, name, record, family) for name, record in TABLES.items())
        files = MediaStore(home.media).remove(sorted(shown - _media_of(home, None)))
        items = 0
        if ledger_path(home.root).exists():
            with Ledger(ledger_path(home.root)) as ledger:
                items = ledger.withdraw(family)
        replies = 0
        if home.journal.exists():
            journal = Journal(home.journal)
            replies = journal.forget(sorted(family))
            journal.close()
    return Withdrawal(tuple(sorted(family)), rows, items, replies, files, tuple(sorted(_holding(home))))


def _family(home: Workspace, id: str) -> frozenset[str]:
    """The record and all that descends from it."""
    known = id in withdrawn_ids(home)
    family = {id}
    for name in ("imported", "scenarios", "invented", "synthesized", "profiles", "rewritten"):
        for record in read_table(home.table(name), TABLES[name]):
            known = known or _ids(record)[0] == id
            if family & set(_ids(record)):
                family.add(_ids(record)[0])
    if not known:
        raise UsageError(f"{id}: no dialogue or scenario of this workspace has that id", "`ser show ID` finds records")
    return frozenset(family)


def _media_of(home: Workspace, family: frozenset[str] | None) -> set[str]:
    """The paths of the media that these dialogues show (`None`: all that are left)."""
    names = [name for name, record in TABLES.items() if record is Dialogue]
    return {
        m.path
        for name in names
        for d in read_table(home.table(name), Dialogue)
        if family is None or not family.isdisjoint(_ids(d))
        for turn in d.turns
        for m in turn.media
        if m.path and m.status == "ok"
    }


def _ids(record: Record) -> tuple[str, ...]:
    """A record's own id first, then those of what it was made from."""
    match record:
        case Dialogue():
            lent = [s.attributes.get("disc_profile") for s in record.speakers]  # somebody else's personality
            parents = (record.root_id, record.scenario_id, record.rewritten_from, *lent)
            return (record.id, *(str(p) for p in parents if p))
        case Scenario():
            return (record.id,)
        case Trace():
            return (record.id, record.dialogue_id, record.root_id)
        case Verdict() | Failure() | Quality():
            return (record.record_id,)
        case Profile():
            return (record.id, record.dialogue_id)
        case Draw():
            return (record.profile_id, record.dialogue_id, record.drawn or "")
        case Clustering():  # counts and means: nobody's own
            return ()
    raise TypeError(type(record))


def _without(home: Workspace, name: str, record: type[Record], family: frozenset[str]) -> int:
    path = home.table(name)
    if not path.exists():
        return 0
    gone = 0

    def rest() -> Iterator[Record]:
        nonlocal gone
        for row in read_table(path, record):
            if family & set(_ids(row)):
                gone += 1
            else:
                yield row

    write_table(path, record, rest())
    return gone


def _remember(home: Workspace, ids: Iterable[str]) -> None:
    part = home.withdrawn.with_suffix(".part")
    with writing(part):
        part.write_text("".join(f"{i}\n" for i in sorted(ids)), encoding="utf-8")
        sync(part)
        part.replace(home.withdrawn)


def _holding(home: Workspace) -> list[str]:
    return [p.name for p in home.releases.glob("*") if (p / "manifest.json").exists()]
