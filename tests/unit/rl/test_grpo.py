"""What this toolkit changes in TRL's GRPOTrainer, hook by hook: each test names what would break with another TRL."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the train extra")

import torch
from trl import GRPOConfig, GRPOTrainer

from rl_training.advantages import group_advantages
from rl_training.grpo import EpochSampler, PolicyTrainer, Rules
from ser_toolkit.errors import SerError
from ser_toolkit.rewards.composition import RewardRecipe

pytestmark = pytest.mark.train


class Kept(PolicyTrainer):
    """Keeps each generation step's output."""

    def _generate_and_score_completions(self, inputs):
        self.output = super()._generate_and_score_completions(inputs)
        return self.output


def gradients(trainer, output, **changes):
    """Loss and all gradients of one update on a generation step's output."""
    trainer.model.zero_grad()
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1
    loss = trainer._compute_loss(trainer.model, {**output, **changes})
    loss.backward()
    grads = {n: p.grad.clone() for n, p in trainer.model.named_parameters() if p.grad is not None}
    return loss.item(), grads


def same(left, right, bound=1e-5):
    norm = math.sqrt(sum(g.square().sum().item() for g in right.values()))
    off = math.sqrt(sum((left[n] - g).square().sum().item() for n, g in right.items()))
    return left.keys() == right.keys() and off <= bound * norm


def test_trl_calls_the_reward_hook_once_a_generation_and_nothing_else_scores(make_trainer):
    trainer = make_trainer()
    trainer.train()
    assert trainer.judge.at == 8 and len(trainer.judge.scenes) == 2, "_calculate_rewards: two groups of four"
    logged = trainer.state.log_history[0]
    assert logged["rewards/judge/mean"] == 2.5 and logged["rewards/judge/missing"] == 0
    assert logged["rewards/judge/spread"] == pytest.approx(1.29099, abs=1e-4)
    assert logged["rewards/total/mean"] == 2.5, "TRL's own figures are of the composed reward"


def test_advantages_are_trls_own_where_nothing_is_missing(make_trainer):
    trainer = make_trainer(
        (0.5, 1.0, 2.5, 3.0, 1.0, 0.0, 0.0, 2.0), cls=Kept, rules=Rules(std_floor=0.0, max_clipped=1)
    )
    taken = {}
    plain = GRPOTrainer._generate_and_score_completions

    def trls(self, inputs):
        taken["advantages"] = plain(self, inputs)
        return taken["advantages"]

    GRPOTrainer._generate_and_score_completions = trls
    try:
        trainer.train()
    finally:
        GRPOTrainer._generate_and_score_completions = plain
    groups = torch.tensor([[0.5, 1.0, 2.5, 3.0], [1.0, 0.0, 0.0, 2.0]])
    expected = (groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)
    assert torch.allclose(trainer.output["advantages"], expected.view(-1), atol=1e-6)
    assert "tool_mask" not in trainer.output, "with nothing dead, TRL's batch is left as it is"


def test_a_missing_reward_has_advantage_0_and_stands_outside_mean_deviation_and_loss(make_trainer):
    trainer = make_trainer((1.0, None, 3.0, 2.0, 1.0, 2.0, 3.0, 4.0), cls=Kept, beta=0.1, model=saved())
    trainer.train()
    a = trainer.output["advantages"]
    assert a[:4].tolist() == pytest.approx([-1.0, 0.0, 1.0, 0.0], abs=1e-3)
    assert trainer.output["tool_mask"].sum(1).bool().tolist() == [True, False, *[True] * 6]
    logged = trainer.state.log_history[0]
    assert logged["reward/missing"] == 1 / 8 and logged["completions/out_of_loss"] == 1 / 8


_FOLDER = {}


def saved():
    """The tiny model with a folder behind it, which TRL's reference model is read from."""
    import copy
    import tempfile

    from transformers import AutoModelForCausalLM

    from tests.judge_models import text_model

    if "model" not in _FOLDER:
        folder = tempfile.mkdtemp()
        copy.deepcopy(text_model(initializer_range=0.1)).save_pretrained(folder)
        _FOLDER["model"] = AutoModelForCausalLM.from_pretrained(folder)
    return _FOLDER["model"]


def test_a_group_of_equal_rewards_gives_neither_policy_nor_kl_gradient_and_is_counted(make_trainer):
    trainer = make_trainer((2.0,), cls=Kept, beta=0.5, model=saved())
    trainer.train()
    with torch.no_grad():  # away from the reference, so that the KL term has a gradient
        for p in trainer.model.parameters():
            p.add_(0.02 * torch.randn_like(p))
    _, grads = gradients(trainer, trainer.output)
    assert max(g.abs().max().item() for g in grads.values()) == 0.0
    mask = torch.ones_like(trainer.output["completion_mask"])
    _, with_kl = gradients(trainer, trainer.output, tool_mask=mask)
    assert max(g.abs().max().item() for g in with_kl.values()) > 0, (
        "TRL alone would have moved it: tool_mask is the hook"
    )
    assert trainer.state.log_history[0]["groups/equal"] == 1.0


