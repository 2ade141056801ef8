"""Backends found by name: entry points of the groups `ser_toolkit.<kind>`.

Ours are declared in pyproject.toml like anyone's, so a lower floor never names an upper one. Kinds:
`sources`, `models`, `rewards`, `routes`, `targets` (other trainers' formats).
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from .errors import UsageError


def names(kind: str) -> list[str]:
    """The names known for `kind`, sorted."""
    return sorted({e.name for e in entry_points(group=f"ser_toolkit.{kind}")})


def load(kind: str, name: str) -> Any:
    """The object registered as `name`. Raises UsageError where there is none, or where it does not import."""
    found: list[EntryPoint] = [e for e in entry_points(group=f"ser_toolkit.{kind}") if e.name == name]
    if not found:
        raise UsageError(f"no {kind.removesuffix('s')} is called {name!r}", f"known: {', '.join(names(kind))}")
    try:
        return found[0].load()
    except ImportError as exc:
        raise UsageError(f"{name!r} cannot be loaded: {exc}", "`ser doctor` tells what is missing") from exc


def provider(kind: str, name: str) -> str:
    """The package, with its version, that brings `name`; "" where that cannot be told."""
    found = next((e.dist for e in entry_points(group=f"ser_toolkit.{kind}") if e.name == name), None)
    return f"{found.name} {found.version}" if found else ""
