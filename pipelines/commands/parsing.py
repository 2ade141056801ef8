"""Small readers of command-line values. Imported by the bodies of commands, not by their signatures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import ValidationError

from ser_toolkit.errors import UsageError
from ser_toolkit.plain import plain_error
from ser_toolkit.recipe import SourceSpec, load_recipe
from ser_toolkit.workspace import Workspace

from ..sources.specs import sources_of


def pairs(items: Iterable[str], option: str, example: str = "text=utterance") -> dict[str, str]:
    """["a=b"] -> {"a": "b"}. Raises UsageError."""
    out: dict[str, str] = {}
    for item in items:
        key, eq, value = item.partition("=")
        if not eq or not key or not value:
            raise UsageError(f"{option} {item}: not of the form KEY=VALUE", f"for example {option} {example}")
        out[key] = value
    return out


def source_specs(
    home: Workspace,
    format: str | None,
    path: Path | None,
    roles: Sequence[str],
    columns: Sequence[str],
    encoding: str | None,
    sets: Sequence[str],
) -> list[SourceSpec]:
    """The one source that a command line describes, or, where it names no format, those of the workspace's recipe."""
    if format is None:
        if roles or columns or encoding:
            raise UsageError(
                "--role, --column and --encoding describe FORMAT PATH, and none is named",
                "name it, or write roles, columns and encoding into the recipe's source",
            )
        recipe = load_recipe(home.root, sets)
        if not recipe.sources:
            raise UsageError(
                f"{home.root}: the recipe names no sources",
                "name FORMAT PATH, or a workspace with -w; `ser sources` lists the formats",
            )
        return sources_of(home, recipe)
    if path is None:
        raise UsageError(f"{format}: no PATH is named", "ser sources check FORMAT PATH")
    if sets:
        raise UsageError(
            "--set goes with the recipe's sources, and FORMAT PATH is none of them",
            "leave FORMAT PATH out, or use --role, --column, --encoding",
        )
    try:
        return [
            SourceSpec(
                format=format,
                path=str(path),
                roles=pairs(roles, "--role", "visitor=seeker"),  # pyright: ignore[reportArgumentType]  (validated)
                columns=pairs(columns, "--column"),
                encoding=encoding,
            )
        ]
    except ValidationError as exc:
        error = exc.errors()[0]
        raise UsageError(
            f"--role {error['loc'][-1]}={error['input']}: the role {plain_error(error)}", "for example visitor=seeker"
        ) from exc
