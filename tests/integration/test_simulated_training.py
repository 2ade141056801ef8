"""`ser train-rl` with a simulated seeker over a loopback server: from a release's prompts, and from SAGE's profiles."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the train extra")

import torch

from pipelines import build
from pipelines.policies import train_rl
from ser_toolkit.errors import UsageError
from tests.integration.conftest import REPLIES, write_dialogues
from tests.servers.openai_stand_in import StandIn
from tests.training_models import text_model

torch.set_num_threads(1)
pytestmark = pytest.mark.train
SEEKER = Path(__file__).parents[1] / "servers" / "policy_replies.py"
END_OF_TURN = 2
SHORT = (
    "reward.components={emotion: 1}", "reward.redundancy.kind=off", "max_completion_length=6", "num_generations=2",
    "per_device_train_batch_size=2", "gradient_accumulation_steps=1", "max_steps=1", "logging_steps=1",
    f"generation_kwargs={{forced_eos_token_id: {END_OF_TURN}}}", "simulate.rounds=2", "simulate.seeker.model=openai:s",
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    with StandIn(reply=f"{SEEKER}:reply") as stand_in:
        yield stand_in


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("release")
    source = write_dialogues(home / "in.jsonl", 4)
    with StandIn(reply=f"{REPLIES}:build") as stand_in:
        sets = [f"llm.base_url={stand_in.base_url}", "filter.enabled=false", "sample.rounds=1", "split.ratios=[1,0,0]"]
        made = build(home / "w", sources=[f"messages:{source}"], quiet=True, model="openai:stand-in", sets=sets)
    return made.export.made.path


@pytest.fixture(scope="module")
def policy(tmp_path_factory) -> Path:
    return text_model(tmp_path_factory.mktemp("policy") / "tiny")


@pytest.fixture
def train(release, policy, server, tmp_path):
    def run(*sets: str) -> dict:
        server.reset()
        given = (*SHORT, f"simulate.seeker.base_url={server.base_url}", *sets)
        train_rl(str(release), str(policy), tmp_path / "run", given, quiet=True)
        lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
        return next(line for line in map(json.loads, lines) if "talks/emotion" in line)

    return run


def test_a_releases_prompts_are_gone_on_with_and_the_last_feeling_is_the_reward(train, server):
    found = train()
    assert found["talks/failed"] == 0 and found["talks/rounds"] == 2
    assert found["talks/emotion"] == 6 and found["reward"] == pytest.approx(0.06)  # 30, lowered twice by 12
    felt = next(b for b in server.bodies() if "feeling" in str(b.get("response_format")))
    assert "day " in felt["messages"][-1]["content"]  # the release's history


def test_profiles_bring_their_openings_and_what_they_hide(train, server, shared_data):
    profiles = shared_data / "sage" / "test_profile.jsonl"
    found = train(f"simulate.profiles={profiles}", "max_rows=3", "simulate.start_feeling=50")
    assert found["talks/emotion"] == 26
    first = json.loads(profiles.read_text(encoding="utf-8").splitlines()[0])
    hidden = [first["task"], *(json.loads(x)["task"] for x in profiles.read_text("utf-8").splitlines()[1:3])]
    asked = [str(b["messages"]) for b in server.bodies()]
    assert any(any(" ".join(task.split())[:20] in a for task in hidden) for a in asked)


def test_a_seeker_and_its_reward_go_together(release, policy, tmp_path):
    def run(*sets: str) -> None:
        train_rl(str(release), str(policy), tmp_path / "run", sets, quiet=True, preset="perm")

    with pytest.raises(UsageError, match="emotion counts for nothing"):
        run("simulate.rounds=2")
    with pytest.raises(UsageError, match="no seeker is simulated"):
        run("reward.components={emotion: 1}")
