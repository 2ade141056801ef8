"""One thread a test, and a small trainer over a scripted reward."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the train extra")

import torch

from ser_toolkit.rewards.base import RewardBreakdown, Scene
from ser_toolkit.rewards.composition import Component, Composer, RewardRecipe
from ser_toolkit.schema import Turn

torch.set_num_threads(1)
SCENE = Scene("d", "en", (Turn(speaker="seeker", text="I feel low."),))


class Scripted:
    """Scores handed out in turn, however many completions are asked about."""

    def __init__(self, scores: Sequence[float | None]) -> None:
        self.scores, self.at = list(scores), 0
        self.texts: list[str] = []
        self.scenes: list[str] = []

    async def score(self, scene: Scene, completions: Sequence[Any]) -> list[RewardBreakdown]:
        self.scenes.append(scene.id)
        given = []
        for completion in completions:
            self.texts.append(completion.text)
            given.append(RewardBreakdown(self.scores[self.at % len(self.scores)]))
            self.at += 1
        return given


@pytest.fixture
def make_trainer(tmp_path) -> Callable[..., Any]:
    """`make_trainer(scores, vision=False, rules=..., recipe=..., **GRPOConfig)`: four prompts, G 4, 8 tokens."""
    from trl import GRPOConfig

    from rl_training.grpo import PolicyTrainer, Rules
    from tests.judge_models import processor, text_model, tokenizer, vision_model

    def make(
        scores: Sequence[float | None] = (1.0, 2.0, 3.0, 4.0),
        *,
        vision: bool = False,
        rules: Any = None,
        recipe: RewardRecipe | None = None,
        model: Any = None,
        cls: Any = None,
        **settings: Any,
    ) -> Any:
        options = {
            "output_dir": str(tmp_path / "run"), "use_cpu": True, "bf16": False, "max_steps": 1, "report_to": [],
            "per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 8, "save_strategy": "no",
            "logging_steps": 1, "gradient_checkpointing": False, "loss_type": "grpo", "disable_tqdm": True,
        }  # fmt: skip
        judge = Scripted(scores)
        made = (cls or PolicyTrainer)(
            Composer(recipe or RewardRecipe(), [Component("judge", judge)]),
            lambda row: Scene(f"d{row}", "en", SCENE.turns),
            rules or Rules(max_clipped=1.0, samples=tmp_path / "samples"),
            model=copy.deepcopy(model or (vision_model() if vision else text_model(initializer_range=0.1))),
            args=GRPOConfig(**{**options, **settings}),
            train_dataset=rows(vision),
            processing_class=copy.deepcopy(processor() if vision else tokenizer()),
        )
        made.judge = judge
        return made

    return make


def rows(vision: bool) -> Any:
    import datasets

    from tests.judge_models import picture

    datasets.disable_progress_bars()
    said = ("I feel low", "I lost my job and nobody knows", "Nobody calls", "It is all too much for me now")
    table: dict[str, Any] = {"prompt": [[{"role": "user", "content": s}] for s in said], "row": list(range(4))}
    if not vision:
        return datasets.Dataset.from_dict(table)
    table["images"] = [[picture(60 * n)] if n else [] for n in range(4)]
    kinds = datasets.Features(
        {
            "prompt": [{"role": datasets.Value("string"), "content": datasets.Value("string")}],
            "row": datasets.Value("int64"),
            "images": datasets.List(datasets.Image()),
        }
    )
    return datasets.Dataset.from_dict(table, features=kinds)
