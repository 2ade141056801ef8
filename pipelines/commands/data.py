"""`ser sources`, `ser show`, `ser withdraw`: looking at records, and taking one out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import HERE, AsJson, Sets, WorkspaceDir, give, print_json, print_text

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
        print_text(render_formats())


@sources.command("check")
def check(
    format: Annotated[
        str | None, typer.Argument(metavar="FORMAT", help="A name from `ser sources`; without: the recipe's sources.")
    ] = None,
    path: Annotated[Path | None, typer.Argument(metavar="PATH", help="A file or a folder.")] = None,
    workspace: WorkspaceDir = HERE,
    role: Annotated[
        list[str] | None,
        typer.Option("--role", metavar="LABEL=ROLE", help="Who a speaker label is: seeker or supporter. Repeatable."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="OUR=THEIRS", help="Column mapping of a generic format. Repeatable."),
    ] = None,
    encoding: Annotated[str | None, typer.Option("--encoding", help="The file's encoding, if not UTF-8.")] = None,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Read sources and report what is understood.

    All of PATH, or every source that the recipe names: counts, label coverage, what was not understood, the first
    failures.
    """
    from ser_toolkit.workspace import Workspace

    from ..sources.check import check_source, render_report
    from .parsing import source_specs

    home = Workspace(workspace)
    specs = source_specs(home, format, path, role or (), column or (), encoding, sets or ())
    reports = [check_source(spec, home.maps) for spec in specs]
    if as_json:
        found = [report.model_dump() for report in reports]
        print_json(found if format is None else found[0])
    else:
        print_text("\n\n".join(render_report(report) for report in reports))
    if any(report.failures and not report.dialogues + report.scenarios for report in reports):
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
        print_text(render(found))


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
    give(result, as_json)
