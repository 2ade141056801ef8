"""docs/walkthrough.md, command by command as it stands there, from an empty folder.

What is slow is made small, and nothing else: the recipe's model is a loopback server, the model that is trained (the
document's `embedded`) has three layers and random weights, and each training takes one step. The embedded model itself
builds, and is trained, in tests/integration.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the train extra")

from ser_toolkit import load_release
from tests.judge_models import text_model, tokenizer
from tests.served import answer, launch, stop
from tests.servers.openai_stand_in import StandIn

pytestmark = [pytest.mark.slow, pytest.mark.train, pytest.mark.xdist_group("policy")]
DOCUMENT = Path(__file__).parents[2] / "docs" / "walkthrough.md"
REPLIES = Path(__file__).parents[1] / "servers" / "walkthrough_replies.py"
SMALL = {
    "train-rm": ["max_steps=1", "verify=false", "lora_r=2"],
    "train-sft": ["max_steps=1", "lora_r=2"],
    "train-rl": ["max_steps=1", "max_completion_length=8", "embed=local", "lora_r=2"],
    "eval policy": ["evaluate.policy.max_tokens=8", "evaluate.resamples=200"],
    "chat": ["evaluate.policy.max_tokens=8"],
}
RELEASE = "work/releases/ser-0.1.1"


def commands(text: str) -> Iterator[str]:
    """The commands of the document's shell blocks: continued lines joined, a here-document with its command."""
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        joined = block.replace("\\\n", " ")
        for found in re.finditer(r"^.*<<'END'\n(?:.*\n)*?END\n|^.*\S.*$", joined, re.MULTILINE):
            yield found[0]


class Reader:
    """Somebody who types the commands; `told` is what each printed, by its first words."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder, self.told, self._patch, self._capfd = folder, {}, monkeypatch, capfd
        self.typed: list[str] = []

    def type(self, line: str, url: str) -> None:
        before, _, command = line.rpartition(" | ") if "<<" not in line else ("", "", line)
        words = shlex.split(command) if "<<" not in line else ["cat"]
        if words[0] != "ser":
            subprocess.run(["bash", "-ec", line], cwd=self.folder, check=True)
            return
        name = " ".join(w for w in words[1:3] if w.isalpha() and words[1] in ("eval", "annotate")) or words[1]
        self.typed.append(name)
        if name == "annotate serve":
            self._three_people(Path(words[words.index("-w") + 1]), words[words.index("--annotators") :])
            return
        if before:
            piped = subprocess.run(["bash", "-ec", before], check=True, capture_output=True, text=True).stdout
            self._patch.setattr("sys.stdin", io.StringIO(piped))
        self.told[name] = self._ser([*self._smaller(name, words[1:])])
        if name == "init":
            recipe = self.folder / words[2] / "ser.yaml"
            recipe.write_text(recipe.read_text() + f"\nllm: {{model: 'openai:m', base_url: ['{url}']}}\n")

    def _ser(self, argv: list[str]) -> str:
        from pipelines.cli import run

        self._capfd.readouterr()
        code = run(argv)
        out, err = self._capfd.readouterr()
        assert code == 0, f"ser {shlex.join(argv)}: {code}\n{out}\n{err}"
        return out

    def _smaller(self, name: str, argv: list[str]) -> list[str]:
        if name.startswith("train"):
            argv = [str(self.folder / "TINY") if w == "embedded" else w for w in argv]
        return [*argv, *(word for item in SMALL.get(name, ()) for word in ("--set", item))]

    def _three_people(self, workspace: Path, options: list[str]) -> None:
        """Each opens their link and answers all that the page gives out."""
        process, page = launch(workspace, *options)
        try:
            assert set(page.people) == set(options[1].split(","))
            for person in page.people:
                while view := page.next(person)["view"]:
                    assert page.ask(person, "POST", "answers", answer(view)).status == 200
        finally:
            assert stop(process) == 0


def read(path: str | Path) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def test_every_command_runs_and_gives_what_the_next_one_takes(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    text_model(initializer_range=0.1, max_position_embeddings=8192).save_pretrained("TINY")
    tokenizer().save_pretrained("TINY")
    reader = Reader(tmp_path, monkeypatch, capfd)
    with StandIn(reply=f"{REPLIES}:reply") as server:
        for line in commands(DOCUMENT.read_text(encoding="utf-8")):
            reader.type(line, server.base_url)
    assert reader.typed == [
        *("init", "build", "annotate judge", "annotate status", "export", "annotate serve", "export"),
        *("train-rm", "eval rm", "eval reward", "train-sft", "train-rl", "eval policy", "eval policy", "eval compare"),
        "chat",
    ]
    for check in CHECKS:
        check(reader)


def _labels_stand_in_the_releases(_: Reader) -> None:
    plain, llm, people = (load_release(f"work/releases/ser-0.1.{n}") for n in range(3))
    assert plain.frame("traces").height and not plain.manifest["rows"].get("judgements")
    assert llm.frame("judgements", "train").height and llm.frame("judgements", "validation").height
    assert people.frame("steps")["labels"].explode().all(), "all people said True"
    assert people.manifest["content_hash"] != llm.manifest["content_hash"]


def _runs_learnt_from_that_release_and_from_one_another(_: Reader) -> None:
    wanted = load_release(RELEASE).manifest["content_hash"]
    for run in ("judge", "sft", "peer"):
        record = Path(f"runs/{run}/run.json").read_text()
        assert wanted in record and Path(f"runs/{run}/model/config.json").is_file(), run
    assert "runs/sft" in Path("runs/peer/run.json").read_text()
    rewards = [json.loads(line) for line in Path("runs/peer/metrics.jsonl").read_text().splitlines()]
    assert rewards[0]["rewards/unified-local/missing"] == 0, "the judge of train-rm scored each completion"


def _each_is_measured(reader: Reader) -> None:
    assert "reply" in reader.told["eval rm"] and "total" in reader.told["eval reward"]
    reports = [read(f"evaluations/{name}/report.json") for name in ("sft", "peer")]
    assert [r["card"]["policy"]["model"] for r in reports] == ["sft", "peer"]
    assert all(r["transcripts"] == 2 for r in reports)
    assert "peer - sft" in reader.told["eval compare"]


def _and_it_answers(reader: Reader) -> None:
    assert reader.told["chat"].strip()


CHECKS: list[Callable[[Reader], None]] = [
    _labels_stand_in_the_releases,
    _runs_learnt_from_that_release_and_from_one_another,
    _each_is_measured,
    _and_it_answers,
]


def test_a_wrong_command_in_the_document_is_found(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    text = DOCUMENT.read_text(encoding="utf-8").replace("ser build -w work", "ser build -w work --modle x", 1)
    with StandIn(reply=f"{REPLIES}:reply") as server, pytest.raises(AssertionError, match="No such option: --modle"):
        for line in commands(text):
            Reader(tmp_path, monkeypatch, capfd).type(line, server.base_url)
