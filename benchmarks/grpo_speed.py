"""How fast a GRPO step is with shared prompts, beside TRL's own GRPOTrainer, on one CPU thread in float32.

    python -m benchmarks.grpo_speed [--repeats 3] [--json]

Two prompts of 512 tokens, G = 8 completions of 128, beta 0, one update, gradient checkpointing off in both; the same
completions are fed to both (generation excluded), the same sequence classifier rewards them, entropy and metrics are
computed in both. Guards: the same rewards, loss and gradients. Limit: FLOPs of the tokens that are there once, over the
measured peak of a matrix product; the bound of sharing is G(P+R)/(P+GR). Aims: update 2.2x, reward and update 2x.

Then the reward phase alone, over a judge on the loopback that takes 200 ms: UnifiReward's four rounds depend on one
another, so four latencies are the least. Aim: 1.2x of that.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import copy

import datasets
import torch
from transformers import LlamaForSequenceClassification
from trl import GRPOConfig, GRPOTrainer

from benchmarks.torch_common import (
    ALL_WORDS,
    WIDTH,
    best_of,
    forward_flops,
    gemm_peak,
    make_model,
    make_tokenizer,
    one_thread,
    words,
)
from rl_training.grpo import PolicyTrainer, Rules
from rl_training.shared_update import shared_hidden
from ser_toolkit.llm.open import open_model
from ser_toolkit.reasoning import render_trace
from ser_toolkit.recipe import Llm
from ser_toolkit.rewards.base import Completion, RewardBreakdown, Scene
from ser_toolkit.rewards.composition import Component, Composer, Group, RewardRecipe
from ser_toolkit.rewards.open import open_reward
from ser_toolkit.schema import Turn
from tests.servers.openai_stand_in import StandIn

PROMPTS, GROUP, PROMPT, COMPLETION = 2, 8, 512, 128
LATENCY_S, ROUNDS = 0.2, 4


class ClassifierReward:
    """The classifier's score of each completion, the prompt computed once for the group."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model, self._tokenizer = model, tokenizer

    @torch.inference_mode()
    async def score(self, scene: Scene, completions: Sequence[Completion]) -> list[RewardBreakdown]:
        chat = [{"role": "user", "content": t.text} for t in scene.turns]
        prompt = self._ids(self._tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))
        said = [self._ids(f"{c.text}<|im_end|>\n") for c in completions]
        longest = max(map(len, said))
        pad = self._tokenizer.pad_token_id
        ids = torch.tensor([[*prompt, *s, *[pad] * (longest - len(s))] for s in said])
        mask = torch.tensor([[1] * (len(prompt) + len(s)) + [0] * (longest - len(s)) for s in said])
        _, hidden = shared_hidden(self._model.model, ids, mask, len(prompt))
        ends = torch.tensor([len(s) - 1 for s in said])
        scores = self._model.score(hidden[torch.arange(len(said)), ends])[:, 0]
        return [RewardBreakdown(s) for s in scores.tolist()]

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False)["input_ids"]


def settings(folder: str) -> GRPOConfig:
    return GRPOConfig(
        output_dir=folder, use_cpu=True, bf16=False, per_device_train_batch_size=PROMPTS * GROUP, num_generations=GROUP,
        max_completion_length=COMPLETION, beta=0.0, gradient_checkpointing=False, report_to=[], save_strategy="no",
        loss_type="grpo", disable_tqdm=True, max_steps=1,
    )  # fmt: skip


class Fixed:
    """Hands out the same completions, whoever asks."""

    def __init__(self, trainer: Any, completions: list[list[int]]) -> None:
        trainer._generate_single_turn = lambda *_, **__: (completions, None)
        trainer.current_gradient_accumulation_steps = 1
        trainer.create_optimizer()
        trainer.model.train()
        self.trainer = trainer
        self.inputs = [row for row in trainer.train_dataset for _ in range(GROUP)]
        self.scored: dict[str, Any] = {}

    def reward(self) -> None:
        self.scored = self.trainer._generate_and_score_completions(list(self.inputs))

    def update(self) -> float:
        self.trainer.model.zero_grad()
        loss = self.trainer._compute_loss(self.trainer.model, self.scored)
        loss.backward()
        return loss.item()

    def gradient(self) -> torch.Tensor:
        return torch.cat([p.grad.flatten() for p in self.trainer.model.parameters() if p.grad is not None])


