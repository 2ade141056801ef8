"""What a release is made from, put in canonical order without holding it in memory.

Dialogues and traces come in any order and any number; a temporary SQLite file sorts and joins them. Canonical
order is by dialogue id, then target turn, then trace id, so the order in which a build finished never shows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ser_toolkit.errors import DataError
from ser_toolkit.schema import Dialogue, Trace

from .labels import TraceLabels


class Staging:
    """The records of one release, on disk for its making; what has no split, or is left out, is not read back."""

    def __init__(self, file: Path) -> None:
        self._db = sqlite3.connect(file, isolation_level=None)
        # Nothing here outlives the export: no journal, no sync.
        self._db.executescript(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-16384;"
            "CREATE TABLE dialogues(id TEXT PRIMARY KEY, body BLOB);"
            "CREATE TABLE traces(dialogue TEXT, target INT, id TEXT UNIQUE, body BLOB);"
            "CREATE INDEX traces_in_order ON traces(dialogue, target, id);"
            "CREATE TABLE splits(split TEXT, id TEXT, PRIMARY KEY(split, id)) WITHOUT ROWID;"
            "CREATE TABLE out(id TEXT PRIMARY KEY) WITHOUT ROWID;"
            "CREATE TABLE labels(trace TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID;"
            "BEGIN"
        )

    def add_dialogues(self, dialogues: Iterable[Dialogue]) -> None:
        """Raises DataError on an id that comes twice."""
        self._add("INSERT INTO dialogues(id, body) VALUES(?, ?)", ((d.id, d.model_dump_json()) for d in dialogues))

    def add_traces(self, traces: Iterable[Trace]) -> None:
        """Raises DataError on an id that comes twice."""
        self._add(
            "INSERT INTO traces(dialogue, target, id, body) VALUES(?, ?, ?, ?)",
            ((t.dialogue_id, t.target, t.id, t.model_dump_json()) for t in traces),
        )

    def add_labels(self, labels: Iterable[TraceLabels]) -> None:
        """Raises DataError on a trace that is labelled twice."""
        self._add("INSERT INTO labels(trace, body) VALUES(?, ?)", ((x.trace_id, x.model_dump_json()) for x in labels))

    def _add(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        id: object = None
        for row in rows:
            id = row[-2]
            try:
                self._db.execute(statement, row)
            except sqlite3.IntegrityError as exc:
                raise DataError(
                    f"{id}: this id comes twice",
                    "ids of a release are unique; delete the tables and build again",
                ) from exc

    def all_dialogues(self) -> Iterator[Dialogue]:
        for (body,) in self._db.execute("SELECT body FROM dialogues ORDER BY id"):
            yield Dialogue.model_validate_json(body)

    def dialogues(self, split: str) -> Iterator[Dialogue]:
        query = "SELECT body FROM splits s JOIN dialogues d ON d.id = s.id WHERE s.split = ? ORDER BY s.id"
        for (body,) in self._db.execute(query, (split,)):
            yield Dialogue.model_validate_json(body)

    def rounds(self, split: str) -> Iterator[tuple[Dialogue, Trace]]:
        """Each trace of a split with its dialogue; a dialogue is read once for all its traces."""
        query = (
            "SELECT d.id, d.body, t.body FROM splits s JOIN dialogues d ON d.id = s.id"
            " JOIN traces t ON t.dialogue = s.id WHERE s.split = ? AND t.id NOT IN out ORDER BY s.id, t.target, t.id"
        )
        dialogue: Dialogue | None = None
        for id, body, trace in self._db.execute(query, (split,)):
            if dialogue is None or dialogue.id != id:
                dialogue = Dialogue.model_validate_json(body)
            yield dialogue, Trace.model_validate_json(trace)

    def labelled(self, split: str) -> Iterator[tuple[Dialogue, Trace, TraceLabels]]:
        """Each trace of a split that has labels, its own or those of the trace that it was rewritten from."""
        if self._db.execute("SELECT 1 FROM labels LIMIT 1").fetchone() is None:
            return
        for dialogue, trace in self.rounds(split):
            row = self._db.execute("SELECT body FROM labels WHERE trace = ?", (trace.labelled_id,)).fetchone()
            if row is not None:
                yield dialogue, trace, TraceLabels.model_validate_json(row[0])

    def orphans(self) -> list[str]:
        """Traces whose dialogue did not come at all."""
        query = "SELECT id FROM traces WHERE dialogue NOT IN (SELECT id FROM dialogues) ORDER BY id"
        return [id for (id,) in self._db.execute(query)]

    def traces_of(self, dialogue_id: str) -> int:
        return self._db.execute("SELECT count(*) FROM traces WHERE dialogue = ?", (dialogue_id,)).fetchone()[0]

    def set_splits(self, splits: Mapping[str, str]) -> None:
        """`splits` is dialogue id -> split."""
        self._db.executemany("INSERT INTO splits(id, split) VALUES(?, ?)", splits.items())

    def leave_out_traces(self, ids: Iterable[str]) -> None:
        self._db.executemany("INSERT INTO out VALUES(?)", ((i,) for i in ids))

    def close(self) -> None:
        self._db.close()
