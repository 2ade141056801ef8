"""Every finished model call, kept by the hash of its whole request: what makes a build resumable.

SQLite in WAL mode. A writer thread commits in groups, at most 50 ms after a call. A committed call survives kill -9
(power loss may cost the calls since the last checkpoint); one that was not yet committed may be paid for again. Nothing
is ever overwritten: `--fresh` opens a new epoch, in which earlier replies are not seen; `--retry-failures` retires
single replies, so that the next attempt is asked. Each row carries a digest of its reply: a flipped bit is found when
the row is read. A journal holds replies, not requests, and no secret.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import orjson

from .errors import DataError
from .llm.chat import Reply, Usage

APPLICATION_ID = 0x53455231  # "SER1"
SCHEMA_VERSION = 1
GROUP_SECONDS = 0.03
CHECK_BELOW_BYTES = 256 * 2**20
"""A journal up to this size is checked whole on opening (some 0.5 s); a larger one row by row as it is read."""

_SCHEMA = f"""
BEGIN;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
CREATE TABLE epochs (epoch INTEGER PRIMARY KEY, opened REAL NOT NULL);
CREATE TABLE calls (
    id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, key BLOB NOT NULL, retired INTEGER NOT NULL DEFAULT 0,
    stage TEXT NOT NULL, record_id TEXT NOT NULL, reply BLOB NOT NULL, digest BLOB NOT NULL, created REAL NOT NULL,
    UNIQUE (epoch, key)
);
COMMIT;
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A journaled reply; `retired` means: ask the next attempt instead."""

    reply: Reply
    retired: bool


class Journal:
    """The journal of one workspace. One process at a time (the workspace's lock sees to that)."""

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        self._path = path
        self._pending: dict[bytes, tuple[Reply, bytes, str, str]] = {}
        self._lock = threading.Condition()
        self._error: Exception | None = None
        self._closing = False
        self._hurry = threading.Event()
        self._reader = self._open()
        self._epoch = self._enter_epoch(fresh)
        self._thread = threading.Thread(target=self._write_loop, name="journal", daemon=True)
        self._thread.start()

    def get(self, key: str) -> Entry | None:
        """The reply kept under `key` (hex), or None. Raises DataError where the row is damaged."""
        blob = bytes.fromhex(key)
        pending = self._pending.get(blob)
        if pending is not None:
            return Entry(pending[0], retired=False)
        try:
            row = self._reader.execute(
                "SELECT reply, digest, retired FROM calls WHERE epoch = ? AND key = ?", (self._epoch, blob)
            ).fetchone()
        except sqlite3.Error as exc:
            raise self._damaged(exc) from exc
        if row is None:
            return None
        if _digest(blob, row[0]) != row[1]:
            raise DataError(
                f"{self._path}: the reply of call {key[:12]} is damaged",
                "`ser build --fresh` asks every call again; or restore the file from a copy",
            )
        return Entry(_decode(row[0], key), bool(row[2]))

    def put(self, key: str, reply: Reply, *, stage: str, record_id: str) -> None:
        """Keep a reply. Returns at once; `flush` waits for the disk. Raises DataError after a failed write."""
        self._raise_error()
        blob = bytes.fromhex(key)
        body = _encode(reply)
        with self._lock:
            self._pending[blob] = (reply, body, stage, record_id)
            if len(self._pending) == 1:
                self._lock.notify_all()

    def flush(self) -> None:
        """Wait until everything put so far is committed. Raises DataError where it could not be."""
        self._hurry.set()
        with self._lock:
            while self._pending and self._error is None:
                self._lock.wait(0.5)
        self._hurry.clear()
        self._raise_error()

    def retire(self, keys: Iterable[str]) -> int:
        """Set replies aside: the next request with such a key is asked as its next attempt. Returns how many."""
        self.flush()
        with self._lock, self._reader:
            cursor = self._reader.executemany(
                "UPDATE calls SET retired = 1 WHERE epoch = ? AND key = ?",
                [(self._epoch, bytes.fromhex(k)) for k in keys],
            )
        return cursor.rowcount

    def forget(self, record_ids: Iterable[str]) -> int:
        """Delete every reply made for these records, in all epochs, and the space they stood in. Returns how many."""
        self.flush()
        with self._lock:
            with self._reader:
                self._reader.execute("PRAGMA secure_delete = ON")
                cursor = self._reader.executemany("DELETE FROM calls WHERE record_id = ?", [(r,) for r in record_ids])
            self._reader.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return cursor.rowcount

    def close(self) -> None:
        """Commit what is left and close. Raises DataError where it could not be committed."""
        self._hurry.set()
        with self._lock:
            self._closing = True
            self._lock.notify_all()
        self._thread.join()
        self._reader.close()
        self._raise_error()

    def _open(self) -> sqlite3.Connection:
        try:
            db = sqlite3.connect(self._path, check_same_thread=False, timeout=30)
            owner, version = (db.execute(f"PRAGMA {p}").fetchone()[0] for p in ("application_id", "user_version"))
            if not (owner or version or db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]):
                db.execute("PRAGMA journal_mode = WAL")
                db.executescript(_SCHEMA)
            elif owner != APPLICATION_ID:
                raise DataError(
                    f"{self._path}: not a journal of this toolkit",
                    "move the file away, or use another folder with -w",
                )
            elif version != SCHEMA_VERSION:
                raise DataError(
                    f"{self._path}: written by another version (schema {version}, this one reads {SCHEMA_VERSION})",
                    "use the version that wrote it, or another folder",
                )
            elif self._path.stat().st_size <= CHECK_BELOW_BYTES:
                found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
                if found != "ok":
                    raise sqlite3.DatabaseError(found)
            db.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.Error as exc:
            raise self._damaged(exc) from exc
        return db

    def _write_loop(self) -> None:
        try:
            db = sqlite3.connect(self._path, timeout=30)
            db.execute("PRAGMA synchronous = NORMAL")
            while True:
                with self._lock:
                    while not self._pending and not self._closing:
                        self._lock.wait()
                    if not self._pending:
                        break
                    batch = dict(self._pending)
                now = time.time()
                with db:
                    db.executemany(
                        "INSERT OR IGNORE INTO calls (epoch, key, stage, record_id, reply, digest, created)"
                        " VALUES (?, ?, ?, ?, ?, ?, ?)",
                        [(self._epoch, k, s, r, body, _digest(k, body), now) for k, (_, body, s, r) in batch.items()],
                    )
                with self._lock:
                    for k in batch:
                        self._pending.pop(k, None)
                    self._lock.notify_all()
                self._hurry.wait(GROUP_SECONDS)  # let a group gather
            db.close()
        except sqlite3.Error as exc:
            with self._lock:
                self._error = exc
                self._lock.notify_all()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._damaged(self._error) from self._error

    def _damaged(self, exc: Exception) -> DataError:
        text = str(exc)
        if "full" in text:
            return DataError(
                f"{self._path}: no space left on the disk",
                "free some and run the same command again: what was committed is kept",
            )
        if "readonly" in text or "unable to open" in text:
            return DataError(f"{self._path}: cannot be written to (read-only?)", "choose a writable folder with -w")
        if "locked" in text:
            return DataError(f"{self._path}: locked by another program", "close it and run the same command again")
        return DataError(
            f"{self._path}: damaged ({text})",
            "restore it from a copy, or move it away: the calls that it held will then be asked again",
        )

    def _enter_epoch(self, fresh: bool) -> int:
        try:
            last = self._reader.execute("SELECT max(epoch) FROM epochs").fetchone()[0]
            if last is not None and not fresh:
                return int(last)
            with self._reader:
                self._reader.execute("INSERT INTO epochs VALUES (?, ?)", ((last or 0) + 1, time.time()))
        except sqlite3.Error as exc:
            raise self._damaged(exc) from exc
        return int(last or 0) + 1


def _digest(key: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(key + body, digest_size=8).digest()


def _encode(reply: Reply) -> bytes:
    body: dict[str, object] = {
        "text": reply.text.encode("utf-8", "replace").decode(),
        "finish": reply.finish_reason,
        "usage": [reply.usage.prompt_tokens, reply.usage.completion_tokens],
    }
    if reply.logprobs is not None:
        body["logprobs"] = list(reply.logprobs)
    if reply.images_dropped:
        body["images_dropped"] = True
    return orjson.dumps(body)


def _decode(body: bytes, key: str) -> Reply:
    tree = orjson.loads(body)
    usage, dropped = Usage(*tree["usage"]), tree.get("images_dropped", False)
    return Reply(tree["text"], tree["finish"], usage, tree.get("logprobs"), key, dropped)
