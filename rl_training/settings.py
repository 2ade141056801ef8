"""What `ser train-sft` and `ser train-rl` may be told: our own keys, the presets, TRL's arguments by their own names.

A key of ours may be nested (`reward.redundancy.kind=dra`); every other key is a field of TRL's configuration. A preset
is what a paper states, and METHOD's default where it is silent; a `--set` stands over it. May import: the ground.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import yaml
from pydantic import Field, ValidationError

from ser_toolkit.errors import UsageError
from ser_toolkit.plain import plain_error
from ser_toolkit.recipe import Endpoint, Llm
from ser_toolkit.recipe_section import Section
from ser_toolkit.rewards.composition import RewardRecipe

PresetName = Literal["peer", "perm"]


class Tuning(Section):
    """What of a model is trained, and what it is given."""

    tune: Literal["lora", "full"] = Field(default="lora", description="adapters, or all but the vision tower")
    lora_r: int = Field(default=16, ge=1, description="PEER's")
    lora_alpha: int = Field(default=64, ge=1, description="PEER's")
    freeze_vision: bool = Field(default=True, description="the vision tower stays as it is (PEER's)")
    dtype: Literal["float32", "bfloat16", "float16"] | None = Field(default=None, description="unset: by the device")
    chat_template: str | None = Field(default=None, description="a Jinja file, for a model without a template")
    max_rows: int | None = Field(default=None, ge=1, description="rows of the release, drawn by seed; unset: all")


class SftSettings(Tuning):
    """The keys of `ser train-sft`."""

    max_tokens: int = Field(default=4096, ge=16, description="prompt and completion; the history's front goes first")


class WatchSettings(Section):
    """When a run is stopped."""

    max_clipped: float = Field(default=0.5, ge=0, le=1, description="the share of cut completions that is too much")
    patience: int = Field(default=20, ge=1, description="generation steps in a row")


class SimulateSettings(Section):
    """Talks of many turns with a simulated seeker, whose last feeling the component `emotion` rewards (RLVER)."""

    seeker: Llm = Field(default=Llm(), description="the model that plays the seeker")
    profiles: str | None = Field(
        default=None, description="FORMAT:PATH of scenarios whose openings are answered; unset: the release's prompts"
    )
    rounds: int = Field(default=8, ge=1, description="the policy's answers at most")
    start_feeling: int = Field(default=30, ge=0, le=100, description="where the seeker begins (RLVER)")
    max_tokens: int = Field(default=8192, ge=64, description="of a whole talk; max_completion_length is of one answer")


class RlSettings(Tuning):
    """The keys of `ser train-rl`."""

    reward: RewardRecipe = RewardRecipe()
    options: dict[str, dict[str, Any]] = Field(default_factory=dict, description="component -> its own options")
    judge: Llm = Field(default=Llm(), description="the chat model behind served components")
    embed: str = Field(default="local", description="local, local:MODEL or openai:MODEL, for redundancy")
    embed_server: Endpoint = Field(default=Endpoint(), description="where openai:MODEL is served")
    simulate: SimulateSettings | None = Field(default=None, description="talks of many turns; unset: one answer")
    std_floor: float = Field(default=0.01, ge=0, description="least deviation of a group's rewards, in points")
    watch: WatchSettings = WatchSettings()
    max_prompt_tokens: int = Field(default=3072, ge=16, description="a longer history loses its front")
    share_prefix: bool = Field(default=False, description="compute each prompt once for all of its completions")


@dataclass(frozen=True, slots=True)
class Preset:
    """`own` in the shape of RlSettings, `trl` fields of GRPOConfig."""

    own: Mapping[str, Any]
    trl: Mapping[str, Any] = field(default_factory=dict)


_COMMON = {
    "learning_rate": 1e-6,
    "num_train_epochs": 1,
    "loss_type": "grpo",
    "scale_rewards": "group",
    "max_completion_length": 1024,
    "temperature": 1.0,
}
PRESETS: dict[PresetName, Preset] = {
    # PEER, arXiv 2508.09521, section 4: G 4, batch 24 completions, vision tower frozen; beta is not stated.
    "peer": Preset(
        {"reward": {"components": {"unified": 1.0}, "redundancy": {"kind": "peer"}}, "tune": "full"},
        {
            **_COMMON,
            "num_generations": 4,
            "per_device_train_batch_size": 4,
            "gradient_accumulation_steps": 6,
            "beta": 0.0,
        },
    ),
    # PERM, arXiv 2601.10532: G 8, beta 0.01, 3,000 prompts, one epoch, judge at 0.3; the batch is not stated.
    "perm": Preset(
        {
            "reward": {"components": {"perm": 1.0}, "length": {"penalty": 0.001, "free": 768}},
            "options": {"perm": {"length": False}},
            "tune": "full",
            "max_rows": 3000,
        },
        {
            **_COMMON,
            "num_generations": 8,
            "per_device_train_batch_size": 8,
            "gradient_accumulation_steps": 4,
            "beta": 0.01,
        },
    ),
}

Own = TypeVar("Own", bound=Section)


def split_sets(
    sets: Iterable[str], own_type: type[Own], preset: Mapping[str, Any] | None = None
) -> tuple[Own, list[str]]:
    """Our settings over a preset's, and the `--set`s that are not ours (TRL's). Raises UsageError that names one."""
    tree: dict[str, Any] = _copied(preset or {})
    theirs: list[str] = []
    for item in sets:
        key, eq, text = item.partition("=")
        head, *rest = key.strip().split(".")
        if not eq or head not in own_type.model_fields:
            theirs.append(item)
            continue
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as exc:
            raise UsageError(f"--set {item}: the value is not YAML", "quote it: --set 'key=\"value\"'") from exc
        place = tree
        for part in [head, *rest][:-1]:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                raise UsageError(f"--set {item}: {part!r} is not a section")
        place[[head, *rest][-1]] = value
    try:
        return own_type.model_validate(tree), theirs
    except ValidationError as exc:
        error = exc.errors()[0]
        key = ".".join(str(p) for p in error["loc"])
        raise UsageError(
            f"--set {key}: {plain_error(error)}", f"got {error['input']!r}; docs/policy.md lists the keys"
        ) from exc


def _copied(tree: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _copied(v) if isinstance(v, Mapping) else v for k, v in tree.items()}
