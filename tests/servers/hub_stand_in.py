"""A Hub on loopback: the part of the Hugging Face Hub's HTTP API that pushing and loading a dataset uses.

Repositories with commits, branches and tags are kept in memory; a private one answers 401 without its owner's token;
large files travel by LFS and are served through a redirect, as the Hub does. `calls` counts requests by route, and
`fail` makes a route fail.

    with HubStandIn() as hub:
        ... HF_ENDPOINT=hub.url HF_TOKEN=hub.token HF_HUB_DISABLE_XET=1 ...
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.servers.hub_repository import Answer, Blob, Refusal, Repo

LFS_SUFFIXES = (".parquet",)


class HubStandIn:
    def __init__(self, user: str = "me", token: str = "hf_stand_in") -> None:
        self.user, self.token = user, token
        self.repos: dict[str, Repo] = {}
        self.lfs: dict[str, bytes] = {}
        self.calls: Counter[str] = Counter()
        self._faults: dict[str, list[int]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        # Another host by name, as the Hub's is: a client keeps the Hub's headers, not those of its CDN.
        self.cdn = f"http://localhost:{self._server.server_port}/cdn"

    def __enter__(self) -> HubStandIn:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """What a client's process needs."""
        return {"HF_ENDPOINT": self.url, "HF_TOKEN": self.token, "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}

    def add_repo(self, id: str, private: bool) -> Repo:
        repo = self.repos[id] = Repo(id, private)
        repo.commit({".gitattributes": Blob(b"*.parquet filter=lfs\n", False)}, "initial commit")
        return repo

    def fail(self, route: str, status: int, times: int = 1) -> None:
        """The next `times` requests of a route get this status."""
        self._faults[route] = [status] * times

    def answer(self, method: str, target: str, headers: Any, body: bytes) -> Answer:
        url = urlsplit(target)
        verb = "GET" if method == "HEAD" else method
        found = ((n, m, act) for n, v, p, act in ROUTES if v == verb and (m := p.fullmatch(url.path)))
        name, match, action = next(found, (None, None, None))
        if name is None or match is None or action is None:
            raise Refusal(404, f"no such route: {method} {url.path}")
        with self._lock:
            self.calls[name] += 1
            if self._faults.get(name):
                raise Refusal(self._faults[name].pop(), "out of order, as the test asked")
            user = self._user(headers.get("Authorization"))
            return action(self, user, [unquote(g or "") for g in match.groups()], parse_qs(url.query), body, headers)

    def _user(self, authorization: str | None) -> str | None:
        if authorization is None:
            return None
        if authorization == f"Bearer {self.token}":
            return self.user
        raise Refusal(401, "Invalid credentials in Authorization header", "InvalidCredentials")

    def repo(self, id: str, user: str | None, *, writing: bool = False) -> Repo:
        repo = self.repos.get(id)
        owns = user is not None and id.startswith(f"{user}/")
        if repo is None or (repo.private and not owns):
            # The Hub does not tell a stranger whether a private repository is there.
            raise Refusal(404 if user else 401, "Repository not found", "RepoNotFound")
        if writing and not owns:
            raise Refusal(403 if user else 401, "You may not write here", "Forbidden")
        return repo

    def revision(self, repo: Repo, revision: str) -> tuple[str, dict[str, Blob]]:
        oid = repo.resolve(revision)
        if oid is None:
            raise Refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return oid, repo.commits[oid]


Action = Callable[[HubStandIn, str | None, list[str], dict[str, list[str]], bytes, Any], Answer]
ROUTES: list[tuple[str, str, re.Pattern[str], Action]] = []


def route(name: str, method: str, pattern: str) -> Callable[[Action], Action]:
    def register(action: Action) -> Action:
        ROUTES.append((name, method, re.compile(pattern.replace("ID", "([^/]+/[^/]+)")), action))
        return action

    return register


@route("whoami", "GET", "/api/whoami-v2")
def whoami(hub: HubStandIn, user: str | None, args: list[str], query: Any, body: bytes, headers: Any) -> Answer:
    if user is None:
        raise Refusal(401, "Invalid username or password.")
    return Answer({"type": "user", "name": user, "orgs": [], "auth": {"type": "access_token"}})


@route("create", "POST", "/api/repos/create")
def create(hub: HubStandIn, user: str | None, args: list[str], query: Any, body: bytes, headers: Any) -> Answer:
    asked = json.loads(body)
    id = f"{asked.get('organization') or user}/{asked['name']}"
    if user is None:
        raise Refusal(401, "Invalid username or password.")
    if not id.startswith(f"{user}/"):
        raise Refusal(403, f"You don't have the rights to create a dataset under {id.split('/')[0]}")
    if id in hub.repos:
        raise Refusal(409, "You already created this dataset repo")
    if asked.get("type") != "dataset":
        raise Refusal(400, "this stand-in holds datasets alone")
    hub.add_repo(id, private=bool(asked.get("private")) or asked.get("visibility") == "private")
    return Answer({"url": f"{hub.url}/datasets/{id}", "name": id, "id": id})


@route("info", "GET", "/api/datasets/ID(?:/revision/([^/]+))?")
def info(hub: HubStandIn, user: str | None, args: list[str], query: Any, body: bytes, headers: Any) -> Answer:
    repo = hub.repo(args[0], user)
    oid, files = hub.revision(repo, args[1] or "main")
    return Answer(
        {
            "_id": "1", "id": repo.id, "author": hub.user, "sha": oid, "private": repo.private, "gated": False,
            "disabled": False, "tags": [], "downloads": 0, "likes": 0, "lastModified": "2026-01-01T00:00:00.000Z",
            "createdAt": "2026-01-01T00:00:00.000Z", "siblings": [{"rfilename": path} for path in files],
        }
    )  # fmt: skip


@route("refs", "GET", "/api/datasets/ID/refs")
def refs(hub: HubStandIn, user: str | None, args: list[str], query: Any, body: bytes, headers: Any) -> Answer:
    repo = hub.repo(args[0], user)

    def listed(kind: str, names: dict[str, str]) -> list[dict[str, str]]:
        return [{"name": n, "ref": f"refs/{kind}/{n}", "targetCommit": oid} for n, oid in names.items()]

    return Answer({"branches": listed("heads", repo.branches), "tags": listed("tags", repo.tags), "converts": []})


@route("preupload", "POST", "/api/datasets/ID/preupload/([^/]+)")
def preupload(hub: HubStandIn, user: str | None, args: list[str], query: Any, body: bytes, headers: Any) -> Answer:
    repo = hub.repo(args[0], user, writing=True)
    _, files = hub.revision(repo, args[1])
    return Answer(
        {
            "files": [
                {
                    "path": f["path"],
                    "uploadMode": "lfs" if f["path"].endswith(LFS_SUFFIXES) else "regular",
                    "shouldIgnore": False,
                    "oid": files[f["path"]].etag if f["path"] in files else None,
                }
                for f in json.loads(body)["files"]
            ]
        }
    )


@route("lfs-batch", "POST", r"/datasets/ID\.git/info/lfs/objects/batch")
def lfs_batch(hub: HubStandIn, user: str | None, args: list[str], query: Any, body: bytes, headers: Any) -> Answer:
    hub.repo(args[0], user, writing=True)
    objects = []
    for wanted in json.loads(body)["objects"]:
        entry = {"oid": wanted["oid"], "size": wanted["size"]}
        if wanted["oid"] not in hub.lfs:
            entry["actions"] = {"upload": {"href": f"{hub.url}/lfs/{wanted['oid']}", "header": {}}}
        objects.append(entry)
    return Answer({"transfer": "basic", "objects": objects})


@route("lfs-put", "PUT", "/lfs/([0-9a-f]{64})")
def lfs_put(hub: HubStandIn, user: str | None, args: list[str], query: Any, body: bytes, headers: Any) -> Answer:
    if hashlib.sha256(body).hexdigest() != args[0]:
        raise Refusal(400, "the content is not what its oid says")
    hub.lfs[args[0]] = body
    return Answer({})


@route("commit", "POST", "/api/datasets/ID/commit/([^/]+)")
def commit(hub: HubStandIn, user: str | None, args: list[str], query: Any, body: bytes, headers: Any) -> Answer:
    repo = hub.repo(args[0], user, writing=True)
    _, before = hub.revision(repo, args[1])
    files, message = dict(before), ""
    for line in body.splitlines():
        step = json.loads(line)
        value = step["value"]
        if step["key"] == "header":
            message = value["summary"]
        elif step["key"] == "file":
            files[value["path"]] = Blob(base64.b64decode(value["content"]), False)
        elif step["key"] == "lfsFile":
            if value["oid"] not in hub.lfs:
                raise Refusal(400, f"{value['path']}: its LFS object was not uploaded")
            files[value["path"]] = Blob(hub.lfs[value["oid"]], True)
        elif step["key"] == "deletedFile":
            if value["path"] not in files:
                raise Refusal(404, "A file with this name doesn't exist", "EntryNotFound")
            del files[value["path"]]
        else:
            raise Refusal(400, f"unknown operation {step['key']}")
    oid = repo.commit(files, message)
    url = f"{hub.url}/datasets/{repo.id}/commit/{oid}"
    return Answer({"success": True, "commitOid": oid, "commitUrl": url, "hookOutput": ""})


@route("tag", "POST", "/api/datasets/ID/tag/([^/]+)")
def tag(hub: HubStandIn, user: str | None, args: list[str], query: Any, body: bytes, headers: Any) -> Answer:
    repo = hub.repo(args[0], user, writing=True)
    oid, _ = hub.revision(repo, args[1])
    name = json.loads(body)["tag"]
    if name in repo.tags:
        raise Refusal(409, f"Tag {name} already exists")
    repo.tags[name] = oid
    return Answer({}, 201)


@route("tree", "GET", "/api/datasets/ID/tree/([^/]+)(?:/(.*))?")
def tree(hub: HubStandIn, user: str | None, args: list[str], query: Any, body: bytes, headers: Any) -> Answer:
    _, files = hub.revision(hub.repo(args[0], user), args[1])
    folder = args[2].strip("/")
    prefix = f"{folder}/" if folder else ""
    entries: dict[str, dict[str, Any]] = {}
    for path, blob in sorted(files.items()):
        if not path.startswith(prefix):
            continue
        parents = path[len(prefix) :].split("/")[:-1]
        for depth in range(1, len(parents) + 1):
            parent = prefix + "/".join(parents[:depth])
            entries[parent] = {"type": "directory", "path": parent, "oid": "0" * 40, "size": 0}
        entries[path] = _entry(path, blob)
    if prefix and not entries:
        raise Refusal(404, f"{folder} does not exist", "EntryNotFound")
    if query.get("recursive", ["false"])[0].lower() != "true":
        entries = {p: e for p, e in entries.items() if "/" not in p[len(prefix) :]}
    return Answer(list(entries.values()))


@route("paths-info", "POST", "/api/datasets/ID/paths-info/([^/]+)")
def paths_info(hub: HubStandIn, user: str | None, args: list[str], query: Any, body: bytes, headers: Any) -> Answer:
    _, files = hub.revision(hub.repo(args[0], user), args[1])
    try:
        paths = json.loads(body)["paths"]
    except ValueError:
        paths = parse_qs(body.decode())["paths"]
    found = []
    for path in [paths] if isinstance(paths, str) else paths:
        if path in files:
            found.append(_entry(path, files[path]))
        elif any(f.startswith(path.rstrip("/") + "/") for f in files):
            found.append({"type": "directory", "path": path, "oid": "0" * 40, "size": 0})
    return Answer(found)


@route("resolve", "GET", "/datasets/ID/resolve/([^/]+)/(.+)")
def resolve(hub: HubStandIn, user: str | None, args: list[str], query: Any, body: bytes, headers: Any) -> Answer:
    oid, files = hub.revision(hub.repo(args[0], user), args[1])
    blob = files.get(args[2])
    if blob is None:
        error = Answer({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": oid})
        return error
    common = {"X-Repo-Commit": oid, "Accept-Ranges": "bytes"}
    if blob.is_lfs:
        linked = {"X-Linked-Etag": f'"{blob.etag}"', "X-Linked-Size": str(len(blob.data))}
        return Answer({}, 302, {**common, **linked, "Location": f"{hub.cdn}/{blob.sha256}"})
    return _bytes(blob, common, headers)


@route("cdn", "GET", "/cdn/([0-9a-f]{64})")
def cdn(hub: HubStandIn, user: str | None, args: list[str], query: Any, body: bytes, headers: Any) -> Answer:
    return _bytes(Blob(hub.lfs[args[0]], True), {}, headers)


@route("validate-yaml", "POST", "/api/validate-yaml")
def validate_yaml(hub: HubStandIn, user: str | None, args: list[str], query: Any, body: bytes, headers: Any) -> Answer:
    return Answer({"errors": [], "warnings": []})


def _entry(path: str, blob: Blob) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "path": path, "size": len(blob.data), "oid": blob.git_oid}
    if blob.is_lfs:
        entry["lfs"] = {"oid": blob.sha256, "size": len(blob.data), "pointerSize": 130}
    return entry


def _bytes(blob: Blob, headers: dict[str, str], asked: Any) -> Answer:
    headers = {**headers, "ETag": f'"{blob.etag}"', "Content-Type": "application/octet-stream"}
    part = re.fullmatch(r"bytes=(\d+)-(\d*)", asked.get("Range") or "")
    if not part:
        return Answer(blob.data, 200, headers)
    start, end = int(part[1]), int(part[2] or len(blob.data) - 1)
    headers["Content-Range"] = f"bytes {start}-{min(end, len(blob.data) - 1)}/{len(blob.data)}"
    return Answer(blob.data[start : end + 1], 206, headers)


def _handler(hub: HubStandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def handle_any(self) -> None:
            body = self._body()
            try:
                answer = hub.answer(self.command, self.path, self.headers, body)
            except Refusal as refusal:
                headers = {"X-Error-Message": refusal.message}
                if refusal.code:
                    headers["X-Error-Code"] = refusal.code
                answer = Answer({"error": refusal.message}, refusal.status, headers)
            raw = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(raw)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = []
            while size := int(self.rfile.readline().strip() or b"0", 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)

        do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = handle_any

    return Handler
