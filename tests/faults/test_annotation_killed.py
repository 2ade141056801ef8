"""kill -9 of the page under load; and the process itself: its links, its start, its end, what it tells."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from annotation.ledger import Ledger, ledger_path
from tests.annotation_samples import begin, items
from tests.served import Client, Page, answer, launch, stop

PEOPLE = tuple(f"p{n}" for n in range(12))


class Worker(threading.Thread):
    """One person without a thought; `acknowledged` is what the server said that it keeps."""

    def __init__(self, page: Page, who: str) -> None:
        super().__init__(daemon=True)
        self.page, self.who = Page(Client(page.client.port), page.people, page.owner, page.url), who
        self.acknowledged: dict[str, dict[str, Any]] = {}

    def run(self) -> None:
        rng = random.Random(self.who)
        try:
            while view := self.page.next(self.who)["view"]:
                body = answer(view, steps=[{"label": rng.random() < 0.7, "critique": self.who}] * 3)
                if self.page.ask(self.who, "POST", "answers", body).status == 200:
                    self.acknowledged[view["id"]] = body
        except (OSError, ValueError, KeyError, ConnectionError):
            return  # the server is gone
        except Exception as exc:
            if "http.client" not in type(exc).__module__:
                raise


@pytest.mark.slow
def test_every_acknowledged_answer_survives_kill_minus_nine_under_load(tmp_path):
    begin(tmp_path, items(400), PEOPLE).close()
    acknowledged: dict[str, dict[str, Any]] = {}
    links = None
    for pause in (0.8, 0.5, 0.3):
        process, page = launch(tmp_path)
        links = links or page.people
        assert page.people == links  # a restart: the same links
        workers = [Worker(page, who) for who in PEOPLE]
        for worker in workers:
            worker.start()
        time.sleep(pause)
        stop(process, hard=True)
        for worker in workers:
            worker.join(30)
            acknowledged |= worker.acknowledged
    assert len(acknowledged) > 30
    with Ledger(ledger_path(tmp_path)) as ledger:
        list(ledger.events())  # the whole log, its chain checked
        for view, body in acknowledged.items():
            showing = ledger.state.views[view]
            kept = ledger.state.answers[showing.item_id][showing.annotator, 0]
            assert [m.label for m in kept.steps or ()] == [s["label"] for s in body["steps"]]
        for item in ledger.state.items:
            votes = sorted(ledger.state.votes(item, ("person",)), key=lambda a: a.time)
            assert len(votes) <= ledger.state.wanted(item, votes[:2])
    process, page = launch(tmp_path)
    assert page.ask("owner", "GET", "overview").json["answers"] >= len(acknowledged)
    assert stop(process) == 0


def test_no_token_reaches_the_log_and_ctrl_c_ends_it_in_peace(tmp_path):
    begin(tmp_path, items(2)).close()
    process, page = launch(tmp_path)
    token = page.people["ann"].removeprefix("/a/")
    assert page.client.ask("GET", f"/a/{token}").status == 200
    assert page.client.ask("PUT", f"/a/{token}/api/views/x/draft", b"{").status in (404, 422)
    assert page.client.ask("POST", f"/a/{token}/api/nothing").status == 404
    assert page.client.ask("GET", f"/a/{token}", headers={"Host": "evil.example"}).status == 421
    assert stop(process) == 0
    told = (tmp_path / "stderr.txt").read_text()
    assert token not in told and page.owner not in told
    assert "every answer is kept" in told


def test_the_links_are_unguessable_and_differ(tmp_path):
    begin(tmp_path, items(1)).close()
    process, page = launch(tmp_path)
    stop(process)
    links = [*page.people.values(), page.owner]
    assert len(set(links)) == 4 and all(re.fullmatch(r"/[ao]/[\w-]{32}", link) for link in links)


def test_it_listens_on_this_machine_alone_unless_told(tmp_path):
    begin(tmp_path, items(1)).close()
    process, page = launch(tmp_path)
    try:
        assert page.url.startswith("http://127.0.0.1:")
        bound = subprocess.run(["cat", "/proc/net/tcp"], capture_output=True, text=True).stdout
        listening = [line.split()[1] for line in bound.splitlines()[1:] if line.split()[3] == "0A"]
        assert f"0100007F:{page.client.port:04X}" in listening
        assert f"00000000:{page.client.port:04X}" not in listening
    finally:
        stop(process)


def test_a_page_needs_none_of_the_heavy_libraries():
    heavy = "pydantic, pandas, polars, pyarrow, numpy, datasets, openai, typer"
    code = f"import sys, annotation.local.serve; sys.exit(str([m for m in '{heavy}'.split(', ') if m in sys.modules]))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--overlap", "3"], 2, "this round began with 2"),
        (["--url", "example.org"], 2, "not an address of a server"),
        (["--port", "TAKEN"], 2, "cannot listen here"),
        (["--annotators", "x" * 81], 2, "a name is a line"),
    ],
)
def test_what_is_asked_wrongly_is_told_with_the_cure(tmp_path, options, code, says):
    begin(tmp_path, items(1)).close()
    process, page = launch(tmp_path)
    options = [str(page.client.port) if o == "TAKEN" else o for o in options]
    command = [sys.executable, "-m", "pipelines", "annotate", "serve", "-w", str(tmp_path)]
    port = [] if "--port" in options else ["--port", "0"]
    found = subprocess.run([*command, *port, *options], capture_output=True, text=True, timeout=60)
    stop(process)
    assert (found.returncode, says in found.stderr) == (code, True), found.stderr


def test_a_workspace_without_a_build_and_a_round_with_too_few_people(tmp_path):
    command = [sys.executable, "-m", "pipelines", "annotate", "serve", "--port", "0", "-w"]
    found = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert found.returncode == 3 and "ser build" in found.stderr
    begin(tmp_path, items(1), ("ann",)).close()
    found = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert found.returncode == 2 and "the round has 1 people" in found.stderr
