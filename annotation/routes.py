"""Routes: ways to carry items to annotators and answers back. All truth is in the ledger; a route only carries.

So a round can move between routes: what was pushed to one and not answered is taken back (`Ledger.release`) and given
out by another. A route is a factory `open_route(options: RouteOptions) -> Route`, declared as an entry point of the
group `ser_toolkit.routes`, ours in pyproject.toml like anyone's:

    [project.entry-points."ser_toolkit.routes"]
    argilla = "annotation.argilla.route:open_route"

What a route does with the ledger (`annotation/ledger.py`):

    push    for task in ledger.deal(name): carry task.view to task.annotator     what is due and not yet given out
            for task in ledger.tasks(name): make sure that it is there            an interrupted push is resumed
    pull    ledger.accept(response, route=name)                                   a RecordError is a Failure

`task.view` is all that may leave the house: it is blinded for `task.annotator`, and `view.id` is the name under which
it travels and comes back. Where a server shows one record to several people, give each person a record (and, where
people see each other's work, a project) of their own. Answers that an annotator edits later are accepted again: the
last one holds, the log keeps all. What was edited or deleted by hand on the server is checked on pull, never believed.

A route raises AnnotationError (exit code 5) for a server that refuses, is gone, or lies; every call may be made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pydantic import Field, JsonValue

from ser_toolkit import registry
from ser_toolkit.schema import Failure, Lang, Record

if TYPE_CHECKING:
    from .ledger import Ledger

KIND = "routes"


class RouteOptions(Record):
    """What a route is opened with. `token_env` names the environment variable that holds the server's key; `url` is
    `None` for a server that the route starts itself; `settings` are the route's own keys.
    """

    workspace: Path
    url: str | None = None
    token_env: str | None = None
    lang: Lang = "en"
    settings: Mapping[str, JsonValue] = Field(default_factory=dict)


class Started(Record):
    """A server of ours that runs now. `links` is annotator -> address; `pid` its process; `note` what to do next."""

    url: str
    links: Mapping[str, str] = Field(default_factory=dict)
    pid: int | None = None
    note: str = ""


class Pushed(Record):
    """What a push came to: `new` views carried now, `known` that were there already."""

    new: int = 0
    known: int = 0
    annotators: tuple[str, ...] = ()


class Pulled(Record):
    """What a pull came to. `skipped` and `surplus` are among the `new` and `changed`; `failures` are answers that could
    not be used, each with its reason.
    """

    new: int = 0
    changed: int = 0
    same: int = 0
    skipped: int = 0
    surplus: int = 0
    failures: tuple[Failure, ...] = ()


class RouteStatus(Record):
    """How the other side stands: `views` it holds, `submitted` of them, `drafts`; `by_annotator` has each."""

    url: str
    is_reachable: bool
    views: int = 0
    submitted: int = 0
    drafts: int = 0
    by_annotator: Mapping[str, Mapping[str, int]] = Field(default_factory=dict)
    note: str = ""


@runtime_checkable
class Route(Protocol):
    """A way to annotators. Each method may be called again after any failure, and does nothing twice."""

    name: str

    def start(self, ledger: Ledger) -> Started:
        """Bring up a server of ours, or say where the running one is. Raises AnnotationError."""
        ...

    def push(self, ledger: Ledger) -> Pushed:
        """Carry every task of this route that the server does not hold yet. Raises AnnotationError."""
        ...

    def pull(self, ledger: Ledger) -> Pulled:
        """Bring every submitted answer into the ledger. Raises AnnotationError."""
        ...

    def status(self, ledger: Ledger) -> RouteStatus:
        """How the server stands; an unreachable one is a status, not an exception."""
        ...


def open_route(name: str, options: RouteOptions) -> Route:
    """The route of this name. Raises UsageError for an unknown one (the hint lists the known)."""
    return registry.load(KIND, name)(options)


def route_names() -> list[str]:
    """The routes that are installed."""
    return registry.names(KIND)