def compared(repeats: int, folder: str) -> dict[str, Any]:
    tokenizer = make_tokenizer([ALL_WORDS])
    model = make_model(tokenizer)
    classifier = LlamaForSequenceClassification(copy.deepcopy(model.config)).eval()
    texts = [words(PROMPT - 8, seed).strip() for seed in range(PROMPTS)]
    prompts = [[{"role": "user", "content": t}] for t in texts]
    completions = [tokenizer(words(COMPLETION, 100 + n))["input_ids"][:COMPLETION] for n in range(PROMPTS * GROUP)]
    scenes = [Scene(str(n), "en", (Turn(speaker="seeker", text=t),)) for n, t in enumerate(texts)]
    rows = datasets.Dataset.from_dict({"prompt": prompts, "row": list(range(PROMPTS))})
    theirs = Fixed(
        GRPOTrainer(
            model=copy.deepcopy(model), reward_funcs=classifier, reward_processing_classes=copy.deepcopy(tokenizer),
            args=settings(folder), train_dataset=rows, processing_class=copy.deepcopy(tokenizer),
        ),
        completions,
    )  # fmt: skip
    ours = Fixed(
        PolicyTrainer(
            Composer(RewardRecipe(), [Component("classifier", ClassifierReward(classifier, tokenizer))]),
            lambda row: scenes[row], Rules(std_floor=0.0, max_clipped=1.0, share_prefix=True),
            model=copy.deepcopy(model), args=settings(folder), train_dataset=rows,
            processing_class=copy.deepcopy(tokenizer),
        ),
        completions,
    )  # fmt: skip
    times: dict[str, dict[str, float]] = {}
    losses: dict[str, float] = {}
    for name, side in (("trl", theirs), ("ours", ours), ("trl", theirs), ("ours", ours)):
        reward, _ = best_of(side.reward, repeats)
        update, losses[name] = best_of(side.update, repeats)
        kept = times.setdefault(name, {"reward": reward, "update": update})
        times[name] = {"reward": min(kept["reward"], reward), "update": min(kept["update"], update)}
    off = (theirs.gradient() - ours.gradient()).norm() / theirs.gradient().norm()
    length = ours.scored["prompt_ids"].size(1)
    spans = [(length, 0)] * PROMPTS + [(COMPLETION, length)] * (PROMPTS * GROUP)
    once = forward_flops(spans, PROMPTS * GROUP * COMPLETION, len(tokenizer))
    without_head = forward_flops(spans, 0, len(tokenizer)) + 2 * WIDTH * PROMPTS * GROUP
    peak = gemm_peak()
    return {
        "seconds": times,
        "update_x": times["trl"]["update"] / times["ours"]["update"],
        "both_x": sum(times["trl"].values()) / sum(times["ours"].values()),
        "bound_x": GROUP * (length + COMPLETION) / (length + GROUP * COMPLETION),
        "limit_s": {"reward": without_head / peak, "update": 3 * once / peak},
        "peak_gflops": peak / 1e9,
        "reward_difference": (theirs.scored["advantages"] - ours.scored["advantages"]).abs().max().item(),
        "loss_difference": abs(losses["trl"] - losses["ours"]),
        "gradient_difference": off.item(),
    }


def judged() -> dict[str, float]:
    """The reward phase of a step over a served judge: seconds, and against the least there can be."""
    trace = render_trace(("Job loss, told to nobody.", "Negative, shame.", "Affirmation."), "That is hard {}.", "en")
    scene = Scene("d", "en", (Turn(speaker="seeker", text="I lost my job."),), reference="I am sorry.")
    groups = [
        Group(scene, tuple(Completion(trace.replace("{}", f"number {n * GROUP + i}")) for i in range(GROUP)))
        for n in range(PROMPTS)
    ]
    with StandIn(latency_s=LATENCY_S) as server:
        chat = open_model(Llm(model="openai:judge", base_url=(server.base_url,), concurrency=64))
        composer = Composer(RewardRecipe(), [Component("unified", open_reward("unified", chat), alone=True)])

        async def steps() -> float:
            best = float("inf")
            for _ in range(3):
                began = time.perf_counter()
                scored = await composer.judge(groups)
                best = min(best, time.perf_counter() - began)
                if any(s.total is None for group in scored for s in group):
                    raise RuntimeError("a score is missing")
            await chat.aclose()
            return best

        seconds = asyncio.run(steps())
    return {"seconds": seconds, "least_s": ROUNDS * LATENCY_S, "x": seconds / (ROUNDS * LATENCY_S)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args()
    one_thread()
    datasets.disable_progress_bars()
    with TemporaryDirectory() as folder:
        found = compared(options.repeats, folder)
    found["judge"] = judged()
    if found["loss_difference"] > 1e-5 or found["gradient_difference"] > 1e-5 or found["reward_difference"] > 1e-2:
        raise SystemExit(f"the two do not compute the same: {found}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    trl, ours, limit = found["seconds"]["trl"], found["seconds"]["ours"], found["limit_s"]
    print(
        f"{'':8} {'TRL':>8} {'ours':>8} {'limit':>8}   (s of CPU, one thread, peak {found['peak_gflops']:.0f} GFLOP/s)"
    )
    for what in ("reward", "update"):
        print(f"{what:8} {trl[what]:8.2f} {ours[what]:8.2f} {limit[what]:8.2f}   {trl[what] / ours[what]:.2f}x")
    print(f"reward and update {found['both_x']:.2f}x, update {found['update_x']:.2f}x; bound {found['bound_x']:.2f}x")
    print(f"differences: loss {found['loss_difference']:.1e}, gradients {found['gradient_difference']:.1e}")
    judge = found["judge"]
    print(f"served judge, 200 ms, four rounds: {judge['seconds']:.2f} s, {judge['x']:.2f}x of four latencies")


if __name__ == "__main__":
    main()
