"""Talks of many turns as TRL's rollouts: what carries loss, and what the last feeling does to the advantages."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ser_toolkit.errors import RecordError, UsageError
from ser_toolkit.llm.chat import Reply, Request
from ser_toolkit.llm.meter import UsageMeter
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Llm, Recipe
from ser_toolkit.schema import Scenario, Source, Speaker, Turn

pytestmark = pytest.mark.train

datasets = pytest.importorskip("datasets")
torch = pytest.importorskip("torch")
trl = pytest.importorskip("trl")

from rl_training.multi_turn import Simulation, opening_rows, starts_of  # noqa: E402
from tests.training_models import text_model  # noqa: E402

GROUP = 2
LINES = ("I froze in there.", "My father will hear of it.", "I could not sleep after that.", "Nobody else knows yet.")


class Feels:
    """A seeker that feels, from 1 to 99, what the hash of the supporter's last words says; "fails" in some talks."""

    identity, model, vision, languages, context_tokens = "here", "m", False, frozenset(), None

    def __init__(self, fails: frozenset[str] = frozenset()) -> None:
        self.fails, self.meter, self.asked = fails, UsageMeter(), 0

    async def complete(self, request: Request) -> Reply:
        self.asked += 1
        if request.record_id in self.fails:
            raise RecordError("timeout", "no reply came")
        if request.schema is None:
            return Reply(LINES[sum(m.role == "user" for m in request.messages) % len(LINES)])
        said = hashlib.sha256(request.messages[-1].text.partition("How does the supporter")[0].encode()).digest()
        return Reply(json.dumps({"thought": "hm", "feeling": 1 + said[0] % 99}))

    async def aclose(self) -> None: ...


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return text_model(tmp_path_factory.mktemp("policy") / "tiny", context=2048)


def scenarios() -> list[Scenario]:
    return [
        Scenario(
            id=f"s{n}",
            lang="en",
            source=Source(format="sage"),
            situation="I failed an exam.",
            speakers=(Speaker(role="seeker", persona="A student."),),
            hidden_intention="to hear that one exam is not a life",
            opening=text,
        )
        for n, text in enumerate(("I failed it again.", "They will all laugh.", ""))
    ]


def simulation(chat: Feels, **options: Any) -> tuple[Simulation, Any]:
    """A simulation of two scenarios, and TRL's dataset of their prompts."""
    rows = opening_rows(scenarios())
    opened = [(r["prompt"], r, [Turn(speaker="seeker", text=r["prompt"][-1]["content"])]) for r in rows]
    given = {"rounds": 2, **options}
    made = Simulation(starts_of(opened), chat, Recipe(llm=Llm(model="openai:m")), Prompts(), **given)
    return made, datasets.Dataset.from_dict({"prompt": [r["prompt"] for r in rows], "row": list(range(len(rows)))})


def emotion(emotion: list[float | None], **_: Any) -> list[float | None]:
    return [None if e is None else e / 100 for e in emotion]


def shortness(completions: list[Any], said: list[str], **_: Any) -> list[float]:
    return [-len(text) / 100 for text in said]


class Kept(trl.GRPOTrainer):
    """TRL's trainer, with what it made of the rollouts kept."""

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        self.kept = super()._generate_and_score_completions(inputs)
        return self.kept

    def _compute_loss(self, model: Any, inputs: Any) -> Any:
        self.batch = inputs  # the same rows, in another order
        return super()._compute_loss(model, inputs)


def trainer(model: Path, run: Path, play: Simulation, data: Any, rewards: list[Any], turn_tokens: int = 6, **trl_: Any):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    arguments = trl.GRPOConfig(
        output_dir=str(run), use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[], save_strategy="no",
        per_device_train_batch_size=2 * GROUP, num_generations=GROUP, max_completion_length=turn_tokens, max_steps=1,
        beta=0.0, seed=3, shuffle_dataset=False, logging_steps=1, disable_tqdm=True,
        generation_kwargs={"forced_eos_token_id": tokenizer.eos_token_id}, **trl_,
    )  # fmt: skip
    return Kept(
        model=str(model), args=arguments, train_dataset=data, processing_class=tokenizer, reward_funcs=rewards,
        rollout_func=play,
    )  # fmt: skip


@pytest.fixture(scope="module")
def alone(model, tmp_path_factory):
    """A trainer after its step, whose only reward is the last feeling; `grads` are those of the last hidden states."""
    play, data = simulation(Feels())
    made = trainer(model, tmp_path_factory.mktemp("alone"), play, data, [emotion])
    made.grads = []

    def keep(_: Any, __: Any, hidden: Any) -> None:
        if hidden.requires_grad:
            hidden.register_hook(made.grads.append)

    made.model.model.norm.register_forward_hook(keep)
    made.train()
    return made


