"""`ser init` and `ser doctor`: a workspace to start from, and what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .common import HERE, AsJson, WorkspaceDir, give, print_json, print_text


def register(app: typer.Typer) -> None:
    app.command("init")(init)
    app.command("doctor")(doctor)


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make.")],
    as_json: AsJson = False,
) -> None:
    """Make a workspace: a folder with a commented ser.yaml."""
    from ..initializing import init as run_init

    file = run_init(folder)
    if as_json:
        print_json({"recipe": str(file)})
    else:
        print_text(f"{file}\nnext: read it, then  ser build -w {folder}")


def doctor(workspace: WorkspaceDir = HERE, as_json: AsJson = False) -> None:
    """Say what is missing, and what mends it."""
    from ..doctor import examine

    report = examine(workspace)
    give(report, as_json)
    raise typer.Exit(report.exit_code)