def test_a_run_of_cut_completions_and_one_without_rewards_stop_with_a_reason(make_trainer):
    with pytest.raises(SerError, match="cut at 8 tokens, for 2 steps") as stopped:
        make_trainer(rules=Rules(max_clipped=0.5, patience=2), max_steps=5).train()
    assert "max_completion_length" in stopped.value.hint
    with pytest.raises(SerError, match="no completion had a reward for 2 steps"):
        make_trainer((None,), rules=Rules(max_clipped=1.0, patience=2), max_steps=5).train()


def test_the_sampler_hangs_on_seed_and_epoch_alone():
    """`set_epoch` must reach TRL's RepeatSampler through accelerate, or a resumed epoch sees other prompts."""

    def order(sampler):
        return list(dict.fromkeys(sampler))

    walked = EpochSampler(range(9), mini_repeat_count=2, batch_size=3, seed=1)
    orders = []
    for epoch in range(3):
        walked.set_epoch(epoch)
        orders.append(order(walked))
    assert len(set(map(tuple, orders))) == 3
    fresh = EpochSampler(range(9), mini_repeat_count=2, batch_size=3, seed=1)
    fresh.set_epoch(2)
    assert order(fresh) == orders[2]


def test_photos_stand_in_the_last_user_message_and_a_model_that_sees_learns(make_trainer):
    trainer = make_trainer(vision=True, max_steps=2)
    trainer.train()
    assert [x["step"] for x in trainer.state.log_history[:2]] == [1, 2]
    assert trainer.state.log_history[0]["grad_norm"] > 0


def test_a_prefilled_text_counts_as_said(make_trainer):
    trainer = make_trainer(recipe=RewardRecipe(prefill="Step 1."))
    trainer.train()
    assert all(text.startswith("Step 1.") for text in trainer.judge.texts)


def test_samples_are_a_table_that_text_cannot_leave(make_trainer, tmp_path):
    make_trainer().train()
    page = (tmp_path / "samples" / "train-000001.md").read_text()
    table = [line for line in page.splitlines() if line.startswith("|")]
    assert len(table) == 2 + 4 and {line.replace("\\|", "").count("|") for line in table} == {
        len(table[0].split("|")) - 1
    }


@pytest.mark.parametrize("vision", [False, True])
@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_shared_prompts_give_trls_loss_and_gradients(make_trainer, vision, beta, caplog):
    """Stands on TRL's ChunkedLogProbFunction, its left-padded prompts and the order of its batch."""
    if vision and beta:
        pytest.skip("the reference model is another model, not another way")
    more = {"beta": beta, "model": saved()} if beta else {}
    trainer = make_trainer(
        cls=Kept, vision=vision, rules=Rules(max_clipped=1, share_prefix=True), temperature=0.7, **more
    )
    trainer.train()
    assert "share_prefix" not in caplog.text
    shared = gradients(trainer, trainer.output)
    entropy = trainer._metrics["train"]["entropy"][-1]
    trainer._rules = Rules(max_clipped=1)
    plain = gradients(trainer, trainer.output)
    assert shared[0] == pytest.approx(plain[0], abs=1e-5)
    assert same(shared[1], plain[1])
    assert entropy == pytest.approx(trainer._metrics["train"]["entropy"][-1], abs=1e-5)


def test_shared_prompts_go_back_to_whole_rows_with_a_line_in_the_log(make_trainer, caplog):
    trainer = make_trainer(rules=Rules(max_clipped=1, share_prefix=True), gradient_checkpointing=True)
    trainer.train()
    assert "gradient checkpointing keeps no keys" in caplog.text


rewards = st.lists(st.one_of(st.none(), st.floats(-3, 3, width=16)), min_size=4, max_size=4)


@given(st.lists(rewards, min_size=1, max_size=3), st.randoms(), st.sampled_from(["group", "batch", "none"]))
def test_advantages_of_any_groups(groups, random, scale):
    flat = torch.tensor([math.nan if r is None else r for g in groups for r in g])
    advantages, alive = group_advantages(flat, 4, scale, 0.01)
    assert not advantages.isnan().any() and (advantages[~alive] == 0).all()
    assert (alive <= ~flat.isnan()).all()
    for g, own in enumerate(advantages.view(-1, 4)):
        known = [r for r in groups[g] if r is not None]
        assert own.sum().abs() < 1e-3 and bool(alive.view(-1, 4)[g].any()) == (
            len({*known}) > 1 and torch.tensor(known).std() > 1e-6
        )
    order = [random.sample(range(4), 4) for _ in groups]
    index = torch.tensor([4 * g + i for g, o in enumerate(order) for i in o])
    assert torch.allclose(group_advantages(flat[index], 4, scale, 0.01)[0], advantages[index], atol=1e-5)


def test_the_deviation_has_a_floor():
    tiny = torch.tensor([1.0, 1.001, 1.0, 1.001])
    bare, _ = group_advantages(tiny, 4, "group", 0.0)
    held, _ = group_advantages(tiny, 4, "group", 0.01)
    assert bare.abs().max() > 0.7 and held.abs().max() < 0.06


def test_this_is_the_version_of_trl_that_the_hooks_are_written_for():
    import trl

    assert trl.__version__ == "1.16.0" and GRPOConfig
