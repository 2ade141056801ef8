"""`ser annotate` as its users run it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from annotation.ledger import Ledger
from pipelines.annotating import open_round
from ser_toolkit.recipe import load_recipe
from ser_toolkit.workspace import Workspace
from tests.integration.conftest import REPLIES, write_dialogues
from tests.servers.openai_stand_in import StandIn
from tests.unit.annotation.answering import says


@pytest.fixture
def workspace(ser, tmp_path: Path) -> Path:
    source = write_dialogues(tmp_path / "in.jsonl", 4, rounds=1)
    with StandIn(reply=f"{REPLIES}:build") as server:
        sets = ("--set", f"llm.base_url={server.base_url}", "--set", "protect.enabled=false")
        made = ser("build", "-w", "w", "--source", f"messages:{source}", "--model", "openai:stand-in", *sets)
    assert made.returncode == 0, made.stderr
    return tmp_path / "w"


def test_status_report_adjudicate_and_export(ser, workspace, tmp_path):
    home = Workspace(workspace)
    assert ser("annotate", "status", "-w", "w").returncode == 2, "no round has begun"
    with open_round(home, load_recipe(home.root), ["ada", "ben", "cem"]) as ledger:
        for who, steps, better in (("ada", "ttt", "generated"), ("ben", "ttf", "reference"), ("cem", "ttt", "neither")):
            while (task := ledger.next_task(who)) is not None:
                ledger.accept(says(task, steps, better, ledger=ledger))
        items = list(ledger.state.items)
        ledger.add_annotators(["model#1"], "llm")

    status = json.loads(ser("annotate", "status", "-w", "w", "--json").stdout)
    assert {k: status[k] for k in ("items", "answers", "done", "disputed")} == {
        "items": 4, "answers": 12, "done": 4, "disputed": 0,
    }  # fmt: skip
    assert status["agreement"]["step1"]["alpha"] is None and status["agreement"]["step1"]["raw"] == 1.0
    assert status["agreement"]["reply"]["raw"] == 0.0 and status["waiting"] == 4
    text = ser("annotate", "status", "-w", "w").stdout
    assert "undefined: one category" in text and "4 items wait for you" in text

    report = json.loads(ser("annotate", "report", "-w", "w", "--answers", "answers.jsonl", "--json").stdout)
    assert [r["annotator"] for r in report["annotators"]] == ["ada", "ben", "cem", "model#1"]
    assert len((tmp_path / "answers.jsonl").read_text(encoding="utf-8").splitlines()) == 12
    assert "ada" in ser("annotate", "report", "-w", "w").stdout

    waiting = json.loads(ser("annotate", "adjudicate", "-w", "w", "--json").stdout)["waiting"]
    assert {w["item_id"] for w in waiting} == set(items) and all(w["undecided"] == ["reply"] for w in waiting)
    shown = ser("annotate", "adjudicate", items[0], "-w", "w").stdout
    assert "First:" in shown and "step1: True" in shown
    refused = ser("annotate", "adjudicate", items[0], "--not-step1", "-w", "w")
    assert (refused.returncode, "annotators decided step1" in refused.stderr) == (2, True)
    assert ser("annotate", "adjudicate", items[0], "--verdict", "maybe", "-w", "w").returncode == 2
    assert ser("annotate", "adjudicate", "item-0", "--verdict", "neither", "-w", "w").returncode == 2
    decided = ser("annotate", "adjudicate", items[0], "--verdict", "first better", "--note", "clear", "-w", "w")
    assert "3 items wait" in decided.stdout
    made = json.loads(ser("export", "-w", "w", "--json").stdout)
    assert sum(made["rows"]["steps"].values()) == 4 and sum(made["rows"]["preferences"].values()) == 1
    card = (Path(workspace.parent) / made["release"] / "README.md").read_text()
    assert "by 12 votes of 3 people and 0 LLM judges" in card and "undefined: one category" in card
    assert "The owner decided parts of 1 rounds" in card


def test_guidelines_in_both_languages_and_of_ones_own(ser, workspace):
    for lang, word in (("en", "Neither acceptable"), ("zh", "都不可接受")):
        assert word in ser("annotate", "guidelines", "--lang", lang, "-w", "w").stdout
    assert ser("annotate", "guidelines", "--lang", "fr", "-w", "w").returncode == 2
    (workspace / "guidelines").mkdir()
    (workspace / "guidelines" / "en.md").write_text("Ours.\n")
    assert ser("annotate", "guidelines", "-w", "w").stdout.strip() == "Ours."


def test_wrong_words_end_with_2_and_say_what_to_do(ser, workspace):
    for arguments, named in (
        (("push", "--to", "pigeon", "--annotators", "a"), "each item wants 2"),
        (("push", "--to", "pigeon", "--annotators", "a,b"), "no route is called 'pigeon'"),
        (("push", "--to", "pigeon", "--annotators", "a,a"), "a name comes twice"),
        (("status", "--set", "annotate.sources=[nobody]"), "annotate.sources"),
        (("judge", "--set", "annotate.overlap=0"), "annotate.overlap"),
    ):
        result = ser("annotate", *arguments, "-w", "w")
        assert (result.returncode, named in result.stderr) == (2, True), result.stderr
    assert ser("annotate", "status", "-w", "nowhere").returncode == 2


def test_a_damaged_ledger_ends_with_3(ser, workspace):
    home = Workspace(workspace)
    with open_round(home, load_recipe(home.root), ["ada", "ben"]) as ledger:
        path = ledger.path
    for file in workspace.glob("annotation.sqlite-*"):
        file.unlink()
    data = bytearray(path.read_bytes())
    data[100:] = b"\x00" * (len(data) - 100)
    path.write_bytes(data)
    result = ser("annotate", "status", "-w", "w")
    assert (result.returncode, "annotation.sqlite" in result.stderr) == (3, True), result.stderr


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('{"trace": "nobody", "steps": [true, true, true]}', "line 2: no trace of this workspace is called 'nobody'"),
        ('{"trace": "messages-d1-r1", "steps": [1, true]}', "line 2: steps are three of"),
        ('{"trace": "messages-d1-r1", "better": "first_better"}', "line 2: malformed: 'first_better' names a position"),
        ("nonsense", "line 2: "),
    ],
)
def test_a_wrong_gold_file_is_named_by_line(ser, workspace, line, named):
    good = '{"trace": "messages-d0-r1", "steps": [true, null, false], "better": "almost good"}\n'
    (workspace / "gold.jsonl").write_text(good + line + "\n", encoding="utf-8")
    result = ser("annotate", "push", "--to", "x", "--annotators", "a,b", "--set", "annotate.gold=gold.jsonl", "-w", "w")
    assert (result.returncode, "gold.jsonl, " + named in result.stderr) == (2, True), result.stderr
    (workspace / "gold.jsonl").write_text(good, encoding="utf-8")
    ser("annotate", "push", "--to", "x", "--annotators", "a,b", "--set", "annotate.gold=gold.jsonl", "-w", "w")
    with Ledger(workspace / "annotation.sqlite") as ledger:
        (gold,) = ledger.state.gold.values()
        assert (gold.steps, gold.better) == ((True, None, False), "almost_equal")
