"""README's path from a release with labels to a scored group, on the command line and in Python."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.judged_release import judged_release
from tests.servers.openai_stand_in import StandIn

README = Path(__file__).parents[2] / "README.md"
QUICK = ["--set", "max_steps=1", "--set", "lora=false", "--set", "verify=false"]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with a labelled release where README has it, a small model, and two groups."""
    from ser_toolkit import load_release
    from tests.judge_models import text_model, tokenizer

    folder = tmp_path_factory.mktemp("readme")
    labelled, plain = judged_release(folder, 12)
    (folder / "work" / "releases").mkdir(parents=True)
    labelled.rename(folder / "work" / "releases" / "ser-0.1.1")
    plain.rename(folder / "work" / "releases" / "ser-0.1.0")
    text_model().save_pretrained(folder / "MODEL")
    tokenizer().save_pretrained(folder / "MODEL")
    prompts = load_release(folder / "work/releases/ser-0.1.1").frame("prompts")["id"].to_list()[:2]
    lines = [json.dumps({"id": p, "completions": ["I hear you.", "What now?"]}) for p in prompts]
    (folder / "groups.jsonl").write_text("\n".join(lines))
    return folder


def part(kind: str) -> list[str]:
    section = README.read_text(encoding="utf-8").partition("## A judge")[2].partition("\n## ")[0]
    return re.search(rf"```{kind}\n(.*?)```", section, re.DOTALL)[1].splitlines()


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(Path.cwd()), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
@pytest.mark.train
def test_the_commands_of_the_readme(place, monkeypatch, capsys):
    """In this process: four times the start of torch is what would take the time."""
    from pipelines.cli import run as cli

    monkeypatch.chdir(place)
    commands = [shlex.split(line.partition("#")[0]) for line in part("")]
    assert [c[1] for c in commands] == ["train-rm", "eval", "eval", "eval"]
    with StandIn() as server:
        for words in commands:
            words = [w.replace("llm.base_url=URL", f"llm.base_url={server.base_url}") for w in words[1:]]
            more = QUICK if words[0] == "train-rm" else []
            if words[:2] == ["eval", "rm"]:
                more = ["--split", "all", "--limit", "4"]
            code = cli([*words, *more, "--json"])
            told = capsys.readouterr()
            assert code == 0, told.err
    scored = json.loads(told.out)
    assert scored["data"]["completions"] == 4 and scored["scores"]["total"]["missing"] == 0
    assert (place / "evaluations/ser-0.1.1-judges/report.html").is_file()


@pytest.mark.slow
@pytest.mark.train
def test_the_python_of_the_readme(place, monkeypatch):
    monkeypatch.chdir(place)
    source = "\n".join(part("python"))
    lines = [line for line in source.splitlines() if line and not line.startswith(("import ", "from "))]
    assert len(lines) <= 10
    sets = [QUICK[n] for n in range(1, len(QUICK), 2)]
    source = source.replace('Path("runs/judge"))', f'Path("runs/judge-py"), sets={sets})').replace(
        'unified-local:runs/judge"', 'unified-local:runs/judge-py"'
    )
    names: dict[str, Any] = {}
    exec(compile(source, str(README), "exec"), names)
    totals = [b.total for b in names["breakdowns"]]
    assert len(totals) == 2 and all(0 <= t <= 3 for t in totals)


def test_a_release_without_labels_ends_with_3(place):
    release = "work/releases/ser-0.1.0"
    done = run([sys.executable, "-m", "pipelines", "eval", "rm", release, "--model", "openai:m", "--json"], place)
    assert done.returncode == 3 and "no labels" in json.loads(done.stdout)["error"]["message"]
