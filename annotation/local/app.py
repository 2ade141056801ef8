"""The web application: which request leads where. The pages are files; all that is alive comes through the API.

This module and those that it imports know no pydantic: the first page is there within half a second of the start. What
a request asks is done in the thread of a ledger (`desk.py`).
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ser_toolkit.errors import DataError, RecordError, UsageError

from .desk import Desk
from .guard import Guard

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
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Desks:
    """Who answers: the ledger that annotators write through, the owner's, and the workspace's media folder."""

    annotating: Desk[Annotating]
    owning: Desk[Owning]
    media: Path


def make_app(desks: Desks, hosts: tuple[str, ...] = ()) -> ASGIApp:
    """The application. `hosts`: names under which it may be asked, beside localhost and addresses in numbers."""
    files = {f.name: StaticFile(f) for f in sorted(PAGE.iterdir()) if f.suffix in TYPES}
    api = Api(desks)
    person, owner = "/a/{token}", "/o/{token}"

    async def static(request: Request) -> Response:
        file = files.get(request.path_params["name"])
        return _refuse(404, "not_found", "no such file") if file is None else file.response(request)

    def page(name: str) -> Callable[[Request], Any]:
        async def show(request: Request) -> Response:
            return files[name].response(request)

        return show

    async def home(request: Request) -> Response:
        return files["home.html"].response(request, status=404)

    app = Starlette(
        routes=[
            Route("/", home),
            Route("/health", _health),
            Route("/openapi.json", _openapi),
            Route("/static/{name}", static),
            Route(person, page("annotate.html")),
            Route(f"{person}/api/next", api.next, methods=["POST"]),
            Route(f"{person}/api/undo", api.undo, methods=["POST"]),
            Route(f"{person}/api/answers", api.submit, methods=["POST"]),
            Route(f"{person}/api/views/{{view}}/draft", api.save, methods=["PUT"]),
            Route(f"{person}/api/views/{{view}}/lease", api.renew, methods=["POST"]),
            Route(f"{person}/api/views/{{view}}/media/{{sha256}}", api.picture),
            Route(f"{person}/api/guidelines", api.guidelines),
            Route(owner, page("owner.html")),
            Route(f"{owner}/api/overview", api.overview),
            Route(f"{owner}/api/waiting", api.waiting),
            Route(f"{owner}/api/items/{{item}}", api.dispute),
            Route(f"{owner}/api/items/{{item}}/media/{{sha256}}", api.owner_picture),
            Route(f"{owner}/api/decisions", api.rule, methods=["POST"]),
            Route(f"{owner}/api/export.jsonl", api.export),
        ],
        exception_handlers={404: _not_found},
    )
    return Guard(app, hosts)


class StaticFile:
    """A file of the page, read once; the browser asks again whether it has changed."""

    def __init__(self, path: Path) -> None:
        self._body = path.read_bytes()
        self._type = TYPES[path.suffix]
        self._tag = f'"{hashlib.sha256(self._body).hexdigest()[:16]}"'

    def response(self, request: Request, status: int = 200) -> Response:
        headers = {"ETag": self._tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == self._tag:
            return Response(status_code=304, headers=headers)
        return Response(self._body, status, headers, self._type)


class Api:
    """The handlers. Each asks a desk, and turns what goes wrong into an answer that says so."""

    def __init__(self, desks: Desks) -> None:
        self._desks = desks

    # -- annotators --------------------------------------------------------------------------------------------------

    async def next(self, request: Request) -> Response:
        return await self._annotator(request, lambda d, who, _: d.next(who))

    async def undo(self, request: Request) -> Response:
        return await self._annotator(request, lambda d, who, _: d.undo(who) or _refuse(409, "conflict", "no answer"))

    async def submit(self, request: Request) -> Response:
        return await self._annotator(request, lambda d, who, body: d.submit(who, body), "Response")

    async def save(self, request: Request) -> Response:
        view = request.path_params["view"]
        return await self._annotator(request, lambda d, who, body: d.save(who, view, body), "Draft")

    async def renew(self, request: Request) -> Response:
        view = request.path_params["view"]
        return await self._annotator(request, lambda d, who, _: d.renew(who, view))

    async def guidelines(self, request: Request) -> Response:
        lang = "zh" if request.query_params.get("lang") == "zh" else "en"
        return await self._annotator(request, lambda d, _who, _body: d.guidelines(lang))

    async def picture(self, request: Request) -> Response:
        view, sha256 = request.path_params["view"], request.path_params["sha256"]

        def find(desk: Annotating, who: str, _: Any) -> Response:
            desk.may_see(who, view, sha256)
            return _medium(self._desks.media, sha256)

        return await self._annotator(request, find)

    # -- the owner ---------------------------------------------------------------------------------------------------

    async def overview(self, request: Request) -> Response:
        return await self._owner(request, lambda d, _: d.overview())

    async def waiting(self, request: Request) -> Response:
        return await self._owner(request, lambda d, _: d.queue())

    async def dispute(self, request: Request) -> Response:
        item = request.path_params["item"]
        return await self._owner(request, lambda d, _: d.dispute(item))

    async def rule(self, request: Request) -> Response:
        return await self._owner(request, lambda d, body: d.rule(body), "Ruling")

    async def export(self, request: Request) -> Response:
        annotator = request.query_params.get("annotator")

        def lines(desk: Owning, _: Any) -> Response:
            headers = {"Content-Disposition": 'attachment; filename="answers.jsonl"'}
            return Response(desk.export(annotator), 200, headers, "application/x-ndjson; charset=utf-8")

        return await self._owner(request, lines)

    async def owner_picture(self, request: Request) -> Response:
        item, sha256 = request.path_params["item"], request.path_params["sha256"]

        def find(desk: Owning, _: Any) -> Response:
            desk.may_see(item, sha256)
            return _medium(self._desks.media, sha256)

        return await self._owner(request, find)

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _annotator(
        self, request: Request, act: Callable[[Annotating, str, Any], BaseModel | Response | None], body: str = ""
    ) -> Response:
        token = request.path_params["token"]
        data = await _body(request, body)
        if isinstance(data, Response):
            return data
        return await self._desks.annotating.call(
            lambda desk: _answered(lambda: act(desk, desk.who(token), _parsed(body, data)))
        )

    async def _owner(
        self, request: Request, act: Callable[[Owning, Any], BaseModel | Response | None], body: str = ""
    ) -> Response:
        token = request.path_params["token"]
        data = await _body(request, body)
        if isinstance(data, Response):
            return data

        def ask(desk: Owning) -> BaseModel | Response | None:
            desk.must_be_owner(token)
            return act(desk, _parsed(body, data))

        return await self._desks.owning.call(lambda desk: _answered(lambda: ask(desk)))


async def _body(request: Request, wanted: str) -> bytes | Response:
    if not wanted:
        return b""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return _refuse(415, "malformed", "Content-Type: application/json is wanted")
    return await request.body()


def _parsed(name: str, data: bytes) -> Any:
    """The body as the record of this name; in the ledger's thread, where pydantic has been imported."""
    if not name:
        return None
    from .wire import BODIES

    return BODIES[name].model_validate_json(data)


