"""The file under the ledger: an append-only log of events in SQLite, with the items and the drafts beside it.

WAL mode, every transaction synced: what was committed survives kill -9 and power loss. Each event carries a digest of
its content and one of the chain so far, so an event that was changed, exchanged or cut out is found and named when the
log is read. Drafts are overwritten and hold nothing that counts. Only what was withdrawn is ever deleted: the body of
such an event is emptied, and the chain stays whole, since it runs over the digests.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from ser_toolkit.errors import DataError, UsageError

from .blinding import KEY_BYTES

APPLICATION_ID = 0x53455241  # "SERA"
SCHEMA_VERSION = 1
RESTORE = "restore the file from a copy; `.recover` of the sqlite3 shell saves what can be read"

_TABLES = (
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
    "CREATE TABLE round (settings TEXT NOT NULL, key BLOB NOT NULL)",
    "CREATE TABLE items (id TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, kind TEXT NOT NULL,"
    " item TEXT NOT NULL, annotator TEXT NOT NULL, body BLOB, digest BLOB NOT NULL, chain BLOB NOT NULL)",
    "CREATE INDEX events_of_item ON events (item)",
    "CREATE TABLE drafts (view TEXT PRIMARY KEY, time REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID",
)
_COLUMNS = "id, time, kind, item, annotator, body, digest, chain"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. `body` is `None` where it was about something that was withdrawn since."""

    id: int
    time: float
    kind: str
    item: str
    annotator: str
    body: dict[str, Any] | None


