"""A fast OpenAI-compatible server for tests and benchmarks, over a real socket and in a process of its own.

It answers with a text derived from the request alone (`hash_reply`), or with what a function of one's own returns; it
can be slow, and it can misbehave on purpose. It counts calls, keeps the bodies that it received, and speaks no
more of the protocol than chat completions, pictures, speech (both made from the request's hash), embeddings (of words
by their hashes) and the list of models.

    with StandIn(latency_s=0.2, faults={"429": 0.05, "cut": 0.02}) as server:
        server.base_url, server.stats(), server.bodies()

Faults, each a share of the calls, or named one by one in `script` (the first calls get them in that order, "ok" is
none): 429 (Retry-After as `retry_after` says), any other status ("500", "503", "401", "400:content_filter"), cut (the
body ends before its length), half (a whole body, but half the JSON), drop (the connection closes unanswered), hang (no
answer at all), empty (no text), filter (withheld), length (cut at the limit). `refuses` names what the server takes
for a bad request: "response_format", "images", "max_tokens", "temperature"; of speech "instructions". `makes` is what
pictures and speech come out as: "good", "broken", or "wrong" (a text; an address in a picture's place).
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import importlib.util
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import orjson
from aiohttp import web

WORDS = (
    "heavy",
    "quiet",
    "night",
    "work",
    "home",
    "talk",
    "rest",
    "hope",
    "week",
    "alone",
    "sleep",
    "slowly",
    "together",
)
KEPT_BODIES = 20_000
REFUSALS = {
    "response_format": ("response_format", "this server has no 'response_format'", "invalid_request_error"),
    "images": ("messages", "this model does not support image input", "invalid_request_error"),
    "max_tokens": ("max_tokens", "Unsupported parameter: use 'max_completion_tokens'", "unsupported_parameter"),
    "temperature": ("temperature", "Only the default (1) is supported", "unsupported_value"),
    "structured_outputs": ("structured_outputs", "Unrecognized request argument: structured_outputs", "unknown"),
    "instructions": ("instructions", "Unrecognized request argument: instructions", "invalid_request_error"),
}


def hash_reply(body: Mapping[str, Any]) -> str:
    """The text for `body`: the same for the same model, messages, temperature and seed.

    It obeys: JSON where a schema is asked for (as a parameter or in words), one of the choices where those are.
    """
    asked = {k: body.get(k) for k in ("model", "messages", "temperature", "seed")}
    digest = hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).digest()
    draw = random.Random(digest)
    form = body.get("response_format")
    if isinstance(form, dict) and form.get("type") == "json_schema":
        return orjson.dumps(instance(form["json_schema"]["schema"], draw)).decode()
    if "structured_outputs" in body:
        return draw.choice(body["structured_outputs"]["choice"])
    asked_last = str(body["messages"][-1]["content"]).rpartition("Answer with ")[2]
    if asked_last.startswith("one JSON value"):
        return orjson.dumps(instance(orjson.loads(asked_last.partition("\n")[2]), draw)).decode()
    if asked_last.startswith("exactly one of these"):
        return draw.choice(asked_last.partition(": ")[2].split(" | "))
    return " ".join(draw.choices(WORDS, k=12)) + f" [{digest.hex()[:12]}]"


def instance(schema: Mapping[str, Any], draw: random.Random) -> Any:
    """A value that is valid under `schema` (the part of JSON schema that the toolkit's stages use)."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw.choice(schema["enum"])
    if "anyOf" in schema:
        return instance(draw.choice(schema["anyOf"]), draw)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = draw.choice(kind)
    if kind == "object":
        return {name: instance(s, draw) for name, s in schema.get("properties", {}).items()}
    if kind == "array":
        least = schema.get("minItems", 0)
        size = draw.randint(least, min(schema.get("maxItems", least + 2), least + 2))
        return [instance(schema.get("items", {}), draw) for _ in range(size)]
    if kind in ("integer", "number"):
        low = schema.get("minimum", 0)
        return draw.randint(int(low), int(schema.get("maximum", low + 10)))
    if kind == "boolean":
        return draw.random() < 0.5
    if kind == "null":
        return None
    text = " ".join(draw.choices(WORDS, k=8))[: schema.get("maxLength", 200)]
    return text.ljust(schema.get("minLength", 0), ".")


class Server:
    """The state of one stand-in: its settings, its counts, and the bodies it received."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.reply: Callable[[Mapping[str, Any]], Any] = load(options["reply"]) if options.get("reply") else hash_reply
        self.set(options)

    def set(self, options: Mapping[str, Any]) -> None:
        self.latency_s: float = options.get("latency_s", 0.0)
        self.faults: dict[str, float] = dict(options.get("faults") or {})
        self.script: list[str] = list(options.get("script") or [])
        self.retry_after: str = options.get("retry_after", "1")
        self.refuses: list[str] = list(options.get("refuses") or [])
        self.makes: str = options.get("makes", "good")
        self.key: str | None = options.get("key")
        self.listed: list[str] | None = options.get("models")
        self.keep: bool = options.get("keep_bodies", True)
        self.draw = random.Random(options.get("seed", 0))
        self.counts: Counter[str] = Counter()
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.under_way = 0
        self.most_under_way = 0

    def fault(self) -> str:
        if self.script:
            return self.script.pop(0)
        point = self.draw.random()
        for name, share in self.faults.items():
            point -= share
            if point < 0:
                return name
        return "ok"

    async def chat(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        fault = self.fault()
        self.counts["calls"] += 1
        self.counts[fault] += 1
        if self.keep and len(self.bodies) < KEPT_BODIES:
            self.bodies.append(raw)
            self.headers.append({k.lower(): v for k, v in request.headers.items()})
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return await self.answer(request, raw, fault)
        finally:
            self.under_way -= 1

    async def answer(self, request: web.Request, raw: bytes, fault: str) -> web.StreamResponse:
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return problem(401, f"Incorrect API key: {request.headers.get('Authorization')}", "invalid_api_key")
        if fault == "hang":
            await asyncio.sleep(3600)
        if fault == "429":
            return problem(429, "slow down", "rate_limit_exceeded", headers={"Retry-After": self.retry_after})
        if fault == "drop":
            if request.transport is not None:
                request.transport.close()
            return web.Response()
        if fault.partition(":")[0].isdigit():
            status, _, code = fault.partition(":")
            return problem(int(status), f"told to answer {status}", code)
        body = orjson.loads(raw)
        refused = self.refused(body)
        if refused is not None:
            return problem(400, refused[1], refused[2], refused[0])
        if self.latency_s:
            await asyncio.sleep(self.latency_s)
        data = self.completion(body, fault)
        if fault == "half":
            data = data[: len(data) // 2]
        if fault == "cut":
            return await cut(request, data)
        return web.Response(body=data, content_type="application/json")

    def refused(self, body: Mapping[str, Any]) -> tuple[str, str, str] | None:
        has = {
            **{name: name in body for name in REFUSALS},
            "images": any(isinstance(m["content"], list) for m in body["messages"]),
        }
        return next((REFUSALS[name] for name in self.refuses if has[name]), None)

    def completion(self, body: Mapping[str, Any], fault: str) -> bytes:
        made = self.reply(body)
        message = made if isinstance(made, dict) else {"role": "assistant", "content": made}
        text, finish = str(message.get("content") or ""), "stop"
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or 1 << 30
        words = text.split(" ")
        for stop in body.get("stop") or ():
            text = text.partition(stop)[0]
        if fault == "empty":
            text = ""
        elif fault == "filter":
            text, finish = "", "content_filter"
        elif fault == "length" or len(words) > limit:
            text, finish = (
                " ".join(words[: min(limit, max(1, len(words) // 2) if fault == "length" else limit)]),
                "length",
            )
        choice: dict[str, Any] = {"index": 0, "message": {**message, "content": text}, "finish_reason": finish}
        if body.get("logprobs"):
            choice["logprobs"] = {"content": [{"token": w, "logprob": -0.5, "top_logprobs": []} for w in text.split()]}
        prompt = sum(len(str(m["content"]).split()) for m in body["messages"])
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": len(text.split()),
            "total_tokens": prompt + len(text.split()),
        }
        return orjson.dumps(
            {
                "id": "c",
                "object": "chat.completion",
                "created": 0,
                "model": body.get("model"),
                "choices": [choice],
                "usage": usage,
            }
        )

    async def images(self, request: web.Request) -> web.StreamResponse:
        return await self.make(request, "response_format", picture_reply)

    async def speech(self, request: web.Request) -> web.StreamResponse:
        return await self.make(request, "instructions", speech_reply)

    async def make(
        self, request: web.Request, optional: str, reply: Callable[[bytes, str], web.Response]
    ) -> web.StreamResponse:
        raw = await request.read()
        self.counts["made"] += 1
        self.bodies.append(raw)
        self.headers.append({**{k.lower(): v for k, v in request.headers.items()}, "path": request.path})
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return problem(401, "Incorrect API key", "invalid_api_key")
        fault = self.fault()
        if fault.partition(":")[0].isdigit():
            status, _, code = fault.partition(":")
            return problem(int(status), f"told to answer {status}", code)
        if optional in self.refuses and optional in orjson.loads(raw):
            param, message, code = REFUSALS[optional]
            return problem(400, message, code, param)
        return reply(raw, self.makes)

    async def embeddings(self, request: web.Request) -> web.Response:
        raw = await request.read()
        self.counts["embedded"] += 1
        self.bodies.append(raw)
        self.headers.append({**{k.lower(): v for k, v in request.headers.items()}, "path": request.path})
        vectors = [embed(text) for text in orjson.loads(raw)["input"]]
        data = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(vectors)]
        return web.json_response({"object": "list", "data": data, "model": "e", "usage": {}})

    async def models(self, request: web.Request) -> web.Response:
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return problem(401, "Incorrect API key", "invalid_api_key")
        if self.listed is None:
            return problem(404, "there is no list of models here")
        return web.json_response({"object": "list", "data": [{"id": m, "object": "model"} for m in self.listed]})

    async def stats(self, _: web.Request) -> web.Response:
        return web.json_response({**self.counts, "most_under_way": self.most_under_way})

    async def received(self, _: web.Request) -> web.Response:
        pairs = b",".join(
            b'{"headers":%b,"body":%b}' % (orjson.dumps(h), b) for h, b in zip(self.headers, self.bodies, strict=True)
        )
        return web.Response(body=b"[%b]" % pairs, content_type="application/json")

    async def reset(self, request: web.Request) -> web.Response:
        self.set(await request.json())
        return web.json_response({})

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_post("/v1/images/generations", self.images)
        app.router.add_post("/v1/audio/speech", self.speech)
        app.router.add_post("/v1/embeddings", self.embeddings)
        app.router.add_get("/v1/models", self.models)
        app.router.add_get("/_stats", self.stats)
        app.router.add_get("/_received", self.received)
        app.router.add_post("/_reset", self.reset)
        return app


def problem(status: int, message: str, code: str = "", param: str = "", headers: Any = None) -> web.Response:
    error = {"message": message, "type": "error", "code": code or None, "param": param or None}
    return web.json_response({"error": error}, status=status, headers=headers)


def embed(text: str) -> list[float]:
    """How often words of each of eight kinds stand in a text; a text without letters has a vector of zeros."""
    kinds = Counter(hashlib.sha256(word.encode()).digest()[0] % 8 for word in re.findall("[a-z]+", text.lower()))
    return [float(kinds[n]) for n in range(8)]


def picture_reply(raw: bytes, makes: str) -> web.Response:
    """An OpenAI image answer: a PNG whose colour is the request's hash."""
    import io

    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (48, 48), tuple(hashlib.sha256(raw).digest()[:3])).save(out, "PNG")
    data = out.getvalue()[: 60 if makes == "broken" else None]
    item = {"url": "http://127.0.0.1/x.png"} if makes == "wrong" else {"b64_json": base64.b64encode(data).decode()}
    return web.json_response({"created": 0, "data": [item]})


