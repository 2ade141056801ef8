"""A build that is stopped, at any moment and by anything, goes on where it was."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from tests.faults.conftest import ROOT, command, finish, start
from tests.integration.conftest import REPLIES, write_dialogues
from tests.needs import lacking
from tests.servers.openai_stand_in import StandIn

DIALOGUES, ROUNDS = 30, 3
CALLS = DIALOGUES * (1 + ROUNDS)
MORE = ("--set", "llm.concurrency=8")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    with StandIn(reply=f"{REPLIES}:build", latency_s=0.03) as running:
        yield running


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return f"messages:{write_dialogues(tmp_path_factory.mktemp('in') / 'in.jsonl', DIALOGUES)}"


@pytest.fixture(scope="module")
def whole(tmp_path_factory, server, source):
    """The tables and the content hash of an uninterrupted build."""
    workspace = tmp_path_factory.mktemp("whole")
    result = finish(workspace, source, server.base_url, *MORE)
    assert (result["calls"], result["replayed"]) == (CALLS, 0)
    return tables(workspace), result["content_hash"]


def tables(workspace: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted((workspace / "tables").glob("*.parquet"))}


def committed(workspace: Path) -> int:
    if not (workspace / "journal.sqlite").exists():
        return 0
    with sqlite3.connect(workspace / "journal.sqlite", timeout=10) as db:
        if not db.execute("PRAGMA user_version").fetchone()[0]:
            return 0
        return db.execute("SELECT count(*) FROM calls").fetchone()[0]


@pytest.mark.parametrize("seed", range(3))
def test_kill_9_at_any_moment_loses_and_repeats_nothing(tmp_path, server, source, whole, seed):
    draw = random.Random(seed)
    kills = 0
    while True:
        before = committed(tmp_path)
        process = start(tmp_path, source, server.base_url, *MORE)
        try:
            out, err = process.communicate(timeout=draw.uniform(0.6, 2.2) if kills < 6 else 120)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            kills += 1
            continue
        assert process.returncode == 0, err
        break
    result = json.loads(out)
    assert kills, "never interrupted: nothing was tested"
    assert result["calls"] == CALLS - before, "a committed call was made again, or one was lost"
    assert result["replayed"] == before
    assert (tables(tmp_path), result["content_hash"]) == whole
    assert not list((tmp_path / "tables").glob("*.part"))
    assert [p.name for p in (tmp_path / "releases").iterdir()] == ["ser-0.1.0"]


def test_ctrl_c_ends_with_130_and_the_work_is_kept(tmp_path, server, source, whole):
    process = start(tmp_path, source, server.base_url, *MORE)
    while committed(tmp_path) < CALLS // 3:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "interrupted" in err and "Traceback" not in err
    before = committed(tmp_path)
    assert CALLS // 3 <= before < CALLS
    result = finish(tmp_path, source, server.base_url, *MORE)
    assert (result["calls"], result["content_hash"]) == (CALLS - before, whole[1])


def test_two_builds_in_one_workspace(tmp_path, source):
    with StandIn(reply=f"{REPLIES}:build", latency_s=30) as slow:
        first = start(tmp_path, source, slow.base_url)
        while not (tmp_path / "journal.sqlite").exists():
            assert first.poll() is None
            time.sleep(0.01)
        second = subprocess.run(
            command(tmp_path, source, slow.base_url), cwd=ROOT, capture_output=True, text=True, timeout=60
        )
        first.kill()
        first.communicate()
    assert second.returncode == 3
    assert f"another command (process {first.pid}) is working in this workspace" in second.stderr


def test_a_full_disk_is_told_and_the_work_is_kept(tmp_path, server, source, whole):
    """A real file system of 250 kB, which fills up; then the workspace moves to a larger place."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=250k", "tmpfs", small], capture_output=True, text=True
    )
    if mounted.returncode:
        lacking(f"needs the right to mount: {mounted.stderr.strip()}")
    try:
        done = subprocess.run(command(small, source, server.base_url, *MORE), cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 3, done.stderr
        assert "no space left on the disk" in done.stderr and "Traceback" not in done.stderr
        subprocess.run(["cp", "-a", small, tmp_path / "large"], check=True)
    finally:
        subprocess.run(["umount", small], check=True)
    before = committed(tmp_path / "large")
    result = finish(tmp_path / "large", source, server.base_url, *MORE)
    assert before > 0 and result["calls"] == CALLS - before
    assert result["content_hash"] == whole[1]


def test_a_read_only_folder(tmp_path, server, source):
    """A real read-only mount: permissions alone do not stop root."""
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", tmp_path], capture_output=True, text=True)
    if mounted.returncode:
        lacking(f"needs the right to mount: {mounted.stderr.strip()}")
    try:
        done = subprocess.run(command(tmp_path, source, server.base_url), cwd=ROOT, capture_output=True, text=True)
    finally:
        subprocess.run(["umount", tmp_path], check=True)
    assert done.returncode == 3
    assert "cannot be written to" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("damage", ["cut", "foreign", "flipped"])
def test_a_damaged_or_foreign_journal_stops_the_build_and_is_left_alone(tmp_path, server, source, damage):
    finish(tmp_path, source, server.base_url, *MORE)
    kept = tables(tmp_path)
    journal = tmp_path / "journal.sqlite"
    data = bytearray(journal.read_bytes())
    if damage == "cut":
        journal.write_bytes(data[: len(data) // 2])
    elif damage == "foreign":
        journal.unlink()
        with sqlite3.connect(journal) as db:
            db.execute("CREATE TABLE theirs (x)")
    else:
        at = data.index(b"heavy" if b"heavy" in data else b"Step")
        data[at] ^= 0x20
        journal.write_bytes(data)
    there = journal.read_bytes()
    done = subprocess.run(command(tmp_path, source, server.base_url), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 3, done.stderr
    assert "journal.sqlite" in done.stderr and "Traceback" not in done.stderr
    assert journal.read_bytes() == there
    assert {k: v for k, v in tables(tmp_path).items() if k == "traces.parquet"} == {
        "traces.parquet": kept["traces.parquet"]
    }