class EventLog:
    """One file. Not safe to use from two threads at once: the ledger holds a lock. Raises DataError throughout."""

    def __init__(self, path: Path, settings: str | None) -> None:
        """Open the log at `path`; where there is none, make it with these `settings`, or raise UsageError."""
        self._path = path
        if settings is None and not (path.exists() and path.stat().st_size):
            raise self._absent()
        with self.explained():
            try:
                if not path.exists() or not path.stat().st_size:
                    path.touch()
                    path.chmod(0o600)  # it will hold the key of the blinding
            except OSError as exc:
                raise DataError(f"{path}: cannot be made: {exc.strerror}", "choose a writable folder with -w") from exc
            self._db = sqlite3.connect(path, timeout=30, check_same_thread=False, isolation_level=None)
            if not self._pragma("application_id") and not self._has_tables():
                self._make(settings)
            self._check_version()
            self._db.execute("PRAGMA synchronous = FULL")
        self.rewind()

    def _absent(self) -> UsageError:
        return UsageError(
            f"{self._path}: no round of annotation has begun here",
            "`ser annotate serve`, `push` or `judge` begins one from a finished build",
        )

    def round(self) -> tuple[str, bytes]:
        """The round's settings, as JSON, and its secret key."""
        with self.explained():
            row = self._db.execute("SELECT settings, key FROM round").fetchone()
        if row is None:
            raise DataError(f"{self._path}: the round's settings are gone", RESTORE)
        return row

    # -- events ------------------------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is appended within is on disk at the end, or nothing is. One process at a time."""
        with self.explained():
            self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            with self.explained():
                self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def append(self, kind: str, item: str, annotator: str, body: dict[str, Any]) -> Event:
        """Add an event, within a transaction that has read all before it."""
        data = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
        moment = time.time()
        digest = _digest(repr(moment), kind, item, annotator, data)
        chain = _chained(self._chain, digest)
        with self.explained():
            cursor = self._db.execute(
                "INSERT INTO events (time, kind, item, annotator, body, digest, chain) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (moment, kind, item, annotator, data, digest, chain),
            )
        self.last, self._chain = int(cursor.lastrowid or 0), chain
        return Event(self.last, moment, kind, item, annotator, body)

    def read(self) -> Iterator[Event]:
        """The events since the last read or append, checked."""
        with self.explained():
            rows = self._db.execute(f"SELECT {_COLUMNS} FROM events WHERE id > ? ORDER BY id", (self.last,)).fetchall()
        for id, moment, kind, item, annotator, body, digest, chain in rows:
            whole = body is None or _digest(repr(moment), kind, item, annotator, body) == digest
            if not whole or _chained(self._chain, digest) != chain:
                raise DataError(f"{self._path}: event {id} ({kind}) is damaged, or one before it is gone", RESTORE)
            self.last, self._chain = id, chain
            yield Event(id, moment, kind, item, annotator, None if body is None else orjson.loads(body))

    def rewind(self) -> None:
        """Read from the beginning next."""
        self.last, self._chain = 0, b""

    def last_on_disk(self) -> int:
        with self.explained():
            return self._db.execute("SELECT max(id) FROM events").fetchone()[0] or 0

    def scrub(self, item: str) -> None:
        """Delete an item and the bodies of its events."""
        with self.explained():
            self._db.execute("PRAGMA secure_delete = ON")
            self._db.execute("DELETE FROM items WHERE id = ?", (item,))
            self._db.execute("UPDATE events SET body = NULL WHERE item = ?", (item,))

    def forget_pages(self) -> None:
        """Leave nothing of what was scrubbed in the write-ahead log."""
        with self.explained():
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # -- beside the log ----------------------------------------------------------------------------------------------

    def put_item(self, id: str, body: bytes) -> None:
        with self.explained():
            self._db.execute("INSERT OR REPLACE INTO items VALUES (?, ?)", (id, body))

    def item(self, id: str) -> bytes:
        """The body of an item; empty where there is none."""
        with self.explained():
            row = self._db.execute("SELECT body FROM items WHERE id = ?", (id,)).fetchone()
        return row[0] if row else b""

    def put_draft(self, view: str, body: dict[str, Any]) -> None:
        with self.explained():
            self._db.execute("PRAGMA synchronous = NORMAL")  # many a second, and none of them counts
            try:
                self._db.execute(
                    "INSERT OR REPLACE INTO drafts VALUES (?, ?, ?)", (view, time.time(), orjson.dumps(body))
                )
            finally:
                self._db.execute("PRAGMA synchronous = FULL")

    def draft(self, view: str) -> dict[str, Any] | None:
        with self.explained():
            row = self._db.execute("SELECT body FROM drafts WHERE view = ?", (view,)).fetchone()
        return None if row is None else orjson.loads(row[0])

    def drop_draft(self, view: str) -> None:
        with self.explained():
            self._db.execute("DELETE FROM drafts WHERE view = ?", (view,))

    def close(self) -> None:
        self._db.close()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _make(self, settings: str | None) -> None:
        if settings is None:
            raise self._absent()
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("BEGIN IMMEDIATE")
        if not self._has_tables():  # else another process made them in this moment
            for statement in _TABLES:
                self._db.execute(statement)
            self._db.execute("INSERT INTO round VALUES (?, ?)", (settings, secrets.token_bytes(KEY_BYTES)))
        self._db.execute("COMMIT")

    def _check_version(self) -> None:
        version = self._pragma("user_version")
        if self._pragma("application_id") != APPLICATION_ID:
            raise DataError(
                f"{self._path}: not a ledger of this toolkit", "move it away, or use another folder with -w"
            )
        if version != SCHEMA_VERSION:
            raise DataError(
                f"{self._path}: written by another version (schema {version}, this one reads {SCHEMA_VERSION})",
                "use the version that wrote it",
            )

    def _pragma(self, name: str) -> int:
        return self._db.execute(f"PRAGMA {name}").fetchone()[0]

    def _has_tables(self) -> bool:
        return self._db.execute("SELECT 1 FROM sqlite_master").fetchone() is not None

    @contextmanager
    def explained(self) -> Iterator[None]:
        """SQLite's refusals as a DataError that says what to do."""
        try:
            yield
        except sqlite3.Error as exc:
            raise self._explain(str(exc)) from exc

    def _explain(self, text: str) -> DataError:
        if "full" in text:
            return DataError(f"{self._path}: no space left on the disk", "free some; every acknowledged answer is kept")
        if "readonly" in text or "unable to open" in text:
            return DataError(f"{self._path}: cannot be written to (read-only?)", "choose a writable folder with -w")
        if "locked" in text:
            return DataError(f"{self._path}: locked by another program", "close it and try again")
        return DataError(f"{self._path}: damaged ({text})", RESTORE)


def _digest(*parts: str | bytes) -> bytes:
    sha = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
        sha.update(len(data).to_bytes(8, "big") + data)
    return sha.digest()[:16]


def _chained(chain: bytes, digest: bytes) -> bytes:
    return hashlib.sha256(chain + digest).digest()[:16]