def speech_reply(raw: bytes, makes: str) -> web.Response:
    """An MP3 whose pitch is the request's hash."""
    import io

    import numpy as np
    import soundfile

    out = io.BytesIO()
    pitch = 100 + hashlib.sha256(raw).digest()[0]
    soundfile.write(out, 0.2 * np.sin(2 * np.pi * pitch * np.arange(4000) / 16_000), 16_000, format="MP3")
    data = {"wrong": b"<html></html>", "broken": out.getvalue()[:12]}.get(makes, out.getvalue())
    return web.Response(body=data, content_type="audio/mpeg")


async def cut(request: web.Request, data: bytes) -> web.StreamResponse:
    """Promise `data`, send half of it, and close."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(data)
    await response.prepare(request)
    await response.write(data[: len(data) // 2])
    if request.transport is not None:
        request.transport.close()
    return response


def load(name: str) -> Callable[[Mapping[str, Any]], Any]:
    """The function `FILE.py:NAME`."""
    file, _, function = name.rpartition(":")
    spec = importlib.util.spec_from_file_location("stand_in_reply", file)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{file}: cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, function)


class StandIn:
    """The server in a process of its own, for the length of a `with` block. Options as the module tells.

    `reply` is "FILE.py:FUNCTION" (body -> text, or the whole message as a dict); `cpu` pins the process to that core;
    `key` is the only Bearer key that it takes.
    """

    def __init__(
        self,
        *,
        latency_s: float = 0.0,
        faults: Mapping[str, float] | None = None,
        script: Sequence[str] = (),
        refuses: Sequence[str] = (),
        cpu: int | None = None,
        port: int = 0,
        **options: Any,
    ) -> None:
        self.options = {
            "latency_s": latency_s,
            "faults": dict(faults or {}),
            "script": list(script),
            "refuses": list(refuses),
            **options,
        }
        self._arguments = ["--port", str(port)] + ([] if cpu is None else ["--cpu", str(cpu)])
        self._process: subprocess.Popen[str] | None = None
        self.port = port

    def __enter__(self) -> StandIn:
        command = [sys.executable, str(Path(__file__).resolve()), *self._arguments, json.dumps(self.options)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise RuntimeError("the stand-in did not start")
        self.port = int(line)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        return f"{self.root}/v1"

    def reset(self, **options: Any) -> None:
        """Forget counts and bodies; behave as `options` say from now on (the reply function stays)."""
        data = json.dumps({**self.options, **options}).encode()
        urlopen(Request(f"{self.root}/_reset", data=data), timeout=10).read()

    def stats(self) -> dict[str, int]:
        """Calls in all, by fault ("ok" among them), and the most under way at once."""
        return Counter(json.load(urlopen(f"{self.root}/_stats", timeout=10)))

    def received(self) -> list[dict[str, Any]]:
        """Headers (lower case) and parsed body of each call, in order of arrival."""
        return json.load(urlopen(f"{self.root}/_received", timeout=30))

    def bodies(self) -> list[dict[str, Any]]:
        return [r["body"] for r in self.received()]

    def pictures(self) -> list[list[bytes]]:
        """The pictures in each chat request that holds any, decoded from their data URLs."""
        found = []
        for body in self.bodies():
            parts = [p for m in body.get("messages", ()) if isinstance(m["content"], list) for p in m["content"]]
            urls = [p["image_url"]["url"] for p in parts if p["type"] == "image_url"]
            if urls:
                found.append([base64.b64decode(url.partition(";base64,")[2], validate=True) for url in urls])
        return found


async def serve(options: Mapping[str, Any], port: int) -> None:
    runner = web.AppRunner(Server(options).app(), access_log=None, keepalive_timeout=75)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, backlog=4096)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="A fast OpenAI-compatible server that answers from a hash.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--cpu", type=int)
    parser.add_argument("options", nargs="?", default="{}", help="JSON, as StandIn's keyword arguments")
    arguments = parser.parse_args()
    if arguments.cpu is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {arguments.cpu})
    asyncio.run(serve(json.loads(arguments.options), arguments.port))


if __name__ == "__main__":
    main()
