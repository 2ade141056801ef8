"""What every route must do; run here on a route that carries items as files, and on each that is given to it.

A route's own tests call `check_route` with a way to answer on its server.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from annotation.items import Response, View
from annotation.ledger import Ledger
from annotation.routes import Pulled, Pushed, Route, RouteOptions, RouteStatus, Started, open_route, route_names
from ser_toolkit.engine import failure_of
from ser_toolkit.errors import AnnotationError, RecordError, UsageError
from tests.unit.annotation.answering import a_round, at_random

Answer = Callable[[View, Response], None]


class FileRoute:
    """Views as files of a folder, a folder a person; an answer is a file beside its view."""

    name = "files"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fail_after: int | None = None

    def start(self, ledger: Ledger) -> Started:
        self.folder.mkdir(exist_ok=True)
        return Started(url=self.folder.as_uri())

    def push(self, ledger: Ledger) -> Pushed:
        ledger.deal(self.name)
        new = known = 0
        people = set()
        for task in ledger.tasks(self.name):
            people.add(task.annotator)
            file = self.folder / f"{task.view.id}.view"
            known += file.exists()
            if not file.exists():
                if self.fail_after == new:
                    raise AnnotationError("the folder went away", "push again")
                file.write_text(task.view.model_dump_json())
                new += 1
        return Pushed(new=new, known=known, annotators=tuple(sorted(people)))

    def pull(self, ledger: Ledger) -> Pulled:
        counts, failures = {"new": 0, "changed": 0, "same": 0}, []
        for file in sorted(self.folder.glob("*.answer")):
            try:
                try:
                    response = Response.model_validate_json(file.read_bytes())
                except ValueError as exc:
                    raise RecordError("malformed", f"{file.name}: no answer", text=file.read_text()) from exc
                counts[ledger.accept(response, route=self.name).outcome] += 1
            except RecordError as exc:
                failures.append(failure_of(exc, "pull", file.stem))
        return Pulled(**counts, failures=tuple(failures))

    def status(self, ledger: Ledger) -> RouteStatus:
        views, done = len(list(self.folder.glob("*.view"))), len(list(self.folder.glob("*.answer")))
        return RouteStatus(url=self.folder.as_uri(), is_reachable=self.folder.exists(), views=views, submitted=done)

    def answer(self, view: View, response: Response) -> None:
        (self.folder / f"{view.id}.answer").write_text(response.model_dump_json())


def check_route(route: Route, answer: Answer, ledger: Ledger) -> None:
    """Push, answer, pull, all twice; a round moved away and the labels the same."""
    assert isinstance(route, Route)
    route.start(ledger)
    wanted = len(ledger.state.items) * ledger.state.settings.overlap
    assert route.push(ledger).new == wanted
    again = route.push(ledger)
    assert (again.new, again.known) == (0, wanted), "pushed twice is pushed once"
    said = {}
    for task in ledger.tasks(route.name):
        response = at_random(task, random.Random(task.view.id))
        said[task.item_id, task.annotator] = response
        answer(task.view, response)
    assert route.status(ledger).submitted == wanted
    assert route.pull(ledger).new == wanted
    pulled = route.pull(ledger)
    assert (pulled.new, pulled.changed, pulled.same) == (0, 0, wanted), "pulled twice is pulled once"
    for (item, who), response in said.items():
        kept = ledger.state.answers[item][who, 0]
        assert (kept.steps, kept.verdict, kept.route) == (response.steps, response.verdict, route.name)
    thirds = route.push(ledger)
    assert thirds.new == sum(1 for _ in ledger.state.wanting("person")), "a third only where the two disagree"


def test_a_route_of_files_keeps_the_contract(tmp_path):
    route = FileRoute(tmp_path / "files")
    with a_round(tmp_path, 8) as ledger:
        check_route(route, route.answer, ledger)


def test_an_interrupted_push_goes_on_and_a_round_moves(tmp_path):
    route, other = FileRoute(tmp_path / "files"), FileRoute(tmp_path / "others")
    other.name = "others"
    with a_round(tmp_path, 6) as ledger:
        route.start(ledger), other.start(ledger)
        route.fail_after = 5
        with pytest.raises(AnnotationError) as caught:
            route.push(ledger)
        assert caught.value.exit_code == 5
        route.fail_after = None
        assert route.push(ledger).new == 7
        for task in ledger.tasks("files")[:3]:
            route.answer(task.view, at_random(task, random.Random(1)))
        late = ledger.tasks("files")[3]
        assert route.pull(ledger).new == 3
        assert other.push(ledger).new == 0, "what one route has given out, another does not"
        ledger.release("files")
        assert other.push(ledger).new == 9
        for task in ledger.tasks("others"):
            other.answer(task.view, at_random(task, random.Random(2)))
        assert other.pull(ledger).new == 9
        route.answer(late.view, at_random(late, random.Random(3)))
        kept = {a.route for table in ledger.state.answers.values() for a in table.values()}
        assert kept == {"files", "others"}
        assert sum(len(ledger.state.votes(i, ("person",))) for i in ledger.state.items) == 12


def test_what_was_edited_by_hand_is_a_failure_not_an_answer(tmp_path):
    route = FileRoute(tmp_path / "files")
    with a_round(tmp_path, 3) as ledger:
        route.start(ledger)
        route.push(ledger)
        task = ledger.tasks("files")[0]
        route.answer(task.view, at_random(task, random.Random(1)))
        for name, body in {"a": "{}", "b": "no json", "c": json.dumps({"view_id": "v1", "skip": "other"})}.items():
            (route.folder / f"{name}.answer").write_text(body)
        pulled = route.pull(ledger)
        assert (pulled.new, [f.record_id for f in pulled.failures]) == (1, ["a", "b", "c"])
        assert {f.kind for f in pulled.failures} == {"malformed"}


def test_an_unknown_route_is_told():
    with pytest.raises(UsageError) as caught:
        open_route("carrier-pigeon", RouteOptions(workspace=Path()))
    assert all(name in caught.value.hint for name in route_names())
