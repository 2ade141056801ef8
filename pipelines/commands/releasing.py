"""`ser export`, `ser diff`, `ser push`, `ser convert`: releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import HERE, AsJson, Sets, WorkspaceDir, give

Rel = Annotated[str, typer.Argument(metavar="REL", help="A release's folder.")]


def register(app: typer.Typer) -> None:
    app.command("export")(export)
    app.command("diff")(diff)
    app.command("push")(push)
    app.command("convert")(convert)


def export(
    workspace: WorkspaceDir = HERE,
    version: Annotated[
        str | None, typer.Option("--version", metavar="X.Y.Z", help="Default: the next patch number.")
    ] = None,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Make a release from tables and labels.

    No model is called. Of --set, the keys under annotate count (annotate.sources=[llm]). Without --version the next
    patch number, or the existing release where nothing changed.
    """
    from ser_toolkit.workspace import Workspace

    from ..exporting import export as run_export

    result = run_export(Workspace(workspace), version, sets or ())
    give(result, as_json)


def diff(rel_a: Rel, rel_b: Rel, as_json: AsJson = False) -> None:
    """What changed from one release to another.

    Rows added, removed and changed in each config, and differences of the lineage.
    """
    from ser_toolkit.releases.diff import diff_releases

    result = diff_releases(Path(rel_a), Path(rel_b))
    give(result, as_json)


def push(
    rel: Rel,
    repo_id: Annotated[str, typer.Argument(metavar="REPO_ID", help="owner/name on the Hugging Face Hub.")],
    public: Annotated[bool, typer.Option("--public", help="Make the repository public. Default: private.")] = False,
    allow_noncommercial: Annotated[
        bool,
        typer.Option("--allow-noncommercial", help="Publish rows whose licence is non-commercial or unknown."),
    ] = False,
    tag: Annotated[str | None, typer.Option("--tag", help="Default: the release's version.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would go; no network.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put a release on the Hugging Face Hub.

    Private unless told otherwise; tagged with its version. The token comes from HF_TOKEN.
    """
    from ser_toolkit.hub import push_release

    result = push_release(
        Path(rel), repo_id, public=public, allow_noncommercial=allow_noncommercial, tag=tag, dry_run=dry_run
    )
    give(result, as_json)


def convert(
    rel: Annotated[str, typer.Argument(metavar="REL", help="A release's folder, or its id on the Hub.")],
    to: Annotated[
        str,
        typer.Option("--to", metavar="NAME", help="verl, openrlhf, llama-factory, ms-swift or verifiers."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="A folder that is not there yet, or an empty one.")],
    max_changed: Annotated[
        float,
        typer.Option(
            "--max-changed",
            metavar="SHARE",
            help="Where NAME demands user and assistant in turn: the share of rows that may be changed for it.",
        ),
    ] = 0.05,
    as_json: AsJson = False,
) -> None:
    """Write a release in the files that another trainer reads.

    SFT from traces, pairs from preferences, prompts for RL, with ids, splits, licences and the release's version.
    interchange.json in DIR tells what was merged, dropped and not converted, README.md how to use the files.
    """
    from ser_toolkit.releases.interchange import convert as run_convert

    result = run_convert(rel, to, out, max_changed)
    give(result, as_json)
