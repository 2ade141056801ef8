import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ser_toolkit.errors import DataError
from ser_toolkit.journal import Journal
from ser_toolkit.llm.chat import Reply, Usage

KEY, OTHER = "ab" * 32, "cd" * 32


def kept(journal: Journal, key: str = KEY) -> str | None:
    entry = journal.get(key)
    return entry.reply.text if entry else None


def put(path: Path, text: str = "hello", key: str = KEY, record_id: str = "d1", fresh: bool = False) -> None:
    journal = Journal(path, fresh=fresh)
    journal.put(key, Reply(text, usage=Usage(3, 4)), stage="reason", record_id=record_id)
    journal.close()


def test_a_reply_is_kept_whole(tmp_path):
    path = tmp_path / "journal.sqlite"
    reply = Reply("你好 \ud800 \x00", "length", Usage(3, 4), [{"token": "a", "logprob": -0.5}])
    journal = Journal(path)
    journal.put(KEY, reply, stage="reason", record_id="d1")
    assert kept(journal) is not None, "seen at once, committed or not"
    journal.close()
    entry = Journal(path).get(KEY)
    assert entry is not None and not entry.retired
    assert entry.reply == Reply("你好 ? \x00", "length", Usage(3, 4), [{"token": "a", "logprob": -0.5}], KEY)


def test_what_was_flushed_survives_kill_9(tmp_path):
    path = tmp_path / "journal.sqlite"
    code = (
        "import sys, time; from pathlib import Path\n"
        "from ser_toolkit.journal import Journal; from ser_toolkit.llm.chat import Reply\n"
        "j = Journal(Path(sys.argv[1]))\n"
        "for i in range(500): j.put(f'{i:064x}', Reply(f'r{i}'), stage='s', record_id='d')\n"
        "j.flush(); print('flushed', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "flushed\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    journal = Journal(path)
    assert [kept(journal, f"{i:064x}") for i in range(500)] == [f"r{i}" for i in range(500)]


def test_a_reply_is_committed_within_moments_without_a_flush(tmp_path):
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    journal.put(KEY, Reply("x"), stage="s", record_id="d")
    with sqlite3.connect(path, timeout=5) as other:
        for _ in range(200):
            if other.execute("SELECT count(*) FROM calls").fetchone()[0]:
                break
            time.sleep(0.01)
        else:
            pytest.fail("not committed within 2 s")
    journal.close()


def test_fresh_hides_earlier_replies_and_keeps_doing_so(tmp_path):
    path = tmp_path / "journal.sqlite"
    put(path, "old")
    Journal(path, fresh=True).close()
    journal = Journal(path)
    assert kept(journal) is None
    journal.close()
    put(path, "new")
    assert kept(Journal(path)) == "new"
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM calls").fetchone()[0] == 2, "nothing is deleted"


def test_the_first_reply_wins(tmp_path):
    path = tmp_path / "journal.sqlite"
    put(path, "first")
    put(path, "second")
    assert kept(Journal(path)) == "first"


def test_retired_replies_are_marked(tmp_path):
    path = tmp_path / "journal.sqlite"
    put(path)
    journal = Journal(path)
    assert journal.retire([KEY, OTHER]) == 1
    entry = journal.get(KEY)
    assert entry is not None and entry.retired
    journal.close()


def test_forgetting_a_record_leaves_no_trace_of_its_text(tmp_path):
    path = tmp_path / "journal.sqlite"
    put(path, "a very private sentence")
    put(path, "another", key=OTHER, record_id="d2")
    journal = Journal(path)
    assert journal.forget(["d1"]) == 1
    assert (kept(journal), kept(journal, OTHER)) == (None, "another")
    journal.close()
    assert b"very private" not in path.read_bytes()


def test_a_flipped_bit_is_named(tmp_path):
    path = tmp_path / "journal.sqlite"
    put(path, "a" * 1000)
    data = bytearray(path.read_bytes())
    data[data.index(b"aaaa") + 500] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match="abababababab is damaged"):
        Journal(path).get(KEY)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"not a database, but long enough to be looked at" * 100, "damaged"),
        (b"\x89PNG\r\n\x1a\n" + bytes(5000), "damaged"),
    ],
)
def test_another_file_in_its_place_is_refused(tmp_path, content, says):
    path = tmp_path / "journal.sqlite"
    path.write_bytes(content)
    with pytest.raises(DataError, match=says):
        Journal(path)
    assert path.read_bytes() == content


def test_a_foreign_database_is_refused(tmp_path):
    path = tmp_path / "journal.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE t (x)")
    with pytest.raises(DataError, match="not a journal of this toolkit"):
        Journal(path)


def test_another_schema_version_is_refused(tmp_path):
    path = tmp_path / "journal.sqlite"
    put(path)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(DataError, match="another version"):
        Journal(path)


def test_a_truncated_journal_is_refused(tmp_path):
    path = tmp_path / "journal.sqlite"
    for i in range(3):
        put(path, "x" * 9000, key=f"{i:064x}")
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(DataError, match="damaged"):
        journal = Journal(path)
        for i in range(3):
            journal.get(f"{i:064x}")
