"""The route `argilla`: items to an Argilla, our own or one that runs already, and answers back."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from annotation.blinding import blind
from annotation.items import View
from annotation.ledger import Ledger
from annotation.routes import Pulled, Pushed, RouteOptions, RouteStatus, Started
from ser_toolkit.engine import failure_of
from ser_toolkit.errors import AnnotationError, RecordError, UsageError
from ser_toolkit.schema import Failure, Lang

from . import form, server
from .accounts import AccountsFile
from .answers import response
from .client import connect, must_have_sdk
from .desk import PROGRESS, Desk, Held, Shelf

if TYPE_CHECKING:
    from argilla import Argilla

NAME = "argilla"
START = "`ser annotate start --to argilla` starts one here; --url names one that runs already"


def open_route(options: RouteOptions) -> ArgillaRoute:
    """The route. Raises UsageError without the extra, or for a server without the variable that holds its key."""
    must_have_sdk()
    if (options.url is None) != (options.token_env is None):
        raise UsageError("--url and --token-env belong together", "an Argilla's address, and where its owner's key is")
    if options.token_env is not None and not os.environ.get(options.token_env):
        raise UsageError(f"--token-env {options.token_env}: no such variable is set", "export it with the owner's key")
    return ArgillaRoute(options)


class ArgillaRoute:
    """See `annotation.routes.Route`."""

    name = NAME

    def __init__(self, options: RouteOptions) -> None:
        self._options = options
        self._server = server.process(options.workspace)
        self._accounts = AccountsFile(self._server.folder, options.url)
        self._media = options.workspace / "media"
        self._guidelines = options.workspace / "guidelines"
        self.url = (options.url or "").rstrip("/")

    def start(self, ledger: Ledger) -> Started:
        """Our own server, up, or the one that was named; with an account and a workspace for each person."""
        pid = None if self._options.url else server.start(self._options.workspace).pid
        client = self._connect()
        for who in _people(ledger):
            Desk(client, self.url, ledger.state.key, who).open(self._accounts)
        return Started(
            url=self.url,
            links=dict.fromkeys(_people(ledger), self.url),
            pid=pid,
            note=f"names and passwords: {self._accounts.path} (nobody else may read it); answers come home with "
            "`ser annotate pull --to argilla`" + ("" if pid is None else ", and `ser annotate stop` ends the server"),
        )

    def push(self, ledger: Ledger) -> Pushed:
        """Give out what is due, and see that the server holds every open view as it is, and none that was withdrawn."""
        client = self._connect()
        ledger.deal(NAME)
        views: dict[str, dict[str, View]] = {who: {} for who in _people(ledger)}
        for task in ledger.tasks(NAME):
            views[task.annotator][task.view.id] = task.view
        new = 0
        for who, own in views.items():
            desk = Desk(client, self.url, ledger.state.key, who)
            if own:
                desk.open(self._accounts)
            for has_pair in (True, False):
                wanted = {v.id: v for v in own.values() if (v.replies is not None) == has_pair}
                if wanted or has_pair in desk.shelves():
                    shelf = desk.shelf(has_pair, self._options.lang, self._guidelines)
                    new += self._carry(ledger, shelf, wanted)
        busy = tuple(sorted(who for who, own in views.items() if own))
        return Pushed(new=new, known=sum(map(len, views.values())) - new, annotators=busy)

    def pull(self, ledger: Ledger) -> Pulled:
        """Every submitted or discarded answer into the ledger; what was edited or deleted by hand is a failure."""
        client = self._connect()
        counts: Counter[str] = Counter()
        failures: list[Failure] = []
        missing = {task.view.id: task.annotator for task in ledger.tasks(NAME)}
        for who in _people(ledger):
            desk = Desk(client, self.url, ledger.state.key, who)
            user = desk.user()
            for shelf in desk.shelves().values():
                for held in shelf.records():
                    missing.pop(held.view, None)
                    try:
                        answers = list(self._answers(ledger, who, shelf.lang, held))
                    except RecordError as exc:
                        failures.append(failure_of(exc, "pull", held.view))
                        continue
                    for author, status, values in answers:
                        try:
                            if user is None or author != user.id:
                                raise RecordError(
                                    "malformed", f"{held.view}: answered by an account that is not {who}'s"
                                )
                            accepted = ledger.accept(response(held.view, status, values), route=NAME)
                        except RecordError as exc:
                            failures.append(failure_of(exc, "pull", held.view))
                            continue
                        counts[accepted.outcome] += 1
                        if accepted.outcome != "same":
                            counts["skipped"] += accepted.answer.skip is not None
                            counts["surplus"] += accepted.answer.is_surplus
        for view, who in missing.items():
            reason = f"{view}: not among {who}'s records (deleted there, or never carried): push again"
            failures.append(failure_of(RecordError("unreadable", reason), "pull", view))
        return Pulled(**counts, failures=tuple(failures))

    def status(self, ledger: Ledger) -> RouteStatus:
        """How each person stands."""
        try:
            client = self._connect()
            people = {}
            for who in _people(ledger):
                shelves = Desk(client, self.url, ledger.state.key, who).shelves().values()
                parts = [shelf.progress(who) for shelf in shelves]
                people[who] = {name: sum(part[name] for part in parts) for name in PROGRESS}
        except AnnotationError as exc:
            return RouteStatus(url=self.url, is_reachable=False, note=f"{exc.message}; {exc.hint}".strip("; "))
        total = {name: sum(own[name] for own in people.values()) for name in PROGRESS}
        return RouteStatus(
            url=self.url,
            is_reachable=True,
            views=total["views"],
            submitted=total["submitted"],
            drafts=total["drafts"],
            by_annotator=people,
        )

    def _connect(self) -> Argilla:
        if self._options.url is not None:
            return connect(self.url, os.environ[self._options.token_env or ""])
        running = self._server.running()
        if running is None:
            raise AnnotationError(f"no Argilla runs for {self._options.workspace}", START)
        self.url = running.url
        return connect(self.url, self._accounts.owner().owner_key or "")

    def _carry(self, ledger: Ledger, shelf: Shelf, wanted: dict[str, View]) -> int:
        """Bring one dataset in line with the ledger: what lacks is added, what was edited is put back as it was (to be
        answered anew), what was withdrawn or taken back goes. How many were added because they lacked.
        """
        there, stale, edited = set(), [], []
        for held in shelf.records():
            view = wanted.get(held.view)
            if view is not None and held.fields == self._fields(view, shelf.lang):
                there.add(held.view)
            elif view is not None:
                edited.append(held)
            elif not self._may_stay(ledger, held):
                stale.append(held)
        shelf.delete([*stale, *edited])
        if edited:
            print(f"{len(edited)} records were edited on the server: put back, to be answered anew", file=sys.stderr)
        lacking = [v for v in wanted.values() if v.id not in there]
        shelf.put((view.id, self._fields(view, shelf.lang)) for view in lacking)
        return len(lacking) - len(edited)

    def _may_stay(self, ledger: Ledger, held: Held) -> bool:
        """Whether a record that is not open may stay: it is answered, here or there, and its item not withdrawn."""
        showing = ledger.state.views.get(held.view)
        return showing is not None and (bool(held.said) or ledger.state.answer_to(showing) is not None)

    def _answers(self, ledger: Ledger, who: str, lang: Lang, held: Held) -> Iterator[tuple]:
        """What was submitted or discarded. Raises RecordError for a record that is not as it was carried."""
        answers = [said for said in held.said if said[1] in ("submitted", "discarded")]
        showing = ledger.state.views.get(held.view)
        if showing is None or showing.annotator != who:
            if answers:
                raise RecordError("malformed", f"{held.view}: answered, and no view that was given to {who}")
            return
        view = blind(ledger.item(showing.item_id), ledger.state.key, who, showing.repeat)
        if held.fields != self._fields(view, lang):
            raise RecordError(
                "malformed", f"{held.view}: edited on the server, its answers are of another text: push again"
            )
        yield from answers

    def _fields(self, view: View, lang: Lang) -> dict:
        return form.fields(view, lang, self._media)


def _people(ledger: Ledger) -> list[str]:
    return [who for who, source in ledger.state.annotators.items() if source == "person"]