def test_only_the_policys_tokens_carry_loss(alone):
    mask, completion = alone.kept["tool_mask"] * alone.kept["completion_mask"], alone.kept["completion_ids"]
    tokenizer, present = alone.processing_class, alone.kept["completion_mask"].tolist()
    for ids, marks, there in zip(completion.tolist(), mask.tolist(), present, strict=True):
        theirs = tokenizer.decode([t for t, m, w in zip(ids, marks, there, strict=True) if w and not m])
        own = tokenizer.decode([t for t, m in zip(ids, marks, strict=True) if m])
        assert theirs.startswith("\n<|im_start|>user\n") and theirs.endswith("<|im_end|>\n<|im_start|>assistant\n")
        assert any(line in theirs for line in LINES) and not any(line in own for line in LINES)
        assert sum(marks) == 2 * 6  # two answers of six tokens, the end of turn included
    batch = alone.batch
    mask, alive = batch["tool_mask"] * batch["completion_mask"], batch["advantages"] != 0
    grad = torch.cat(alone.grads)[:, -completion.shape[1] - 1 : -1].abs().sum(-1)
    assert ((grad > 0) == ((mask > 0) & alive.unsqueeze(1))).all() and alive.any()


def test_the_last_feeling_is_the_reward_and_decides_the_advantages(alone, model, tmp_path):
    (mean,) = [r["rewards/emotion/mean"] for r in alone.state.log_history if "rewards/emotion/mean" in r]
    (felt,) = [r["talks/emotion"] for r in alone.state.log_history if "talks/emotion" in r]
    assert 0 < mean < 1 and felt == pytest.approx(100 * mean, abs=1e-3)
    play, data = simulation(Feels())
    mixed = trainer(model, tmp_path, play, data, [emotion, shortness])
    mixed.train()
    assert torch.equal(alone.kept["completion_ids"], mixed.kept["completion_ids"])  # the same talks
    ours, theirs = (t.kept["advantages"].view(-1, GROUP) for t in (alone, mixed))
    assert ours.std(1).min() > 0.9 and not torch.allclose(ours, theirs, atol=1e-3)


def test_a_seeker_that_fails_leaves_its_talks_without_a_reward(model, tmp_path):
    play, data = simulation(Feels(frozenset({"s1"})))
    made = trainer(model, tmp_path, play, data, [emotion])
    made.train()
    advantages = made.kept["advantages"].view(-1, GROUP)
    assert advantages[0].abs().sum() > 0 and advantages[1].abs().sum() == 0
    (logged,) = [r for r in made.state.log_history if "talks/failed" in r]
    assert logged["talks/failed"] == 0.5 and logged["talks/rounds"] == pytest.approx(1.5)


def test_a_policy_that_is_cut_has_fallen_silent_and_its_last_feeling_is_zero(model, tmp_path):
    play, data = simulation(Feels())
    made = trainer(model, tmp_path, play, data, [emotion])
    made.generation_config.forced_eos_token_id = None
    found = play([row["prompt"] for row in data], made)
    assert found["emotion"] == [0, 0] and found["end"] == ["no_reply"] * 2 and found["logprobs"] is None
    assert all(all(mask) for mask in found["env_mask"])


def test_a_talk_ends_where_there_is_no_room(model, tmp_path):
    play, data = simulation(Feels(), rounds=9, max_tokens=60)
    made = trainer(model, tmp_path, play, data, [emotion])
    found = play([row["prompt"] for row in data], made)
    assert found["end"] == ["limit"] * 2 and all(len(ids) <= 60 for ids in found["completion_ids"])
    assert all(0 < e < 100 for e in found["emotion"])
    assert all(mask[-1] == 1 for mask in found["env_mask"])  # it ends with the policy's words


def test_a_prompt_without_a_scenario_is_refused(model, tmp_path):
    play, data = simulation(Feels())
    made = trainer(model, tmp_path, play, data, [emotion])
    with pytest.raises(UsageError, match="no scenario"):
        play([[{"role": "user", "content": "Who are you?"}]], made)


def test_scenarios_without_an_opening_have_nothing_to_answer():
    rows = opening_rows(scenarios())
    assert [r["id"] for r in rows] == ["s0", "s1"] and rows[0]["prompt"][-1]["content"] == "I failed it again."
