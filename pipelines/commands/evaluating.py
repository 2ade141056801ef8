"""`ser eval` and `ser report`: measures of data, and of models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .common import HERE, AsJson, Sets, WorkspaceDir, give
from .releasing import Rel

evals = typer.Typer(
    help="Measure a release, a reward model or a policy.", no_args_is_help=True, epilog="Each takes --json."
)

RelB = Annotated[str | None, typer.Argument(metavar="[REL_B]", help="A second release, to set beside it.")]
Sample = Annotated[
    int, typer.Option("--sample", min=2, help="Texts drawn for self-BLEU, sampled distinct-n and embeddings.")
]
Seed = Annotated[int, typer.Option("--seed", help="What the sample hangs on.")]
Embed = Annotated[
    str | None,
    typer.Option(
        "--embed",
        metavar="SPEC",
        help="Also measure by embeddings: openai:MODEL (at llm.base_url) or local:MODEL. The sample's texts go there.",
    ),
]


def register(app: typer.Typer) -> None:
    app.add_typer(evals, name="eval")
    app.command("report")(report)


@evals.callback()
def _evals() -> None:
    """A group, also as long as it holds one command."""


@evals.command("dataset")
def dataset(
    rel: Rel,
    rel_b: RelB = None,
    sample: Sample = 1000,
    seed: Seed = 0,
    embed: Embed = None,
    workspace: WorkspaceDir = HERE,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Measure a release, or two side by side.

    Size and labels, variety, stock phrases, copies, leaks, failures, rewriting, crisis content, licences. With --json
    all tables too. A measure that cannot be taken is null, with the reason.
    """
    from ..evaluating import evaluate

    embedder = _embedder(embed, workspace, sets)
    give(evaluate(_releases(rel, rel_b), embedder=embedder, sample=sample, seed=seed), as_json)


@evals.command("policy")
def policy(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A run's folder, or a SPEC: openai:MODEL, vllm:MODEL, embedded.")
    ],
    suite: Annotated[str, typer.Option("--suite", help="esc-eval, sage or eqbench3.")],
    data: Annotated[
        str,
        typer.Option("--data", metavar="PATH", help="The suite's file, or FORMAT:PATH for cards of another format."),
    ],
    seeker: Annotated[
        str | None, typer.Option("--seeker", metavar="SPEC", help="Who plays the seeker. Default: llm.model.")
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option("--judge", metavar="SPEC", help="Who scores; repeatable, averaged. Default: llm.model."),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Ask for a plain reply, not for the three steps and a reply.")
    ] = False,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="Replies at most; default: the suite's.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="The first so many items.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Default: a folder of evaluations/ in the workspace.")
    ] = None,
    retry_failures: Annotated[
        bool, typer.Option("--retry-failures", help="Ask the calls behind the last run's failures again.")
    ] = False,
    workspace: WorkspaceDir = HERE,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Put a model through a suite: it talks with a simulated seeker, and judges score the talks.

    The same command goes on where it was stopped. Transcripts and the report, with how each score was made, are kept.
    Where policy, seeker and judges stand at different addresses: evaluate.* in ser.yaml.
    """
    from ..evaluating_policy import evaluate_policy

    result = evaluate_policy(
        model,
        suite,
        data,
        workspace=workspace,
        seeker=seeker,
        judges=judge or (),
        style="plain" if plain else "ser",
        rounds=rounds,
        limit=limit,
        out=out,
        retry_failures=retry_failures,
        sets=sets or (),
    )
    give(result, as_json)


@evals.command("rm")
def rm(
    rel: Rel,
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="SPEC",
            help="A run of train-rm, a model's folder or Hub id (in process); or embedded, openai:MODEL, vllm:MODEL.",
        ),
    ],
    against: Annotated[
        str | None, typer.Option("--against", metavar="SPEC", help="A second judge, tested against the first, paired.")
    ] = None,
    split: Annotated[str, typer.Option("--split", help="test, validation, train or all.")] = "test",
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Items to judge, at most.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Default: in the workspace's evaluations/."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the resamples, and sent to a server.")] = 0,
    workspace: WorkspaceDir = HERE,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Measure a reward model, or any model as a judge, against a release's labels.

    Weighted F1 and recall of False per step, weighted F1 and accuracy of the reply, with 95 % intervals and with
    baselines beside; consistency, position bias, calibration. Writes figures, answers and a page into a folder; the
    same command goes on where a stopped one was.
    """
    from ..evaluating_rm import evaluate_judge

    give(
        evaluate_judge(
            rel, model, against=against, split=split, limit=limit, out=out, workspace=workspace, sets=sets or (),
            seed=seed, quiet=as_json,
        ),
        as_json,
    )  # fmt: skip


