"""Three people label one release of real dialogues, over any route; the labels must come out the same.

What each says of an item hangs on the item and the person alone, in such a way that it never matters who is asked
first: of three votes on a part two agree, or all three differ; who skips an item always does. A route's test says:

    home = build_release(tmp_path / "w", shared_data)
    check_three(home, route, answer)        # `answer(view, response)` does on the server what a person would do

`check_three` labels a copy of the workspace through the built-in page first, and compares labels and exported rows.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from annotation.blinding import generated_position, view_id
from annotation.consensus import all_consensus, trace_labels
from annotation.items import Response, StepMark, View
from annotation.ledger import Ledger, ledger_path
from annotation.routes import Route
from pipelines import build
from pipelines.annotating import open_round
from pipelines.exporting import export
from ser_toolkit.recipe import load_recipe
from ser_toolkit.releases.labels import TraceLabels
from ser_toolkit.releases.load import load_release
from ser_toolkit.verdicts import Better, as_shown
from ser_toolkit.workspace import Workspace
from tests.served import served
from tests.servers.openai_stand_in import StandIn

PEOPLE = ("ann", "bo", "cy")
REPLIES = Path(__file__).with_name("servers") / "ser_replies.py"
BETTER: tuple[Better, ...] = ("generated", "reference", "almost_equal", "neither")
CONFIGS = ("steps", "preferences", "judgements")

Answer = Callable[[View, Response], None]


def build_release(folder: Path, shared_data: Path, dialogues: int = 12) -> Workspace:
    """`ser build` of real ESConv dialogues with a scripted model: two traces a dialogue."""
    with StandIn(reply=f"{REPLIES}:build") as server:
        build(
            folder,
            sources=[f"esconv:{shared_data / 'esconv'}"],
            limit=dialogues,
            model="openai:stand-in",
            sets=[f"llm.base_url={server.base_url}", "sample.rounds=2", "failures.max_share=0.5"],
            quiet=True,
        )
    return Workspace(folder)


def vote(ledger: Ledger, name: str) -> Response:
    """What the person to whom this view was given says to it. Of every eight items one is skipped by one of the three,
    and another by two; on three steps of eight one person dissents; on one item in four all three verdicts differ.
    """
    showing = ledger.refresh().views[name]
    item, seat = ledger.item(showing.item_id), PEOPLE.index(showing.annotator)
    draw = hashlib.sha256(item.id.encode()).digest()
    if (draw[0] % 8 == 0 and draw[1] % 3 == seat) or (draw[0] % 8 == 1 and draw[1] % 3 != seat):
        return Response(view_id=name, skip="distress" if draw[2] % 2 else "unclear")
    marks = []
    for step in range(3):
        truth, dissenter = draw[3 + step] % 4 > 0, draw[6 + step] % 8
        label = truth != (dissenter == seat)
        marks.append(StepMark(label=label, critique="" if label else f"That was not said ({showing.annotator} & co)."))
    verdict, reasons = None, ()
    if item.has_pair:
        shift = seat if draw[9] % 4 == 0 else int(draw[10] % 5 == seat)
        better = BETTER[((0, 0, 0, 1, 1, 1, 2, 3)[draw[11] % 8] + shift) % 4]
        position = generated_position(ledger.state.key, item.id, showing.annotator, showing.repeat)
        verdict, reasons = as_shown(better, position), (("empathy", "fit") if draw[12] % 2 else ())
    comment = "一 <b>&amp;</b> {{x}}\nand a second line" if draw[13] % 5 == 0 else ""
    return Response(
        view_id=name, steps=(marks[0], marks[1], marks[2]), verdict=verdict, reasons=reasons, comment=comment
    )


@contextmanager
def begun(home: Workspace) -> Iterator[Ledger]:
    """The round of the three; what each did more than ten tasks ago comes to them again."""
    with open_round(home, load_recipe(home.root, ["annotate.check_every=1"]), PEOPLE) as ledger:
        yield ledger


def label_locally(home: Workspace) -> dict[str, TraceLabels]:
    """Through the built-in page's API, until nobody has anything left."""
    with begun(home) as ledger, served(home.root) as page:
        idle = 0
        while idle < len(PEOPLE):
            idle = 0
            for who in PEOPLE:
                view = page.client.ask("POST", f"{page.people[who]}/api/next").json["view"]
                idle += view is None
                if view is not None:
                    body = vote(ledger, view["id"]).model_dump(mode="json")
                    said = page.client.ask("POST", f"{page.people[who]}/api/answers", body)
                    assert said.status == 200, said.body
    return labels(home)


