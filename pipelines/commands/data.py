"""`ser sources`, `ser show`, `ser withdraw`: looking at records, and taking one out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import HERE, AsJson, WorkspaceDir, print_json

sources = typer.Typer(help="The formats that build reads.", invoke_without_command=True)


def register(app: typer.Typer) -> None:
    app.add_typer(sources, name="sources")
    app.command("show")(show)
    app.command("withdraw")(withdraw)


@sources.callback()
def list_sources(context: typer.Context, as_json: AsJson = False) -> None:
    """The formats that `ser build` reads. `ser sources check FORMAT PATH` looks at a file."""
    if context.invoked_subcommand is not None:
        return
    from ..sources.table import formats, render_formats

    if as_json:
        print_json(formats())
    else:
        typer.echo(render_formats())


@sources.command("check")
def check(
    format: Annotated[str, typer.Argument(metavar="FORMAT", help="A name from `ser sources`.")],
    path: Annotated[Path, typer.Argument(help="A file or a folder.")],
    workspace: WorkspaceDir = HERE,
    encoding: Annotated[str | None, typer.Option("--encoding", help="The file's encoding, if not UTF-8.")] = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="FIELD=COLUMN", help="Column mapping of a generic format. Repeatable."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read all of PATH and report: counts, label coverage, what was not understood, the first failures."""
    from ser_toolkit.recipe import SourceSpec
    from ser_toolkit.workspace import Workspace

    from ..sources.base import ReadContext
    from ..sources.check import check_source, render_report
    from .parsing import pairs

    spec = SourceSpec(format=format, path=str(path), encoding=encoding, columns=pairs(column or [], "--column"))
    report = check_source(format, path, ReadContext(spec, Workspace(workspace).maps))
    if as_json:
        print_json(report.model_dump())
    else:
        typer.echo(render_report(report))
    if report.failures and not report.dialogues + report.scenarios:
        raise typer.Exit(3)  # nothing at all was understood


def show(
    id: Annotated[
        str,
        typer.Argument(metavar="ID", help="A dialogue, scenario, trace or failure; the start of an id will do."),
    ],
    workspace: WorkspaceDir = HERE,
    as_json: AsJson = False,
) -> None:
    """Show a record and what was made from it."""
    from ser_toolkit.workspace import Workspace

    from ..showing import find, render

    found = find(Workspace(workspace), id)
    if as_json:
        print_json([{"kind": type(r).__name__, **r.model_dump(mode="json")} for r in found])
    else:
        typer.echo(render(found))


def withdraw(
    id: Annotated[str, typer.Argument(metavar="ID", help="A dialogue or a scenario.")],
    workspace: WorkspaceDir = HERE,
    as_json: AsJson = False,
) -> None:
    """Take a dialogue out, and all made from it.

    It leaves the tables, the journal and every later release; no build takes it in again.
    """
    from ser_toolkit.workspace import Workspace

    from ..withdrawing import withdraw as run_withdraw

    result = run_withdraw(Workspace(workspace), id)
    if as_json:
        print_json(result.to_json())
    else:
        typer.echo(result.render())
