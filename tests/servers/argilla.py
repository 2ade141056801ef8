"""A real Argilla for tests, started once a process; and what its people do there, by the API that its page uses."""

from __future__ import annotations

import json
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from annotation.argilla import server
from annotation.argilla.accounts import AccountsFile
from annotation.argilla.answers import LABELS
from annotation.argilla.route import ArgillaRoute, open_route
from annotation.items import Response, View
from annotation.routes import RouteOptions

KEY = "TEST_ARGILLA_KEY"
WORDS = {label: word for word, label in LABELS.items()}


class Argilla:
    """The server, as its owner sees it."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.process = server.process(workspace)
        self.url = server.start(workspace).url
        self.key = AccountsFile(self.process.folder).owner().owner_key or ""
        self.database = self.process.folder / "argilla.db"

    def route(self, workspace: Path, url: str | None = None, **more: Any) -> ArgillaRoute:
        """The route of another workspace to this server, as to one that runs already (`url`: by another way to it)."""
        return open_route(RouteOptions(workspace=workspace, url=url or self.url, token_env=KEY, **more))

    def ask(self, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        """A request to the API; as the owner, or with another's key."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"X-Argilla-Api-Key": key or self.key, "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as reply:
            text = reply.read()
        return json.loads(text) if text else None

    def key_of(self, username: str) -> str:
        return next(u["api_key"] for u in self.ask("GET", "users")["items"] if u["username"] == username)

    def records(self, username: str) -> dict[str, dict[str, Any]]:
        """view -> the record, as this person is given it: all that is theirs, of every round."""
        key, found = self.key_of(username), {}
        for dataset in self.ask("GET", "me/datasets", key=key)["items"]:
            path = f"me/datasets/{dataset['id']}/records/search?limit=1000&include=responses"
            for entry in self.ask("POST", path, {}, key=key)["items"]:
                found[entry["record"]["external_id"]] = entry["record"]
        return found

    def answer(self, username: str, view: str, values: dict[str, Any], status: str = "submitted") -> None:
        """What the page does when this person presses a button; a second answer changes the first."""
        record, key = self.records(username)[view], self.key_of(username)
        body = {"values": {name: {"value": value} for name, value in values.items()}, "status": status}
        if record["responses"]:
            self.ask("PUT", f"responses/{record['responses'][0]['id']}", body, key=key)
        else:
            self.ask("POST", f"records/{record['id']}/responses", body, key=key)


class Person:
    """Answers views on the server as the people to whom they were given would, whichever round they are of."""

    def __init__(self, argilla: Argilla, people: Iterator[str] | tuple[str, ...]) -> None:
        self.argilla = argilla
        self._keys = {who: argilla.key_of(who) for who in people}
        self._known: dict[str, tuple[str, str]] = {}

    def __call__(self, view: View, response: Response) -> None:
        if view.id not in self._known:
            self._known |= {v: (who, r["id"]) for who in self._keys for v, r in self.argilla.records(who).items()}
        who, record = self._known[view.id]
        body = {"values": {name: {"value": v} for name, v in said(response).items()}, "status": status(response)}
        self.argilla.ask("POST", f"records/{record}/responses", body, key=self._keys[who])


def said(response: Response) -> dict[str, Any]:
    """The answer in the words of the form; what is left open is not there, as on the page."""
    values: dict[str, Any] = {}
    for number, mark in enumerate(response.steps or (), 1):
        values |= {f"step{number}": WORDS[mark.label], f"critique{number}": mark.critique}
    more = {"verdict": response.verdict, "reasons": list(response.reasons), "comment": response.comment}
    return {name: value for name, value in (values | more | {"skip": response.skip}).items() if value}


def status(response: Response) -> str:
    return "discarded" if response.skip else "submitted"


@cache
def _started() -> Argilla:
    return Argilla(Path(tempfile.mkdtemp(prefix="ser-argilla-")))


@pytest.fixture(scope="module")
def argilla() -> Iterator[Argilla]:
    """The server. Tests that use it belong to the xdist group "argilla", so that one process starts it once."""
    with pytest.MonkeyPatch.context() as patched:
        found = _started()
        patched.setenv(KEY, found.key)
        yield found


@pytest.fixture(scope="session", autouse=True)
def _stopped() -> Iterator[None]:
    yield
    if _started.cache_info().currsize:
        _started().process.stop()
