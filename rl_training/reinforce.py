"""`train_rl`: GRPO on the prompts of a release, with a composed reward.

    train_rl(release, "runs/sft", Path("runs/peer"), settings, trl, components=[...], embedder=...)

Whoever calls it has opened the judges and the model of embeddings (`pipelines.policies` does for the command), since
this floor knows no backend by name. The reference model of the KL term is the model as it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ser_toolkit.errors import UsageError
from ser_toolkit.metrics.repetition import Embedder
from ser_toolkit.releases.load import Release
from ser_toolkit.rewards.composition import Component, Composer
from ser_toolkit.training.extra import require_train

from .multi_turn import EMOTION, SeekerModel, opening_dataset
from .prompts import Measure, fit_dataset, fit_rows
from .running import RunResult, finish, load_policy, run_arguments, trained
from .settings import PRESETS, PresetName, RlSettings, split_sets

CONFIG = "prompts"
Opened = Callable[[RlSettings], tuple[Sequence[Component], "Embedder | None"]]


def train_rl(
    release: Release,
    model: str,
    out: Path,
    sets: Sequence[str] = (),
    *,
    open_rewards: Opened,
    preset: PresetName = "peer",
    text_only: bool = False,
    resume: bool = False,
    quiet: bool = False,
    open_seeker: Callable[[RlSettings], SeekerModel] | None = None,
) -> RunResult:
    """A policy trained on the prompts of `release`, in `out/model`.

    `open_rewards(settings)` gives the components and the model of embeddings, once the settings are known to be right;
    `open_seeker` who plays the seeker where `simulate` asks for talks of many turns. Raises UsageError, DataError,
    CheckpointError, RemoteError (a judge that answers nobody), SerError (a run that learns nothing).
    """
    require_train()
    from trl.trainer.grpo_config import GRPOConfig

    settings, theirs = split_sets(sets, RlSettings, PRESETS[preset].own)
    _check_emotion(settings)
    with run_arguments(
        "train-rl", release, model, out, settings, theirs, GRPOConfig, PRESETS[preset].trl,
        text_only=text_only, resume=resume, told={"preset": preset},
    ) as begun:  # fmt: skip
        _check_boundaries(begun.arguments)
        seeker = open_seeker(settings) if settings.simulate and open_seeker else None
        components, embedder = open_rewards(settings)
        composer = Composer(settings.reward, components, embedder)
        loaded = load_policy(model, settings, text_only=text_only)
        measure = Measure(loaded.processing, takes_photos=loaded.is_vision and seeker is None)
        if seeker is not None and seeker.scenarios is not None:
            rows = fit_dataset(opening_dataset(seeker.scenarios), "profiles", measure, settings.max_prompt_tokens)
        else:
            rows = fit_rows(
                release, CONFIG, measure, settings.max_prompt_tokens, at_most=settings.max_rows,
                seed=begun.arguments.seed,
            )  # fmt: skip
        _check_enough(len(rows.dataset), begun.arguments)
        begun.run.note(rows=rows.counts())

        from .grpo import PolicyTrainer, Rules

        watch = settings.watch
        simulation = None if seeker is None or settings.simulate is None else seeker.play(rows, settings.simulate)
        trainer = PolicyTrainer(
            composer,
            rows.scene,
            Rules(settings.std_floor, watch.max_clipped, watch.patience, settings.share_prefix, out / "samples"),
            model=loaded.model,
            args=begun.arguments,
            train_dataset=rows.dataset,
            processing_class=loaded.processing,
            rollout_func=simulation,
        )
        try:
            trained(trainer, begun, quiet=quiet)
        finally:
            trainer.close()
            if simulation is not None:
                simulation.close()
        return finish(trainer, loaded, begun)


def _check_emotion(settings: RlSettings) -> None:
    """Whether a simulated seeker and the reward of its feeling go together. Raises UsageError."""
    is_rewarded = bool(settings.reward.components.get(EMOTION))
    if settings.simulate is None and is_rewarded:
        raise UsageError(f"{EMOTION} is rewarded, and no seeker is simulated", "--set simulate.seeker.model=SPEC")
    if settings.simulate is not None and not is_rewarded:
        raise UsageError(
            f"a seeker is simulated, and its {EMOTION} counts for nothing",
            f"--set reward.components.{EMOTION}=1 adds it; --set 'reward.components={{{EMOTION}: 1}}' is it alone",
        )


def _check_boundaries(arguments: Any) -> None:
    """A checkpoint between a generation and its last update could not be gone on from exactly. Raises UsageError."""
    generation = arguments.steps_per_generation * arguments.num_iterations
    if arguments.save_strategy != "no" and arguments.save_steps * arguments.gradient_accumulation_steps % generation:
        updates = generation / arguments.gradient_accumulation_steps
        raise UsageError(
            f"save_steps={arguments.save_steps}: a generation serves {updates:g} updates; save at a multiple of them",
            f"--set save_steps={max(1, round(updates)) * 10}",
        )


def _check_enough(rows: int, arguments: Any) -> None:
    prompts = arguments.generation_batch_size // arguments.num_generations
    if rows < prompts:
        raise UsageError(
            f"{rows} prompts are fewer than the {prompts} that one generation takes",
            "lower per_device_train_batch_size or gradient_accumulation_steps",
        )
