"""`ser annotate start|stop|push|pull|status --to ROUTE`: the round's items to a server and back, by whichever route."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from annotation.ledger import Ledger
from annotation.routes import Route, RouteOptions, open_route, route_names
from annotation.server_process import ServerProcess
from ser_toolkit.errors import UsageError
from ser_toolkit.recipe import load_recipe
from ser_toolkit.schema import Lang
from ser_toolkit.workspace import Workspace

from .annotating import known_round, open_round


@dataclass(frozen=True, slots=True)
class Destination:
    """Which route, which server, and the language of what a new form says."""

    to: str
    url: str | None = None
    token_env: str | None = None
    lang: str = "en"

    def open(self, workspace: Path) -> Route:
        """The route. Raises UsageError."""
        if self.lang not in ("en", "zh"):
            raise UsageError(f"--lang {self.lang}: no form speaks it", "known: en, zh")
        options = RouteOptions(
            workspace=workspace, url=self.url, token_env=self.token_env, lang=cast(Lang, self.lang)
        )  # fmt: skip
        return open_route(self.to, options)


def start(workspace: Path, to: Destination, annotators: Sequence[str], sets: Iterable[str]) -> dict[str, Any]:
    """Start the route's own server and push the round into it."""
    with _round(workspace, annotators, sets) as ledger:
        route = to.open(workspace)
        started = route.start(ledger)
        return {**started.model_dump(mode="json"), "pushed": route.push(ledger).model_dump(mode="json")}


def stop(workspace: Path, to: str) -> dict[str, Any]:
    """End the route's own server; whether it ran. What people did there is kept in its folder."""
    if to not in route_names():
        raise UsageError(f"no route is called {to!r}", f"known: {', '.join(route_names())}")
    return {"stopped": ServerProcess(Workspace(workspace).must_exist().root, to).stop()}


def push(workspace: Path, to: Destination, annotators: Sequence[str], sets: Iterable[str]) -> dict[str, Any]:
    """Carry every task that is due."""
    with _round(workspace, annotators, sets) as ledger:
        return to.open(workspace).push(ledger).model_dump(mode="json")


def pull(workspace: Path, to: Destination, sets: Iterable[str], *, take_back: bool = False) -> dict[str, Any]:
    """Bring every submitted answer into the ledger. `take_back`: what is not answered is free for another route."""
    load_recipe(workspace, sets)
    with known_round(Workspace(workspace)) as ledger:
        pulled = to.open(workspace).pull(ledger).model_dump(mode="json")
        return {**pulled, "taken_back": ledger.release(to.to)} if take_back else pulled


def status(workspace: Path, to: Destination, sets: Iterable[str]) -> dict[str, Any]:
    """How the server stands."""
    load_recipe(workspace, sets)
    with known_round(Workspace(workspace)) as ledger:
        return to.open(workspace).status(ledger).model_dump(mode="json")


def _round(workspace: Path, annotators: Sequence[str], sets: Iterable[str]) -> Ledger:
    home = Workspace(workspace).must_exist()
    ledger = open_round(home, load_recipe(home.root, sets), annotators)
    try:
        ledger.state.must_have_people()
    except UsageError:
        ledger.close()
        raise
    return ledger
