"""The web application: which request leads where. The pages are files; all that is alive comes through the API.

This module and those that it imports know no pydantic: the first page is there within half a second of the start. What
a request asks is done in the thread of a ledger (`desk.py`).
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ser_toolkit.errors import DataError, RecordError, UsageError

from .desk import Desk
from .guard import Guard
from .http import Handler, Reply, Request, Router, TooLarge, refuse

if TYPE_CHECKING:
    from pydantic import BaseModel

    from .annotating import Annotating
    from .owning import Owning

PAGE = Path(__file__).with_name("page")
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
MAX_BODY = 512 * 1024
"""Bytes: four texts of the longest kind, each character escaped."""


@dataclass(frozen=True, slots=True)
class Desks:
    """Who answers: the ledger that annotators write through, the owner's, and the workspace's media folder."""

    annotating: Desk[Annotating]
    owning: Desk[Owning]
    media: Path


def make_app(desks: Desks, hosts: tuple[str, ...] = ()) -> Guard:
    """The ASGI application. `hosts`: names under which it may be asked, beside localhost and addresses in numbers."""
    files = {f.name: StaticFile(f) for f in sorted(PAGE.iterdir()) if f.suffix in TYPES}
    api = Api(desks)
    person, owner = "/a/{token}", "/o/{token}"

    async def static(request: Request) -> Reply:
        file = files.get(request.params["name"])
        return refuse(404, "not_found", "no such file") if file is None else file.reply(request)

    def page(name: str, status: int = 200) -> Handler:
        async def show(request: Request) -> Reply:
            return files[name].reply(request, status)

        return show

    routes: list[tuple[str, str, Handler]] = [
        ("GET", "/", page("home.html", 404)),
        ("GET", "/health", _health),
        ("GET", "/openapi.json", _openapi),
        ("GET", "/static/{name}", static),
        ("GET", person, page("annotate.html")),
        ("POST", f"{person}/api/next", api.next),
        ("POST", f"{person}/api/undo", api.undo),
        ("POST", f"{person}/api/answers", api.submit),
        ("PUT", f"{person}/api/views/{{view}}/draft", api.save),
        ("POST", f"{person}/api/views/{{view}}/lease", api.renew),
        ("GET", f"{person}/api/views/{{view}}/media/{{sha256}}", api.picture),
        ("GET", f"{person}/api/guidelines", api.guidelines),
        ("GET", owner, page("owner.html")),
        ("GET", f"{owner}/report", api.report),
        ("GET", f"{owner}/api/overview", api.overview),
        ("GET", f"{owner}/api/waiting", api.waiting),
        ("GET", f"{owner}/api/items/{{item}}", api.dispute),
        ("GET", f"{owner}/api/items/{{item}}/media/{{sha256}}", api.owner_picture),
        ("POST", f"{owner}/api/decisions", api.rule),
        ("GET", f"{owner}/api/export.jsonl", api.export),
    ]
    return Guard(Router(routes), hosts)


class StaticFile:
    """A file of the page, read once; the browser asks again whether it has changed."""

    def __init__(self, path: Path) -> None:
        self._body = path.read_bytes()
        self._type = TYPES[path.suffix]
        self._tag = f'"{hashlib.sha256(self._body).hexdigest()[:16]}"'

    def reply(self, request: Request, status: int = 200) -> Reply:
        headers = {"ETag": self._tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == self._tag:
            return Reply(304, headers=headers)
        return Reply(status, self._body, self._type, headers)


class Api:
    """The handlers. Each asks a desk, and turns what goes wrong into an answer that says so."""

    def __init__(self, desks: Desks) -> None:
        self._desks = desks

    # -- annotators --------------------------------------------------------------------------------------------------

    async def next(self, request: Request) -> Reply:
        return await self._annotator(request, lambda d, who, _: d.next(who))

    async def undo(self, request: Request) -> Reply:
        return await self._annotator(request, lambda d, who, _: d.undo(who) or refuse(409, "conflict", "no answer"))

    async def submit(self, request: Request) -> Reply:
        return await self._annotator(request, lambda d, who, body: d.submit(who, body), "Response")

    async def save(self, request: Request) -> Reply:
        view = request.params["view"]
        return await self._annotator(request, lambda d, who, body: d.save(who, view, body), "Draft")

    async def renew(self, request: Request) -> Reply:
        view = request.params["view"]
        return await self._annotator(request, lambda d, who, _: d.renew(who, view))

    async def guidelines(self, request: Request) -> Reply:
        lang = "zh" if request.query.get("lang") == "zh" else "en"
        return await self._annotator(request, lambda d, _who, _body: d.guidelines(lang))

    async def picture(self, request: Request) -> Reply:
        view, sha256 = request.params["view"], request.params["sha256"]

        def find(desk: Annotating, who: str, _: Any) -> Reply:
            desk.may_see(who, view, sha256)
            return _medium(self._desks.media, sha256)

        return await self._annotator(request, find)

    # -- the owner ---------------------------------------------------------------------------------------------------

    async def overview(self, request: Request) -> Reply:
        return await self._owner(request, lambda d, _: d.overview())

    async def report(self, request: Request) -> Reply:
        def page(desk: Owning, _: Any) -> Reply:
            return Reply(200, desk.report().encode(), TYPES[".html"])

        return await self._owner(request, page)

    async def waiting(self, request: Request) -> Reply:
        return await self._owner(request, lambda d, _: d.queue())

    async def dispute(self, request: Request) -> Reply:
        item = request.params["item"]
        return await self._owner(request, lambda d, _: d.dispute(item))

    async def rule(self, request: Request) -> Reply:
        return await self._owner(request, lambda d, body: d.rule(body), "Ruling")

    async def export(self, request: Request) -> Reply:
        annotator = request.query.get("annotator")

        def lines(desk: Owning, _: Any) -> Reply:
            headers = {"Content-Disposition": 'attachment; filename="answers.jsonl"'}
            return Reply(200, desk.export(annotator), "application/x-ndjson; charset=utf-8", headers)

        return await self._owner(request, lines)

    async def owner_picture(self, request: Request) -> Reply:
        item, sha256 = request.params["item"], request.params["sha256"]

        def find(desk: Owning, _: Any) -> Reply:
            desk.may_see(item, sha256)
            return _medium(self._desks.media, sha256)

        return await self._owner(request, find)

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _annotator(
        self, request: Request, act: Callable[[Annotating, str, Any], BaseModel | Reply | None], body: str = ""
    ) -> Reply:
        token = request.params["token"]
        data = await _body(request, body)
        if isinstance(data, Reply):
            return data
        return await self._desks.annotating.call(
            lambda desk: _answered(lambda: act(desk, desk.who(token), _parsed(body, data)))
        )

    async def _owner(
        self, request: Request, act: Callable[[Owning, Any], BaseModel | Reply | None], body: str = ""
    ) -> Reply:
        token = request.params["token"]
        data = await _body(request, body)
        if isinstance(data, Reply):
            return data

        def ask(desk: Owning) -> BaseModel | Reply | None:
            desk.must_be_owner(token)
            return act(desk, _parsed(body, data))

        return await self._desks.owning.call(lambda desk: _answered(lambda: ask(desk)))


async def _body(request: Request, wanted: str) -> bytes | Reply:
    if not wanted:
        return b""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return refuse(415, "malformed", "Content-Type: application/json is wanted")
    try:
        return await request.body(MAX_BODY)
    except TooLarge:
        return refuse(413, "malformed", f"more than {MAX_BODY} bytes")


def _parsed(name: str, data: bytes) -> Any:
    """The body as the record of this name; in the ledger's thread, where pydantic has been imported."""
    if not name:
        return None
    from .wire import BODIES

    return BODIES[name].model_validate_json(data)


