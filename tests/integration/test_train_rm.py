"""`ser train-rm` from a release to a judge: killed and resumed, in two processes, with pictures, from a build."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from pipelines import build
from pipelines.annotating import judge
from pipelines.cli import run as cli
from pipelines.exporting import export
from rm_training.data import chat_of, read_judgements
from rm_training.probing import farthest, probe
from rm_training.train import train_rm
from ser_toolkit import load_release
from ser_toolkit.training.models import load
from ser_toolkit.training.runs import checkpoints_of
from ser_toolkit.workspace import Workspace
from tests.integration.conftest import TEXT
from tests.integration.test_media_build import data_url
from tests.labelled_release import labelled_release
from tests.servers.openai_stand_in import StandIn
from tests.training_models import text_model, vision_model
from tests.unit.media.making import photo

torch.set_num_threads(1)
pytestmark = [pytest.mark.train, pytest.mark.xdist_group("train-rm")]
ROOT = Path(__file__).parents[2]
REPLIES = Path(__file__).parents[1] / "servers" / "judge_replies.py"
QUICK = ("per_device_train_batch_size=4", "logging_steps=1", "learning_rate=1e-2", "verify=false")


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    """25 labelled traces, about 15 of them to learn from."""
    return labelled_release(tmp_path_factory.mktemp("releases"), 25)


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    return text_model(tmp_path_factory.mktemp("text") / "tiny-text")


@pytest.fixture(scope="module")
def vision(tmp_path_factory) -> Path:
    return vision_model(tmp_path_factory.mktemp("vision") / "tiny-vision")


def trained(release: Path, model: Path | str, out: Path, *sets: str, **more: Any) -> dict[str, Any]:
    train_rm(release, str(model), out, sets=[*QUICK, *sets], quiet=True, **more)
    return json.loads((out / "run.json").read_text())


def weights(run: Path, kind: str = "adapter") -> dict[str, torch.Tensor]:
    name = "adapter_model.safetensors" if kind == "adapter" else "model.safetensors"
    return load_file(run / kind / name)


def metrics(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def losses(run: Path) -> list[tuple[int, float]]:
    return [(line["step"], line["loss"]) for line in metrics(run) if "loss" in line]


def command(release: Path, model: Path | str, out: Path, *more: str) -> list[str]:
    sets = [arg for item in QUICK for arg in ("--set", item)]
    told = ["--release", str(release), "--model", str(model), "--out", str(out)]
    return ["-m", "pipelines", "train-rm", *told, *sets, *more]


def test_a_judge_is_trained_saved_and_judges_the_same_in_a_fresh_process(release, text, tmp_path, capsys):
    """The command, with everything on; then the adapter and the merged model, each loaded anew."""
    out = tmp_path / "run"
    more = ["--set", "verify=true", "--set", "num_train_epochs=4", "--set", "false_weight=balanced", "--json"]
    assert cli(command(release, text, out, *more)[2:]) == 0
    told = capsys.readouterr()
    answer = json.loads(told.out)
    assert answer["run"] == str(out) and answer["verified"] < 1e-4 and answer["probes"] > 0
    record = json.loads((out / "run.json").read_text())
    manifest = load_release(release).manifest
    assert record["told"]["release"]["content_hash"] == manifest["content_hash"]
    assert record["told"]["settings"]["lora_r"] == 16 and record["told"]["trainer"]["learning_rate"] == 1e-2
    seen = [line["eval_loss"] for line in metrics(out) if "eval_loss" in line]
    assert len(losses(out)) == answer["steps"] and len(seen) == 4
    assert answer["eval_loss"] == seen[-1] < math.log(49152) - 0.1, "better than a model that knows nothing"
    assert any((out / "tensorboard").iterdir()) and "step" in told.err
    card = (out / "model" / "README.md").read_text()
    assert manifest["content_hash"] in card and "## Intended use" in card and "## Limits" in card
    assert str(tmp_path) not in card, "no path of this machine"
    cases, _ = read_judgements(load_release(release), "test")
    chats = [chat_of(case, "unified")[0] for case in cases[:3]]
    before = load(str(text))
    here = load(str(out / "model"))
    wanted = probe(here.model, here.processing, chats)
    assert farthest(wanted, probe(before.model, before.processing, chats)) > 1e-3, "training changed its verdicts"
    adapter = load(str(out / "adapter"))
    assert farthest(wanted, probe(adapter.model, adapter.processing, chats)) < 1e-5
    assert type(here.model).__module__.startswith("transformers."), "a plain model, no PEFT"
    assert cli(command(release, text, out)[2:]) == 2, "a run is never overwritten"
    again = train_rm(release, str(text), out, sets=[*QUICK, *more[1:6:2]], resume=True, quiet=True)
    assert not again.is_new and again.record["result"] == record["result"]


def cut_after(run: Path, copy: Path, step: int) -> Path:
    """The run as a kill right after the checkpoint at `step` would have left it."""
    shutil.copytree(run, copy)
    for checkpoint in checkpoints_of(copy / "checkpoints"):
        if int(checkpoint.name.rpartition("-")[2]) > step:
            shutil.rmtree(checkpoint)
    record = json.loads((copy / "run.json").read_text())
    del record["result"]
    (copy / "run.json").write_text(json.dumps(record))
    for folder in ("model", "adapter"):
        shutil.rmtree(copy / folder)
    return copy


def same(one: Path, other: Path) -> None:
    left, right = weights(one), weights(other)
    assert left.keys() == right.keys() and all(torch.equal(left[n], right[n]) for n in left)
    assert losses(one) == losses(other)


def test_resumed_equals_uninterrupted_also_at_an_epoch_boundary(release, text, tmp_path):
    """Weights to the last bit, and every reported loss; dropout makes the random state count."""
    sets = ("num_train_epochs=3", "save_steps=1", "save_total_limit=99", "lora_dropout=0.1", "merge=true")
    whole = tmp_path / "whole"
    record = trained(release, text, whole, *sets)
    steps = record["result"]["steps"]
    assert steps % 3 == 0
    for step in (steps // 3 - 1, steps // 3, 2 * steps // 3 + 1):
        copy = cut_after(whole, tmp_path / f"cut{step}", step)
        if step == steps // 3:  # what a kill in the middle of saving leaves behind
            (copy / "checkpoints" / f"checkpoint-{step + 1}").mkdir()
        trained(release, text, copy, *sets, resume=True)
        same(whole, copy)


@pytest.mark.slow
def test_killed_and_resumed_equals_uninterrupted(release, text, tmp_path):
    """kill -9 to the process, in the middle of whatever it did."""
    sets = ("num_train_epochs=12", "save_steps=3", "lora_dropout=0.1", "merge=false")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    more = [arg for item in sets for arg in ("--set", item)]
    process = subprocess.Popen(
        [sys.executable, *command(release, text, killed, *more)], cwd=ROOT, start_new_session=True, stderr=-3, stdout=-3
    )
    until = time.monotonic() + 240
    while not (killed / "metrics.jsonl").exists() or (losses_or_none(killed) or [(0, 0)])[-1][0] < 7:
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert "result" not in json.loads((killed / "run.json").read_text())
    trained(release, text, whole, *sets)
    trained(release, text, killed, *sets, resume=True)
    same(whole, killed)


def losses_or_none(run: Path) -> list[tuple[int, float]] | None:
    try:
        return losses(run)
    except ValueError:  # a line that is being written
        return None


@pytest.mark.slow
def test_two_processes_equal_one(release, text, tmp_path):
    """accelerate launch, two processes on the CPU: the same batches, each process half of them."""
    sets = ("num_train_epochs=1", "max_steps=3", "gradient_accumulation_steps=1", "merge=false", "max_grad_norm=0.5")
    one, two = tmp_path / "one", tmp_path / "two"
    trained(release, text, one, *sets)
    # `--multi_gpu` starts torch's own launcher, also without a GPU; `--cpu` would want MPI and else start one process
    launch = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
    launch += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    more = [arg for item in (*sets, "per_device_train_batch_size=2") for arg in ("--set", item)]
    done = subprocess.run(
        [sys.executable, *launch, *command(release, text, two, *more, "--json")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["steps"] == 3, "one process alone tells the result"
    assert json.loads((two / "run.json").read_text())["told"]["processes"] == 2
    left, right = weights(one), weights(two)
    for name in left:
        assert torch.allclose(left[name], right[name], atol=2e-5), name
    assert [loss for _, loss in losses(one)] == pytest.approx([loss for _, loss in losses(two)], rel=1e-4)


@pytest.mark.parametrize("kind", ["prm", "orm"])
def test_the_baselines_are_trained_on_the_same_rows(kind, release, text, tmp_path):
    record = trained(release, text, tmp_path / "run", "max_steps=6", "lora=false", kind=kind)
    seen = [loss for _, loss in losses(tmp_path / "run")]
    assert seen[-1] < seen[0] - 1, "it learns"
    assert record["told"]["kind"] == kind and (tmp_path / "run" / "model" / "config.json").is_file()
    assert not (tmp_path / "run" / "adapter").exists(), "all weights were trained: there is no adapter"
    judged = record["data"]["train"]
    assert judged["sequences"] == judged["cases"] * (1 if kind == "prm" else 2)


# From a build.


@pytest.fixture
def server() -> Iterator[StandIn]:
    with StandIn(reply=f"{REPLIES}:reply") as running:
        yield running


def built(folder: Path, server: StandIn) -> Path:
    """A release with photos, made by `ser build` and labelled by an LLM judge, over a loopback server."""
    words, lines = TEXT.split(), []
    for n in range(14):
        said = [" ".join(words[(7 * n + k) % len(words)] for k in range(i, i + 10)) for i in range(0, 40, 10)]
        seen = [data_url(photo(n)), {"type": "text", "text": f"{said[2]}, day {n}."}]
        turns = [("user", f"{said[0]}, first {n}."), ("assistant", said[1]), ("user", seen), ("assistant", said[3])]
        lines.append({"id": f"d{n}", "messages": [{"role": role, "content": content} for role, content in turns]})
    source = folder / "in.jsonl"
    source.write_text("\n".join(map(json.dumps, lines)))
    sets = [f"llm.base_url={server.base_url}", "protect.enabled=false", "filter.enabled=false"]
    build(folder / "w", sources=[f"messages:{source}"], quiet=True, model="openai:m", sets=sets)
    judge(folder / "w", quiet=True, model="openai:m", sets=sets)
    return export(Workspace(folder / "w"), sets=["annotate.sources=[llm]"]).made.path


def test_from_build_to_judges_of_text_and_of_pictures(tmp_path, server, text, vision):
    release = built(tmp_path, server)
    assert load_release(release).frame("judgements")["images"].list.len().sum() > 0
    for model, blind in ((text, False), (vision, False), (vision, True)):
        out = tmp_path / f"{model.name}-{blind}"
        sees = model is vision and not blind
        record = trained(release, model, out, "max_steps=2", f"verify={sees}", text_only=blind)
        assert (record["data"]["train"]["pictures"] > 0) == sees
        assert not sees or record["result"]["verified"] < 1e-4
    longest = [json.loads((tmp_path / f"tiny-vision-{b}/run.json").read_text())["data"]["train"]["longest"] for b in
               (False, True)]  # fmt: skip
    assert longest[0] > longest[1], "the picture's tokens are counted"


@pytest.mark.slow
def test_the_embedded_model_is_trained(release, tmp_path):
    """SmolLM2 itself, one step: what a machine without anything can run."""
    cut = ("max_steps=1", "per_device_train_batch_size=1", "max_length=300", "merge=false", "eval_strategy=no")
    record = trained(release, "embedded", tmp_path / "run", *cut)
    assert 0 < record["result"]["loss"] < 12
    settings = json.loads((tmp_path / "run" / "adapter" / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == "embedded"


# What is refused.


def test_what_cannot_be_done_has_its_exit_code(release, text, tmp_path, capsys, monkeypatch):
    from tests.unit.release.making import crowd, make

    def code(*more: str, of: Path = release, model: Path | str = text, out: str = "run") -> tuple[int, str]:
        got = cli(["train-rm", "--release", str(of), "--model", str(model), "--out", str(tmp_path / out), *more])
        return got, capsys.readouterr().err

    assert code(of=tmp_path / "none")[0] == 2
    assert code(model=tmp_path / "none")[0] == 2
    assert code("--set", "lora_rank=4", out="a")[0] == 2
    got, said = code(of=make(tmp_path / "bare", crowd(4)).path, out="b")
    assert got == 3 and "has no labels" in said and "ser annotate" in said
    got, said = code("--resume", out="c")
    assert got == 6 and "no run to go on with" in said
    got, said = code("--set", "max_length=128", out="d")
    assert got == 7 and "max_share" in said
    broken = shutil.copytree(text, tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"no weights")
    got, said = code(model=broken, out="e")
    assert got == 6 and "damaged" in said
    trained(release, text, tmp_path / "f", "max_steps=1", "save_steps=1")
    whole = cut_after(tmp_path / "f", tmp_path / "g", 1)
    (whole / "checkpoints" / "checkpoint-1" / "optimizer.pt").write_bytes(b"cut")
    more = [arg for item in (*QUICK, "max_steps=1", "save_steps=1") for arg in ("--set", item)]
    got, said = code("--resume", *more, out="g")
    assert got == 6 and "optimizer.pt" in said
    import ser_toolkit.training.extra as extra

    monkeypatch.setattr(extra, "find_spec", lambda name: None if name == "peft" else object())
    got, said = code(out="h")
    assert got == 2 and "pip install 'ser-toolkit[train]'" in said
