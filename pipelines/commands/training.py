"""`ser train-rm`: training of judges."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from .common import AsJson, give

Release = Annotated[
    str, typer.Option("--release", metavar="REL|REPO", help="A release's folder, or its id on the Hub.")
]
Model = Annotated[
    str, typer.Option("--model", metavar="M", help="A model's folder, its id on the Hub, or `embedded` (SmolLM2).")
]
Out = Annotated[Path, typer.Option("--out", metavar="RUN", help="The run's folder; its result is RUN/model.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run that stands in RUN.")]
TrainSets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting, e.g. learning_rate=1e-4 or lora_r=8. Repeatable."),
]


def register(app: typer.Typer) -> None:
    app.command("train-rm")(train_rm)


def train_rm(
    release: Release,
    model: Model,
    out: Out,
    kind: Annotated[
        Literal["unified", "prm", "orm"],
        typer.Option("--kind", help="Four rounds; or a baseline: steps alone in one turn, replies alone in one turn."),
    ] = "unified",
    text_only: Annotated[bool, typer.Option("--text-only", help="Show a vision-language model no pictures.")] = False,
    resume: Resume = False,
    sets: TrainSets = None,
    as_json: AsJson = False,
) -> None:
    """Train a judge (UnifiReward) on the labels of a release.

    With LoRA as in the paper, or whole (--set lora=false). Several GPUs: accelerate launch -m pipelines train-rm ...
    Keys of --set: those of docs/training.md, and all fields of transformers' TrainingArguments.
    """
    from rm_training.train import train_rm as train

    result = train(release, model, out, kind=kind, text_only=text_only, resume=resume, sets=sets or ())
    if result.is_main:
        give(result, as_json)
