"""What all commands share: their options, and how a result or an error reaches a person or a machine.

A result goes to stdout. An error goes to stderr in words; under `--json` it stands on stdout too, as
{"error": {"message", "hint", "code"}}, since that is where a machine reads. Text that came from a file, a model or a
server is shown with `visible`, whatever it holds.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

WorkspaceDir = Annotated[Path, typer.Option("-w", "--workspace", help="The workspace.", show_default="here")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a key of the recipe, e.g. llm.temperature=0.3. Repeatable."),
]
HERE = Path()


class Result(Protocol):
    """What a command comes to."""

    def to_json(self) -> Any: ...
    def render(self) -> str: ...


def give(result: Result, as_json: bool) -> None:
    """A command's result, for a person or a machine."""
    if as_json:
        print_json(result.to_json())
    else:
        print_text(result.render())


def print_text(text: str) -> None:
    """A result for people, on stdout."""
    from ser_toolkit.visible import visible

    typer.echo(visible(text))


def print_json(value: Any) -> None:
    """A result for machines, on stdout."""
    from ser_toolkit.visible import visible_json

    sys.stdout.write(visible_json(json.dumps(value, ensure_ascii=False, indent=2, default=str)) + "\n")


def tell_error(message: str, hint: str, code: int, *, as_json: bool, kind: str = "error") -> int:
    """What went wrong, on stderr, under `--json` on stdout too; returns the exit code."""
    from ser_toolkit.visible import visible

    print(visible(f"{kind}: {message}" if kind else message), file=sys.stderr)
    if hint:
        print(visible(f"  {hint}"), file=sys.stderr)
    if as_json:
        print_json({"error": {"message": message, "hint": hint, "code": code}})
    return code