def _answered(act: Callable[[], BaseModel | Reply | None]) -> Reply:
    """The result as JSON; whatever is refused, as a Fault."""
    from pydantic import ValidationError

    from .annotating import NotFound

    try:
        result = act()
    except NotFound:
        return refuse(404, "not_found", "no such link, item or picture")
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        return refuse(422, "malformed", f"{where}: {first['msg']}" if where else first["msg"])
    except RecordError as exc:
        return refuse(422, "malformed", exc.reason)
    except UsageError as exc:
        return refuse(409, "conflict", exc.message)
    except DataError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return refuse(503, "unavailable", "the answers cannot be read or written just now; nothing was acknowledged")
    if isinstance(result, Reply):
        return result
    return Reply(204) if result is None else Reply(200, result.model_dump_json().encode(), TYPES[".json"])


def _medium(folder: Path, sha256: str) -> Reply:
    """A file of the media folder with the type of its kind, and no other."""
    from ser_toolkit.media.sniffing import BY_SUFFIX
    from ser_toolkit.media.store import find_file

    file = find_file(folder, sha256)
    if file is None:
        return refuse(404, "not_found", "no such picture")
    headers = {"Cache-Control": "private, max-age=86400, immutable"}
    return Reply(200, file.read_bytes(), BY_SUFFIX[file.suffix].media_type, headers)


async def _health(request: Request) -> Reply:
    return Reply(200, b'{"status": "ok"}', TYPES[".json"])


async def _openapi(request: Request) -> Reply:
    from .openapi import description

    return Reply(200, json.dumps(description()).encode(), TYPES[".json"])
