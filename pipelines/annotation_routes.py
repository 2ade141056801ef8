"""`ser annotate start|push|pull --to ROUTE`: the round's items to a server and back, whichever route carries them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from annotation.ledger import Ledger
from annotation.routes import Route, RouteOptions, open_route
from ser_toolkit.errors import UsageError
from ser_toolkit.recipe import load_recipe
from ser_toolkit.workspace import Workspace

from .annotating import known_round, open_round


def start(workspace: Path, to: str, annotators: Sequence[str], sets: Iterable[str]) -> dict[str, Any]:
    """Start the route's own server and push the round into it."""
    with _round(workspace, annotators, sets) as ledger:
        route = _route(workspace, to, None, None)
        started = route.start(ledger)
        return {**started.model_dump(mode="json"), "pushed": route.push(ledger).model_dump(mode="json")}


def push(
    workspace: Path, to: str, annotators: Sequence[str], url: str | None, token_env: str | None, sets: Iterable[str]
) -> dict[str, Any]:
    """Carry every task that is due."""
    with _round(workspace, annotators, sets) as ledger:
        return _route(workspace, to, url, token_env).push(ledger).model_dump(mode="json")


def pull(workspace: Path, to: str, url: str | None, token_env: str | None, sets: Iterable[str]) -> dict[str, Any]:
    """Bring every submitted answer into the ledger."""
    load_recipe(workspace, sets)
    with known_round(Workspace(workspace)) as ledger:
        return _route(workspace, to, url, token_env).pull(ledger).model_dump(mode="json")


def _round(workspace: Path, annotators: Sequence[str], sets: Iterable[str]) -> Ledger:
    home = Workspace(workspace).must_exist()
    ledger = open_round(home, load_recipe(home.root, sets), annotators)
    try:
        ledger.state.must_have_people()
    except UsageError:
        ledger.close()
        raise
    return ledger


def _route(workspace: Path, to: str, url: str | None, token_env: str | None) -> Route:
    return open_route(to, RouteOptions(workspace=workspace, url=url, token_env=token_env))
