"""A small model inside this process: llama.cpp (through xllamacpp) on the CPU, no server to start, no port open.

It serves to run everything for real on a machine that has nothing; what it writes tests the machinery and is no
training data. Any GGUF of one's own may take its place.

Same request, same text, whatever runs beside it and whatever the slot's prompt cache holds. That is not llama.cpp's
default: with its 16-bit KV cache, a prompt read in other pieces gave other last digits (11 of 12 requests), and soon
another text. With an 8-bit one its flash attention goes row by row, and all log-probabilities of 18 requests were equal
to the last bit: alone and four at once, cached and not, over two turns. It halves the cache's memory, too.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson

from ..errors import DataError, RecordError, UsageError
from ..recipe import Llm
from .chat import Reply, Request, Usage
from .embedded_files import builtin_model, file_sha256, own_model, training_context
from .meter import UsageMeter

SLOTS = 4
"""Requests worked on at once. On two cores, a dialogue a worker and its parts in turn, 4 took a tenth less CPU than 1
(each reads its history once); one dialogue's parts all at once would read it in each slot."""

SLOT_TOKENS = 1536
"""Context of a slot unless the recipe says otherwise. Prompts are read at some 240 tokens a second, so a longer one
would cost more time than it is worth with so small a model: stages cut a history at turn borders."""

PROMPT_BATCH = 512
"""Prompt tokens read between two looks at whether the request still matters (2 s on two cores)."""


class EmbeddedChat:
    """One GGUF model with `max_concurrency` slots. There is no time limit: it may be slow, but it cannot be lost."""

    vision = False

    def __init__(self, file: Path, settings: Llm, *, languages: frozenset[str] = frozenset()) -> None:
        trained = training_context(file)
        self.identity = settings.identity or "embedded"
        self.model = f"{file.name.removesuffix('.gguf')}-{file_sha256(file)[:12]}"
        self.languages = languages
        self.context_tokens = min(trained or SLOT_TOKENS, settings.context_tokens or SLOT_TOKENS)
        self.max_concurrency = min(settings.concurrency, SLOTS)
        self.meter = UsageMeter()
        self._server = start(file, self.max_concurrency, self.context_tokens)
        self._threads = ThreadPoolExecutor(self.max_concurrency, thread_name_prefix="embedded")
        self._under_way: set[_Call] = set()

    async def complete(self, request: Request) -> Reply:
        """Answer once. Raises RecordError (refused_request): too long a prompt, a schema that it cannot follow."""
        if self._server is None:
            raise RuntimeError("the model is closed")
        call = _Call(self._server, encode(request))
        self._under_way.add(call)
        try:
            reply = await asyncio.get_running_loop().run_in_executor(self._threads, call.run)
        finally:
            call.stop.set()  # cancelled: the slot is free again after the token that it is at
            self._under_way.discard(call)
        self.meter.add(reply.usage)
        return reply

    async def aclose(self) -> None:
        """Stop what is under way and free the model."""
        for call in self._under_way:
            call.stop.set()
        await asyncio.to_thread(self._threads.shutdown)
        self._server = None


def open_model(spec_arg: str, settings: Llm) -> EmbeddedChat:
    """The built-in model, or the GGUF at `spec_arg`.

    Raises UsageError (no such file), DataError (no GGUF, or one that does not load), RemoteError (cannot be fetched).
    """
    if spec_arg:
        return EmbeddedChat(own_model(spec_arg), settings)
    return EmbeddedChat(builtin_model(), settings, languages=frozenset({"en"}))


def start(file: Path, slots: int, slot_tokens: int) -> Any:
    """The llama.cpp server of `file`, which prints nothing and which nobody can reach from outside."""
    xllamacpp = _library()
    params = xllamacpp.CommonParams()
    params.model.path = str(file)
    params.verbosity = -1
    params.n_parallel, params.n_ctx = slots, slots * slot_tokens
    params.n_batch = PROMPT_BATCH
    params.cache_ram_mib = 0  # keeps no states of past prompts: gigabytes, for what the slots hold anyway
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_Q8_0
    params.cpuparams.n_threads = threads()
    params.cpuparams.poll = 0  # threads that spin while they wait bring a busy machine to a standstill
    params.ui, params.endpoint_slots, params.api_keys, params.n_threads_http = False, False, [secrets.token_hex(32)], 1
    with tempfile.TemporaryDirectory(prefix="ser-") as private:
        # It insists on listening. A socket in a folder of ours that is gone a moment later admits nobody; where there
        # are no such sockets, a loopback port with a key that nobody is told.
        socket = Path(private) / "s.sock"
        if os.name == "posix" and len(str(socket)) < 100:
            params.hostnames = [str(socket)]
        try:
            return xllamacpp.Server(params)
        except RuntimeError as exc:
            raise DataError(
                f"{file}: llama.cpp cannot load it: {exc}", "is it whole, and is there memory for it?"
            ) from exc