def _answered(act: Callable[[], BaseModel | Response | None]) -> Response:
    """The result as JSON; whatever is refused, as a Fault."""
    from pydantic import ValidationError

    from .annotating import NotFound

    try:
        result = act()
    except NotFound:
        return _refuse(404, "not_found", "no such link, item or picture")
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        return _refuse(422, "malformed", f"{where}: {first['msg']}" if where else first["msg"])
    except RecordError as exc:
        return _refuse(422, "malformed", exc.reason)
    except UsageError as exc:
        return _refuse(409, "conflict", exc.message)
    except DataError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return _refuse(503, "unavailable", "the answers cannot be read or written just now; nothing was acknowledged")
    if isinstance(result, Response):
        return result
    return (
        Response(status_code=204) if result is None else Response(result.model_dump_json(), 200, None, TYPES[".json"])
    )


def _medium(folder: Path, sha256: str) -> Response:
    """A file of the media folder with the type of its kind, and no other."""
    from ser_toolkit.media.sniffing import BY_SUFFIX

    known = _SHA256.fullmatch(sha256) is not None
    for file in (folder / sha256[:2]).glob(f"{sha256}.*") if known else ():
        if file.suffix in BY_SUFFIX and file.is_file():
            headers = {"Cache-Control": "private, max-age=86400, immutable"}
            return Response(file.read_bytes(), 200, headers, BY_SUFFIX[file.suffix].media_type)
    return _refuse(404, "not_found", "no such picture")


async def _health(request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _openapi(request: Request) -> Response:
    from .openapi import description

    return JSONResponse(description())


async def _not_found(request: Request, exc: Exception) -> Response:
    return _refuse(404, "not_found", "nothing is here")


def _refuse(status: int, code: str, message: str) -> Response:
    return JSONResponse({"code": code, "message": message}, status)
