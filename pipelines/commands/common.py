"""What several commands share: the options of every command, and how results are printed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

WorkspaceDir = Annotated[Path, typer.Option("-w", "--workspace", help="The workspace.", show_default="here")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the recipe, e.g. llm.temperature=0.3. Repeatable."),
]
HERE = Path()


def print_json(value: Any) -> None:
    """A result for machines, on stdout."""
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2, default=str)
    sys.stdout.write("\n")
