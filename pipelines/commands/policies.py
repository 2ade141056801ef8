"""`ser train-sft`, `ser train-rl`: from a release to a policy."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .common import AsJson, give


class PresetChoice(StrEnum):
    """The papers whose reward and figures are the defaults."""

    peer = "peer"
    perm = "perm"


Rel = Annotated[str, typer.Option("--release", metavar="REL|REPO_ID", help="A release's folder, or its id on the Hub.")]
Model = Annotated[
    str, typer.Option("--model", metavar="M", help="A folder, a run of ours, an id on the Hub, or `embedded`.")
]
Out = Annotated[Path, typer.Option("--out", metavar="RUN", help="The run's folder; the model comes to RUN/model.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run that stands in --out.")]
TextOnly = Annotated[bool, typer.Option("--text-only", help="Give a vision-language model no photos.")]
TrainSets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A key of ours (docs/policy.md), or a field of TRL's, e.g. learning_rate=1e-6.",
    ),
]


def register(app: typer.Typer) -> None:
    app.command("train-sft")(train_sft)
    app.command("train-rl")(train_rl)


def train_sft(
    release: Rel,
    model: Model,
    out: Out,
    text_only: TextOnly = False,
    resume: Resume = False,
    sets: TrainSets = None,
    as_json: AsJson = False,
) -> None:
    """Teach a model the four-part answer, on a release's traces."""
    from ..policies import train_sft as run

    give(run(release, model, out, sets or (), text_only=text_only, resume=resume), as_json)


def train_rl(
    release: Rel,
    model: Model,
    out: Out,
    preset: Annotated[
        PresetChoice, typer.Option("--preset", help="The paper whose defaults count.")
    ] = PresetChoice.peer,
    text_only: TextOnly = False,
    resume: Resume = False,
    sets: TrainSets = None,
    as_json: AsJson = False,
) -> None:
    """Train a policy by GRPO on a release's prompts.

    peer: UnifiReward, reweighted by redundancy. perm: PERM's judges and length term. Name the judge, for example
    --set judge.model=openai:MODEL --set judge.base_url=http://localhost:8000/v1, or one of your own training:
    --set 'reward.components={"unified-local:runs/judge": 1}'.
    """
    from ..policies import train_rl as run

    result = run(release, model, out, sets or (), preset=preset.value, text_only=text_only, resume=resume)
    give(result, as_json)
