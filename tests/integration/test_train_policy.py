"""A policy from a built release: train-sft, then train-rl with a judge over a socket, text and photos."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the train extra")

import torch

from pipelines import build
from pipelines.policies import train_rl, train_sft
from ser_toolkit import load_release
from ser_toolkit.errors import CheckpointError, SerError, UsageError
from tests.integration.conftest import REPLIES, TEXT, write_dialogues
from tests.judge_models import processor, text_model, tokenizer, vision_model
from tests.servers.openai_stand_in import StandIn
from tests.unit.media.making import photo

torch.set_num_threads(1)
pytestmark = [pytest.mark.train, pytest.mark.xdist_group("policy")]
ROOT = Path(__file__).parents[2]
QUICK = ["max_steps=2", "learning_rate=1e-3", "per_device_train_batch_size=2", "gradient_accumulation_steps=1"]
SHORT = ["max_completion_length=8", "watch.max_clipped=1", "per_device_train_batch_size=4", "num_generations=4"]
SHORT += ["gradient_accumulation_steps=1", "max_steps=2", "learning_rate=1e-3"]


@pytest.fixture(scope="module")
def judge():
    with StandIn() as server:
        yield server


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    """Twelve dialogues in text."""
    home = tmp_path_factory.mktemp("text")
    source = write_dialogues(home / "in.jsonl", 12)
    return _built(home, source)


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> Path:
    """Dialogues whose seeker shows a face in some of them."""
    home = tmp_path_factory.mktemp("seen")
    words = TEXT.split()
    lines = []
    for n in range(10):
        said = [" ".join(words[(7 * n + k) % len(words)] for k in range(i, i + 12)) for i in range(0, 36, 12)]
        url = f"data:image/png;base64,{base64.b64encode(photo(n, 'PNG')).decode()}"
        face = [{"type": "image_url", "image_url": {"url": url}}] if n % 3 else []
        first, second = ([*face, {"type": "text", "text": f"{said[k]}, day {n}."}] for k in (0, 2))
        turns = [("user", first), ("assistant", said[1]), ("user", second), ("assistant", "I see.")]
        lines.append({"id": f"d{n}", "messages": [{"role": r, "content": t} for r, t in turns]})
    (home / "in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return _built(home, home / "in.jsonl")


def _built(home: Path, source: Path) -> Path:
    with StandIn(reply=f"{REPLIES}:build") as server:
        sets = [f"llm.base_url={server.base_url}", "filter.enabled=false", "sample.rounds=1", "split.ratios=[1,0,0]"]
        made = build(home / "w", sources=[f"messages:{source}"], quiet=True, model="openai:stand-in", sets=sets)
    return made.export.made.path


@pytest.fixture(scope="module")
def policy(tmp_path_factory) -> Path:
    return saved(tmp_path_factory.mktemp("policy") / "tiny", text_model(initializer_range=0.1), tokenizer())


@pytest.fixture(scope="module")
def seeing(tmp_path_factory) -> Path:
    return saved(tmp_path_factory.mktemp("seeing") / "tiny", vision_model(), processor())


def saved(folder: Path, model, processing) -> Path:
    """A tiny model of a small vocabulary as a user has it: a folder."""
    model.save_pretrained(folder)
    processing.save_pretrained(folder)
    return folder


def served(judge: StandIn) -> list[str]:
    return ["judge.model=openai:judge", f"judge.base_url={judge.base_url}"]


def metrics(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_sft_then_both_presets_of_rl_from_one_release(release, policy, judge, tmp_path):
    sft = train_sft(str(release), str(policy), tmp_path / "sft", [*QUICK, "tune=full"], quiet=True)
    assert (sft.steps, sft.rows["used"]) == (2, len(load_release(release).frame("traces", "train")))
    peer = train_rl(str(release), str(tmp_path / "sft"), tmp_path / "peer", [*served(judge), *SHORT], quiet=True)
    assert peer.steps == 2 and peer.hash != sft.hash
    line = metrics(tmp_path / "peer")[0]
    for key in ("rewards/unified/mean", "rewards/unified/spread", "rewards/unified/missing", "redundancy/tau"):
        assert isinstance(line[key], float), key
    assert {"redundancy/s_in", "redundancy/s_hi", "diversity/self_bleu", "diversity/distinct_2"} <= set(line)
    page = (tmp_path / "peer" / "samples" / "train-000001.md").read_text()
    assert "| reward | advantage | unified |" in page
    perm = train_rl(
        str(release), str(tmp_path / "sft"), tmp_path / "perm", [*served(judge), *SHORT], preset="perm", quiet=True
    )
    line = metrics(tmp_path / "perm")[0]
    assert perm.steps == 2 and line["kl"] is not None and "redundancy/tau" not in line
    told = json.loads((tmp_path / "perm" / "run.json").read_text())["told"]
    assert told["settings"]["reward"]["length"] == {"penalty": 0.001, "free": 768}


def test_a_model_that_sees_is_trained_with_photos_and_its_tower_stays(seen, seeing, judge, tmp_path):
    from ser_toolkit.training.models import load

    train_sft(str(seen), str(seeing), tmp_path / "sft", QUICK, quiet=True)
    assert (tmp_path / "sft" / "adapter" / "adapter_config.json").is_file()
    made = train_rl(str(seen), str(tmp_path / "sft"), tmp_path / "rl", [*served(judge), *SHORT], quiet=True)
    assert made.steps == 2
    before, after = (dict(load(str(p)).model.named_parameters()) for p in (tmp_path / "sft", tmp_path / "rl"))
    moved = {n for n in before if not torch.equal(before[n], after[n])}
    assert moved and not any("vision_model" in n for n in moved)
    blocks = [m["content"] for b in judge.bodies() for m in b["messages"]]
    assert any(isinstance(c, list) and any(p["type"] == "image_url" for p in c) for c in blocks), (
        "the judge saw no face"
    )


def command(release: Path, policy: Path, out: Path, *more: str) -> list[str]:
    """`ser train-rl` with a rule of its own, three prompts an epoch, a checkpoint a step."""
    rule = out.parent / "rule.py"
    rule.write_text("def vowels(text):\n    return sum(c in 'aeiou' for c in text) / (len(text) + 1)\n")
    sets = [*SHORT, "max_steps=6", "save_steps=1", "tune=full", "reward.redundancy.kind=off", "max_rows=3"]
    sets.append(f"reward.components={{'{rule}:vowels': 1}}")
    options = [o for s in sets for o in ("--set", s)]
    told = ["train-rl", "--release", str(release), "--model", str(policy), "--out", str(out), "--json"]
    return [sys.executable, "-m", "pipelines", *told, *options, *more]


def weights(out: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(out / "model" / "model.safetensors")


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_to_what_it_would_have_been(release, policy, tmp_path):
    """Over the border of epochs: three prompts an epoch, six steps of one prompt each."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    done = subprocess.run(command(release, policy, whole), env=env, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    process = subprocess.Popen(
        command(release, policy, broken), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until = time.monotonic() + 240
    while not (broken / "checkpoints" / "checkpoint-4" / "sealed.json").exists():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (broken / "model").exists()
    again = subprocess.run(command(release, policy, broken, "--resume"), env=env, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    first, second = weights(whole), weights(broken)
    assert all(torch.equal(first[n], second[n]) for n in first)
    rewards = [[line.get("reward") for line in metrics(out) if "reward" in line] for out in (whole, broken)]
    assert len(rewards[0]) == 6 and rewards[0] == rewards[1]
    assert json.loads(done.stdout)["model_hash"] == json.loads(again.stdout)["model_hash"]


def test_what_is_wrong_is_said_before_anything_is_trained(release, policy, judge, tmp_path):
    def refused(*sets: str, kind: type[SerError] = UsageError, **more) -> str:
        with pytest.raises(kind) as wrong:
            train_rl(
                str(release), str(policy), tmp_path / f"r{len(list(tmp_path.iterdir()))}", sets, quiet=True, **more
            )
        return str(wrong.value)

    assert "'learnin_rate'" in refused("learnin_rate=1")
    assert "reward.redundancy.kind" in refused("reward.redundancy.kind=loud")
    assert "no reward is called 'kindness'" in refused("reward.components={kindness: 1}")
    assert "no option is called 'sotf'" in refused("options.unified.sotf=true", *served(judge))
    assert "prompts are fewer" in refused(*served(judge), "num_generations=2", "per_device_train_batch_size=64")
    assert "save at a multiple" in refused(*served(judge), "num_iterations=2", "save_steps=25")
    assert "no run to go on with" in refused(*served(judge), kind=CheckpointError, resume=True)