@evals.command("reward")
def reward(
    rel: Rel,
    name: Annotated[
        str, typer.Argument(metavar="REWARD", help="perm, unified, unified-local:RUN, or another that is installed.")
    ],
    model: Annotated[
        str | None, typer.Option("--model", metavar="SPEC", help="Who judges; default: the recipe's llm.model.")
    ] = None,
    completions: Annotated[
        Path | None,
        typer.Option("--completions", metavar="FILE", help="JSON Lines of {id of prompts/, completions}; else traces."),
    ] = None,
    split: Annotated[str, typer.Option("--split", help="test, validation, train or all.")] = "all",
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Traces or groups to score, at most.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="Of the reward: aggregation=mean.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Default: in evaluations/.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the judge's draws and of the resamples.")] = 0,
    workspace: WorkspaceDir = HERE,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Score a release's traces, or completions of your own, by a reward.

    perm: PERM's resonation, expression, reception and bystander; unified: UnifiReward. Means with 95 % intervals,
    missing scores counted; the scores of each go into a folder; the same command goes on where a stopped one was.
    """
    from ..evaluating_reward import evaluate_reward, read_options

    give(
        evaluate_reward(
            rel, name, model=model, completions=completions, split=split, limit=limit, out=out,
            options=read_options(option or ()), workspace=workspace, sets=sets or (), seed=seed, quiet=as_json,
        ),
        as_json,
    )  # fmt: skip


@evals.command("compare")
def compare(
    run_a: Annotated[Path, typer.Argument(metavar="RUN_A", help="A folder that `ser eval policy` wrote.")],
    run_b: Annotated[Path, typer.Argument(metavar="RUN_B", help="Another, of the same suite.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Also have people judge the pairs: their round stands there."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Two policies item by item: paired differences with intervals.

    With --out, each pair of talks becomes an item of `ser annotate serve -w DIR`, blinded; once people have judged, the
    same command tells what they say.
    """
    from ..comparing_policies import compare_policies

    give(compare_policies(run_a, run_b, out=out), as_json)


def report(
    rel: Rel,
    rel_b: RelB = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Default: NAME-VERSION-report.html, here.")
    ] = None,
    sample: Sample = 1000,
    seed: Seed = 0,
    embed: Embed = None,
    workspace: WorkspaceDir = HERE,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Write the measures of a release as an HTML page with plots.

    Of one release, or of two side by side. The page is one file: no script, nothing from outside, light and dark.
    """
    from ..reporting import report as run_report

    embedder = _embedder(embed, workspace, sets)
    give(run_report(_releases(rel, rel_b), out=out, embedder=embedder, sample=sample, seed=seed), as_json)


def _releases(rel: str, rel_b: str | None) -> list[str]:
    return [rel] if rel_b is None else [rel, rel_b]


def _embedder(spec: str | None, workspace: Path, sets: list[str] | None) -> Any:
    if spec is None:
        return None
    from ser_toolkit.recipe import load_recipe

    from ..embedding import open_embedder

    return open_embedder(spec, load_recipe(workspace, sets or ()).llm)
