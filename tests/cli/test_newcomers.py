"""What newcomers stumbled over, as `ser` answers it now."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines.exporting import hints_of
from tests.integration.conftest import REPLIES, write_dialogues
from tests.servers.openai_stand_in import StandIn


@pytest.fixture(scope="module")
def url():
    with StandIn(reply=f"{REPLIES}:build", models=["served"]) as server:
        yield server.base_url


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("export", "-w", "nowhere"), 2, "there is no such workspace"),
        (("export",), 3, "no finished build is here"),
        (("build", "--nope"), 2, "No such option"),
        (("build", "--limit", "x"), 2, "must be a whole number"),
        (("build", "--set", "sample.keep=x"), 2, "must be one of: target, history"),
        (("nope",), 2, "No such command"),
        (("show", ""), 2, "nothing in"),
    ],
)
def test_under_json_an_error_is_an_object_on_stdout_and_words_on_stderr(ser, args, code, says):
    done = ser(*args, "--json")
    error = json.loads(done.stdout)["error"]
    assert done.returncode == error["code"] == code
    assert says in error["message"] and error["hint"]
    assert says in done.stderr and "Input should" not in done.stderr


def test_a_fault_of_ours_is_an_object_too(ser, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import pipelines.initializing as i\ni.init = lambda folder: 1 / 0\n", encoding="utf-8"
    )
    done = ser("init", "w", "--json", env={"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', str(Path.cwd()))}"})
    assert done.returncode == 1 and json.loads(done.stdout)["error"]["code"] == 1
    assert "ZeroDivisionError" in done.stderr and "Traceback" not in done.stderr


def test_check_takes_roles_columns_and_an_encoding(ser, tmp_path):
    rows = "talk,who,said\n1,visitor,It’s me.\n1,helper,Welcome.\n"
    (tmp_path / "a.csv").write_bytes(rows.encode("cp1252"))
    plain = ("sources", "check", "csv", "a.csv", "--encoding", "windows-1252")
    columns = ("--column", "dialogue_id=talk", "--column", "speaker=who", "--column", "text=said")
    unknown = json.loads(ser(*plain, *columns, "--json").stdout)
    assert unknown["dialogues"] == 0 and unknown["unmapped"]["speakers"]
    roles = ("--role", "visitor=seeker", "--role", "helper=supporter")
    assert json.loads(ser(*plain, *columns, *roles, "--json").stdout)["dialogues"] == 1
    wrong = ser(*plain, *columns, "--role", "visitor=guest")
    assert wrong.returncode == 2 and "must be one of: seeker, supporter" in wrong.stderr


def test_check_reads_the_recipe_s_own_sources(ser, tmp_path):
    (tmp_path / "w").mkdir()
    write_dialogues(tmp_path / "w" / "a.jsonl", 3)
    write_dialogues(tmp_path / "b.jsonl", 2)
    (tmp_path / "w" / "ser.yaml").write_text(
        "sources:\n  - {format: messages, path: a.jsonl, limit: 2}\n  - {format: messages, path: ../b.jsonl}\n"
    )
    found = json.loads(ser("sources", "check", "-w", "w", "--json").stdout)
    assert [(r["format"], r["dialogues"]) for r in found] == [("messages", 2), ("messages", 2)]
    given = "sources=[{format: messages, path: b.jsonl}]"
    found = json.loads(ser("sources", "check", "--set", given, "--json").stdout)
    assert [r["dialogues"] for r in found] == [2]
    none = ser("sources", "check")
    assert none.returncode == 2 and "names no sources" in none.stderr
    assert "no PATH is named" in ser("sources", "check", "json").stderr


def test_what_a_file_hides_is_shown_in_the_report_and_in_errors(ser, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([{"turns": [{"speaker": "x\u202ey\x1b[2J\n", "text": "hi"}]}]))
    done = ser("sources", "check", "json", "a.json")
    assert "x\\u202ey\\x1b[2J\\n" in done.stdout and not {"\u202e", "\x1b"} & set(done.stdout)
    done = ser("show", "a\u202eb\x1b[2J")
    assert not {"\u202e", "\x1b"} & set(done.stderr) and "\\u202e" in done.stderr
    done = ser("show", "a\u202eb", "--json")
    assert "\u202e" not in done.stdout and "\u202e" in json.loads(done.stdout)["error"]["message"]


def test_a_wrong_model_name_is_told_before_the_import(ser, tmp_path, url):
    write_dialogues(tmp_path / "in.jsonl", 2)
    build = ("build", "-w", "w", "--source", "messages:in.jsonl", "--set", f"llm.base_url={url}")
    done = ser(*build, "--model", "openai:serfed")
    assert done.returncode == 2 and "serves no model 'serfed'" in done.stderr and "it serves: served" in done.stderr
    assert not (tmp_path / "w" / "tables" / "imported.parquet").exists()
    assert ser(*build, "--model", "openai:served").returncode == 0
    away = ser(*build[:-1], "llm.base_url=http://127.0.0.1:9/v1", "--model", "openai:served", "-w", "v")
    assert away.returncode == 4 and "not reachable" in away.stderr


def test_every_source_s_path_is_looked_at_before_any_is_read(ser, tmp_path, url):
    write_dialogues(tmp_path / "in.jsonl", 2)
    done = ser(
        *("build", "-w", "w", "--source", "messages:in.jsonl", "--source", "messages:absent.jsonl"),
        *("--model", "openai:served", "--set", f"llm.base_url={url}"),
    )
    assert done.returncode == 2 and "absent.jsonl" in done.stderr
    assert not (tmp_path / "w" / "tables").exists()


def test_a_build_hints_at_empty_splits_and_closed_licences(ser, tmp_path, url):
    write_dialogues(tmp_path / "in.jsonl", 2)
    (tmp_path / "ser.yaml").write_text("sources:\n  - {format: messages, path: in.jsonl, licence: CC-BY-NC-4.0}\n")
    build = ("build", "--model", "openai:served", "--set", f"llm.base_url={url}")
    told = ser(*build).stdout
    assert "no rows in" in told and "stable hash" in told and "split.ratios" in told
    assert "messages is CC-BY-NC-4.0, non-commercial" in told
    found = json.loads(ser(*build, "--set", "split.ratios=[1, 0, 0]", "--json").stdout)
    assert found["hints"] == []


def test_the_second_withdrawal_says_so(ser, tmp_path, url):
    write_dialogues(tmp_path / "in.jsonl", 2)
    ser("build", "--source", "messages:in.jsonl", "--model", "openai:served", "--set", f"llm.base_url={url}")
    assert "withdrawn: messages-d0" in ser("withdraw", "messages-d0").stdout
    again = ser("withdraw", "messages-d0")
    assert again.returncode == 0 and "withdrawn already: messages-d0" in again.stdout


def test_ser_alone_shows_its_help_and_documents_debug(ser):
    done = ser()
    assert done.returncode == 0 and "--debug" in done.stdout and "Commands:" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.0, 0.04, 0.12, 0.27, 0.52])
def test_ctrl_c_while_it_starts_gives_no_traceback(tmp_path, after_s):
    """From the first import of the command line on; before that the interpreter itself is starting."""
    child = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "pipelines", "build", "-w", "w", "--model", "openai:x", "--set",
         "llm.base_url=http://10.255.255.1/v1"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stderr is not None and any("typer" in line for line in child.stderr)
    time.sleep(after_s)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=30)
    assert "Traceback" not in err and child.returncode == 130


def test_a_wide_split_is_not_told_to_be_widened():
    rows = {"dialogues": {"train": 5}}
    assert ["split.ratios" in hint for hint in hints_of(rows, (0.8, 0.1, 0.1))] == [True]
    assert ["split.ratios" in hint for hint in hints_of(rows, (0.6, 0.2, 0.2))] == [False]
    assert not list(hints_of(rows, (1.0, 0.0, 0.0)))