def label_through(home: Workspace, route: Route, answer: Answer) -> dict[str, TraceLabels]:
    """Through a route, pushing and pulling until nothing more is due."""
    with begun(home) as ledger:
        route.start(ledger)
        while route.push(ledger).new:
            due = ledger.tasks(route.name)
            for task in due:
                answer(task.view, vote(ledger, task.view.id))
            pulled = route.pull(ledger)
            assert (pulled.new, pulled.changed, pulled.failures) == (len(due), 0, ()), pulled
        for table in ledger.state.answers.values():
            for (who, repeat), kept in table.items():
                said = vote(ledger, view_id(ledger.state.key, kept.item_id, who, repeat))
                assert kept.route == route.name
                for field in ("steps", "verdict", "skip", "comment"):
                    assert getattr(kept, field) == getattr(said, field), field
                assert set(kept.reasons) == set(said.reasons)
    return labels(home)


def labels(home: Workspace) -> dict[str, TraceLabels]:
    """trace -> its consensus labels; how many votes that took hangs on who was asked first, and is left out."""
    with Ledger(ledger_path(home.root)) as ledger:
        found = trace_labels(all_consensus(ledger.state, ("person",)), "person")
        return {x.trace_id: x.model_copy(update={"votes": 0}) for x in found}


def exported(home: Workspace) -> dict[str, dict[str, dict[str, Any]]]:
    """The rows that `ser export` makes of the labels: config -> id -> row, without the number of votes."""
    release = load_release(export(home).made.path)
    assert release.manifest["annotation"]["people"] == len(PEOPLE)
    return {name: {row["id"]: row | {"votes": 0} for row in release.frame(name).to_dicts()} for name in CONFIGS}


def check_expected(home: Workspace, found: dict[str, TraceLabels]) -> None:
    """That the votes are worth comparing: agreement, dissent, undecided parts, skips, and every verdict come up."""
    with Ledger(ledger_path(home.root)) as ledger:
        results = all_consensus(ledger.state, ("person",))
        answers = [a for table in ledger.state.answers.values() for a in table.values()]
    ways = Counter(r.how or "none" for c in results for r in c.parts.values())
    assert min(ways["unanimous"], ways["majority"], ways["none"]) > 0, ways
    assert any(a.skip for a in answers) and any(a.repeat for a in answers) and any(c.undecided for c in results)
    assert {x.better for x in found.values()} >= {"generated", "reference", None}


def check_three(home: Workspace, route: Route, answer: Answer, expected: Workspace | None = None) -> None:
    """Label `home` through the route, and its copy (or `expected`, which stands labelled) through the built-in page:
    the labels are equal, and so are the releases' steps, preferences and judgements.
    """
    local = expected or home_copy(home)
    wanted = labels(local) if expected else label_locally(local)
    check_expected(local, wanted)
    found = label_through(home, route, answer)
    assert found == wanted
    rows, wanted_rows = exported(home), exported(local)
    assert set(rows) == set(CONFIGS) and all(rows.values())
    assert rows == wanted_rows


def home_copy(home: Workspace) -> Workspace:
    """The same build in a folder of its own, where no round has begun."""
    folder = home.root.with_name(f"{home.root.name}-local")
    shutil.copytree(home.root, folder, ignore=shutil.ignore_patterns("annotation.sqlite*", "servers"))
    return Workspace(folder)
