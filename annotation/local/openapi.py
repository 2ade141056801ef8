"""The OpenAPI description of the API: the paths are told here, the shapes come from the records themselves."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic.json_schema import models_json_schema

from annotation.items import Response
from ser_toolkit.schema import Record

from .wire import Dispute, Draft, Fault, Guidelines, Lease, Overview, Queue, Ruling, Submitted, Work

Json = dict[str, Any]
_REF = "#/components/schemas/{model}"
_TEXT = {"type": "string"}
_SHA256 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_LINE = {"type": "string", "description": "lines of JSON, one an answer that holds"}
_PICTURE = {"schema": {"type": "string", "contentEncoding": "binary"}}
_REASONS = {
    403: "The request comes from another site.",
    404: "No such link, item or picture; or it is not this person's.",
    409: "It cannot be done as things stand.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    421: "The server does not go by that name.",
    422: "The body does not fit.",
    503: "The answers cannot be read or written now; nothing was acknowledged.",
}


@cache
def description() -> Json:
    """The OpenAPI 3.1 document."""
    models = (Work, Draft, Response, Submitted, Lease, Guidelines, Overview, Queue, Dispute, Ruling, Fault)
    _, defined = models_json_schema([(m, _mode(m)) for m in models], ref_template=_REF)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "SER toolkit: annotation",
            "version": _version(),
            "description": "The token in the path is the link that a person was given; it says who asks.",
        },
        "paths": {path: dict(_operations(path, methods)) for path, methods in _PATHS.items()},
        "components": {"schemas": defined["$defs"]},
    }


def _operations(path: str, methods: dict[str, Json]) -> Any:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    for method, told in methods.items():
        parameters = [_parameter(name, "path", _SHA256 if name == "sha256" else _TEXT) for name in names]
        operation: Json = {
            "operationId": told["id"],
            "summary": told["does"],
            "parameters": parameters + told.get("query", []),
            "responses": dict(_responses(told)),
        }
        if "takes" in told:
            operation["requestBody"] = {
                "required": True,
                "content": {"application/json": {"schema": _ref(told["takes"])}},
            }
        yield method, operation


def _responses(told: Json) -> Any:
    gives = told.get("gives")
    if gives is None:
        yield "204", {"description": "Done; it is on disk."}
    else:
        content = {"application/json": {"schema": _ref(gives)}} if isinstance(gives, type) else gives
        yield "200", {"description": told["does"], "content": content}
    refusals = {404, 421, 503, *told.get("refuses", ())} | ({413, 415, 422} if "takes" in told else set())
    refusals |= {403} if told.get("changes") else set()
    for status in sorted(refusals):
        as_text = status in (403, 421)  # refused before the application is reached
        content = {"text/plain": {"schema": _TEXT}} if as_text else {"application/json": {"schema": _ref(Fault)}}
        yield str(status), {"description": _REASONS[status], "content": content}


def _parameter(name: str, place: str, schema: Json) -> Json:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _ref(model: type[Record]) -> Json:
    return {"$ref": _REF.format(model=model.__name__)}


def _mode(model: type[Record]) -> Any:
    return "validation" if model in (Draft, Response, Ruling) else "serialization"


def _version() -> str:
    try:
        return version("ser-toolkit")
    except PackageNotFoundError:
        return "0"


_PICTURES = {kind: _PICTURE for kind in ("image/png", "image/jpeg", "image/webp")}
_PERSON, _OWNER = "/a/{token}/api", "/o/{token}/api"
_PATHS: dict[str, dict[str, Json]] = {
    f"{_PERSON}/next": {
        "post": {
            "id": "next", "changes": True, "gives": Work,
            "does": "What is on this person's desk, with its draft; else the next item, reserved for this person.",
        }
    },
    f"{_PERSON}/undo": {
        "post": {
            "id": "undo", "changes": True, "gives": Work, "refuses": (409,),
            "does": "The last answer is taken back and its item comes again, filled in as it was.",
        }
    },
    f"{_PERSON}/answers": {
        "post": {
            "id": "answer", "changes": True, "takes": Response, "gives": Submitted,
            "does": "An answer or a skip is kept, on disk before it is acknowledged. The same again changes nothing.",
        }
    },
    f"{_PERSON}/views/{{view}}/draft": {
        "put": {"id": "draft", "changes": True, "takes": Draft, "does": "What is chosen and typed so far is kept."}
    },
    f"{_PERSON}/views/{{view}}/lease": {
        "post": {"id": "lease", "changes": True, "gives": Lease, "does": "The item stays reserved for this person."}
    },
    f"{_PERSON}/views/{{view}}/media/{{sha256}}": {
        "get": {"id": "picture", "gives": _PICTURES, "does": "A picture of an item that was given to this person."}
    },
    f"{_PERSON}/guidelines": {
        "get": {
            "id": "guidelines", "gives": Guidelines, "does": "How to judge, in Markdown.",
            "query": [_parameter("lang", "query", {"enum": ["en", "zh"], "default": "en"})],
        }
    },
    f"{_OWNER}/overview": {"get": {"id": "overview", "gives": Overview, "does": "How the round stands."}},
    f"{_OWNER}/waiting": {"get": {"id": "waiting", "gives": Queue, "does": "The items that wait for the owner."}},
    f"{_OWNER}/items/{{item}}": {
        "get": {"id": "dispute", "gives": Dispute, "does": "An item with the votes on it; blinded for the owner, too."}
    },
    f"{_OWNER}/items/{{item}}/media/{{sha256}}": {
        "get": {"id": "ownerPicture", "gives": _PICTURES, "does": "A picture of this item."}
    },
    f"{_OWNER}/decisions": {
        "post": {"id": "decide", "changes": True, "takes": Ruling, "does": "The owner's word on an item is kept."}
    },
    f"{_OWNER}/export.jsonl": {
        "get": {
            "id": "export", "gives": {"application/x-ndjson": {"schema": _LINE}},
            "does": "Every answer that holds, of one annotator or of all.",
            "query": [_parameter("annotator", "query", _TEXT)],
        }
    },
}  # fmt: skip
