"""A real Label Studio for tests, started once a process; and what people do there, by the API that its page uses."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from annotation.items import Response, View
from annotation.label_studio import server
from annotation.label_studio.layout import VIEW
from annotation.label_studio.remote import HeldTask, Project, Remote
from annotation.label_studio.route import LabelStudioRoute, _desk, _prefix, open_route
from annotation.ledger import Ledger
from annotation.routes import RouteOptions, Started
from ser_toolkit.errors import AnnotationError
from tests.needs import lacking
from tests.unit.annotation.answering import a_round

TOKEN = "TEST_LABEL_STUDIO_TOKEN"


class LabelStudio:
    """The server, as its owner sees it: of a workspace of its own, in which a round has begun."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.process = server.process(workspace)
        with a_round(workspace, 2) as ledger:
            key = ledger.state.key
            self.started: Started = open_route(RouteOptions(workspace=workspace)).start(ledger)
        self.url, self.token, self.password = self.started.url, server.token(key), server.password(key)
        self.remote = Remote(self.url, self.token)

    def route(self, workspace: Path, url: str | None = None, **more: Any) -> LabelStudioRoute:
        """The route of another workspace to this server, as to one that runs already (`url`: by another way to it)."""
        return open_route(RouteOptions(workspace=workspace, url=url or self.url, token_env=TOKEN, **more))

    def project(self, ledger: Ledger, who: str, *, has_pair: bool = True) -> Project:
        """This person's project. Raises KeyError where there is none."""
        key = ledger.state.key
        return self.remote.projects(_prefix(key))[_desk(key, who, has_pair).mark]

    def tasks(self, ledger: Ledger, who: str) -> dict[str, HeldTask]:
        """view -> this person's task."""
        return {str(t.data.get(VIEW)): t for t in self.remote.tasks(self.project(ledger, who))}

    def annotate(self, task: int, result: Sequence[dict[str, Any]], **more: Any) -> int:
        return int(self.remote._sdk.annotations.create(task, result=list(result), **more).id)

    def sign_up(self, email: str) -> httpx.Client:
        """Somebody else's browser, signed in by the link of the first start."""
        link = next(iter(self.started.links.values()))
        browser = httpx.Client(follow_redirects=True, trust_env=False, timeout=60)
        browser.get(link)
        form = {"email": email, "password": "a-long-passphrase", "csrfmiddlewaretoken": browser.cookies["csrftoken"]}
        assert browser.post(link, data=form, headers={"Referer": link}).status_code == 200
        return browser


class People:
    """Answer views wherever they stand, as the page does it."""

    def __init__(self, at: LabelStudio) -> None:
        self.at = at
        self._tasks: dict[str, int] = {}

    def __call__(self, view: View, response: Response) -> None:
        if view.id not in self._tasks:
            projects = sorted(self.at.remote.projects("ser round ").values(), key=lambda p: -p.id)
            for project in projects[:8]:
                self._tasks |= {str(t.data.get(VIEW)): t.id for t in self.at.remote.tasks(project)}
        skipped = response.skip is not None
        self.at.annotate(
            self._tasks[view.id], results(response), was_cancelled=skipped, lead_time=response.seconds or 1.0
        )


def results(response: Response) -> list[dict[str, Any]]:
    """A response as the page's controls hold it."""
    made = []
    for number, mark in enumerate(response.steps or (), 1):
        made.append(chosen(f"step{number}", f"text{number}", [str(mark.label)]))
        if mark.critique:
            made.append(typed(f"critique{number}", f"text{number}", mark.critique))
    for name, about, words in (
        ("verdict", "reply1", [response.verdict] if response.verdict else []),
        ("reasons", "reply1", list(response.reasons)),
        ("skip", "talk", [response.skip] if response.skip else []),
    ):
        made += [chosen(name, about, words)] if words else []
    return made + ([typed("comment", "talk", response.comment)] if response.comment else [])


def chosen(name: str, about: str, words: Sequence[Any]) -> dict[str, Any]:
    return {"from_name": name, "to_name": about, "type": "choices", "value": {"choices": list(words)}}


def typed(name: str, about: str, text: str) -> dict[str, Any]:
    return {"from_name": name, "to_name": about, "type": "textarea", "value": {"text": [text]}}


@cache
def _started() -> LabelStudio:
    try:
        return LabelStudio(Path(tempfile.mkdtemp(prefix="ser-label-studio-")))
    except AnnotationError as exc:
        lacking(f"no Label Studio here: {exc}")


@pytest.fixture(scope="module")
def label_studio() -> Iterator[LabelStudio]:
    """The server. Tests that use it belong to the xdist group "label-studio", so that one process starts it once."""
    with pytest.MonkeyPatch.context() as patched:
        found = _started()
        patched.setenv(TOKEN, found.token)
        yield found


@pytest.fixture(scope="session", autouse=True)
def _ended() -> Iterator[None]:
    yield
    if _started.cache_info().currsize:
        _started().process.stop()