def _library() -> Any:
    """xllamacpp, its OpenMP told on loading that threads which wait shall sleep.

    By default they spin: on two cores that others use too, four requests took over 78 s, and 17 s when asleep.
    """
    own = "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ
    if not own:
        os.environ["OMP_WAIT_POLICY"] = "passive"
    try:
        import xllamacpp.xllamacpp as xllamacpp
    except ImportError as exc:
        raise UsageError(f"the embedded model needs xllamacpp: {exc}", "pip install xllamacpp") from exc
    finally:
        if not own:
            del os.environ["OMP_WAIT_POLICY"]
    return xllamacpp


def threads() -> int:
    """Threads to compute with: OMP_NUM_THREADS, else the cores that this process may use."""
    if (told := os.environ.get("OMP_NUM_THREADS", "")).isdigit():
        return max(1, int(told))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_MARK = re.compile(r"<(?=\|\w+\|>|/?s>|(?:start|end)_of_turn>)")
"""Opens what llama.cpp, reading a chat, takes for its template's own: nobody ends a turn by writing <|im_end|>."""


def encode(request: Request) -> dict[str, Any]:
    """The request as llama.cpp's chat handler takes it; sampling defaults of the library's are spelled out."""
    body: dict[str, Any] = {
        "messages": [{"role": m.role, "content": _MARK.sub("< ", m.text)} for m in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": 40,
        "min_p": 0.05,
        "cache_prompt": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
    }
    if request.seed is not None:
        body["seed"] = request.seed % 2**32
    if request.stop:
        body["stop"] = list(request.stop)
    if request.logprobs is not None:
        body["logprobs"], body["top_logprobs"] = True, request.logprobs
    if request.choices:
        body["grammar"] = "root ::= " + " | ".join(orjson.dumps(c).decode() for c in request.choices)
    elif request.schema is not None:
        schema = {"name": "reply", "schema": request.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


class _Call:
    """One request on its way through a worker thread: collects the stream, and can be told to stop."""

    def __init__(self, server: Any, body: dict[str, Any]) -> None:
        self.stop = threading.Event()
        self._server = server
        self._body = body
        self._texts: list[str] = []
        self._logprobs: list[dict[str, Any]] = []
        self._finish = ""
        self._usage = Usage()
        self._error: dict[str, Any] | None = None

    def run(self) -> Reply:
        """The whole reply; blocks."""
        if self.stop.is_set():
            return Reply("")
        try:
            self._server.handle_chat_completions(self._body, self._take)
        except (ValueError, RuntimeError) as exc:  # how the binding reports a schema or a message that it cannot take
            raise RecordError("refused_request", str(exc)[:500]) from exc
        if self._error is not None:
            raise self._refusal(self._error)
        if not self._finish and not self.stop.is_set():
            raise RecordError("unavailable", "the embedded model ended a reply without saying why")
        logprobs = self._logprobs if self._body.get("logprobs") else None
        return Reply("".join(self._texts), self._finish, self._usage, logprobs)

    def _take(self, chunk: dict[str, Any]) -> bool:
        """Keep one piece of the stream; True ends it. (What is raised here would be lost.)"""
        if "error" in chunk:
            self._error = chunk["error"]
        for choice in chunk.get("choices", ()):
            self._texts.append(choice.get("delta", {}).get("content") or "")
            self._logprobs.extend((choice.get("logprobs") or {}).get("content") or ())
            self._finish = choice.get("finish_reason") or self._finish
        if usage := chunk.get("usage"):
            self._usage = Usage(usage["prompt_tokens"], usage["completion_tokens"])
        return self.stop.is_set()

    @staticmethod
    def _refusal(error: dict[str, Any]) -> RecordError:
        if error.get("type") == "exceed_context_size_error":
            tokens, limit = error.get("n_prompt_tokens"), error.get("n_ctx")
            return RecordError("refused_request", f"the prompt has {tokens} tokens, a slot holds {limit}")
        kind = "refused_request" if error.get("code", 500) < 500 else "unavailable"
        return RecordError(kind, str(error.get("message", error))[:500])
