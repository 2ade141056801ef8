"""Any OpenAI-compatible server as a ChatModel: OpenAI, vLLM, SGLang, llama.cpp, Ollama, gateways.

Several base URLs are balanced by load. The key comes from the environment variable that the recipe names, goes into
one header, and appears in no error, repr or log. The openai package is not on this path: see `openai_transport`.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import orjson
from yarl import URL

from ..errors import RecordError, UsageError
from ..recipe import Llm
from .chat import Reply, Request
from .keys import read_key
from .listing import require_model
from .meter import UsageMeter
from .openai_transport import Transport
from .openai_wire import Dialect, Refusal, concede, decode, encode, form_for, learn

log = logging.getLogger(__name__)


class OpenAIChat:
    """A model behind one or more base URLs.

    `vision` "auto" sends images until the server refuses one; then, with one warning, the same requests go without
    theirs, with the words that stand in their place (`Message.without_images`), and the replies say so. The attribute
    stays as it was, so that journal keys do not depend on the order of calls.

    A server's refusal of `response_format` is met once by asking for the JSON in the prompt, one of `max_tokens` by
    `max_completion_tokens`, one of another optional parameter by leaving it out (with a warning); what helped is kept.
    """

    languages: frozenset[str] = frozenset()

    def __init__(self, model: str, settings: Llm) -> None:
        self._bases = bases = sorted({base_url(text) for text in settings.base_url}, key=str)
        self.model = model
        self.identity = settings.identity or ",".join(str(base) for base in bases)
        self.vision = settings.vision != "false"
        self.context_tokens = settings.context_tokens
        self.meter = UsageMeter()
        self._settings = settings
        self._may_drop_images = settings.vision == "auto"
        self._dialect = Dialect(images=self.vision)
        self._transport = Transport(
            bases,
            "/chat/completions",
            key=read_key(settings),
            key_env=settings.api_key_env,
            concurrency=settings.concurrency,
            timeout_s=settings.timeout_s,
            max_retries=settings.max_retries,
            meter=self.meter,
        )

    def __repr__(self) -> str:
        return f"OpenAIChat({self.model!r} at {self.identity})"

    async def complete(self, request: Request) -> Reply:
        """Answer once. Raises RecordError (refused_request, timeout, unavailable) or RemoteError."""
        form = first = form_for(request, self._dialect)
        while True:
            try:
                reply = await self._transport.post(encode(request, self.model, form), _parse)
            except Refusal as refusal:
                if refusal.is_content_filter:
                    return Reply("", "content_filter")
                poorer = concede(refusal, request, form, may_drop_images=self._may_drop_images)
                if poorer is None:
                    raise RecordError("refused_request", f"HTTP {refusal.status}: {refusal.message}") from refusal
                self.meter.retry("other form")
                form = poorer
            else:
                if form != first:
                    for name in learn(self._dialect, request, form):
                        log.warning("%s does not take %s: from here on they are left out", self.model, name)
                self.meter.add(reply.usage)
                dropped = not form.images and any(m.images for m in request.messages)
                return replace(reply, images_dropped=True) if dropped else reply

    async def check(self) -> None:
        """Ask the servers for the model, unless the recipe says not to. Raises UsageError, RemoteError."""
        if self._settings.check_model:
            await require_model(
                self.model, self._bases, key=read_key(self._settings), key_env=self._settings.api_key_env
            )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


def _parse(data: bytes) -> Reply:
    return decode(orjson.loads(data))


def open_model(spec_arg: str, settings: Llm) -> OpenAIChat:
    """The model `spec_arg` at `settings.base_url`. Raises UsageError where either is missing or no URL."""
    if not spec_arg:
        raise UsageError("openai: no model is named", "write openai:MODEL, for example openai:gpt-4o-mini")
    if not settings.base_url:
        raise UsageError(
            f"openai:{spec_arg}: no server is named",
            "--set llm.base_url=https://api.openai.com/v1, or that of any OpenAI-compatible server",
        )
    return OpenAIChat(spec_arg, settings)


def base_url(text: str) -> URL:
    """A base URL, normalised: a scheme (http for this machine and bare hosts, else https), /v1 where there is no path,
    no trailing slash. Raises UsageError."""
    text = text.strip()
    try:
        url = URL(text if "://" in text else f"http://{text}")
        if "://" not in text and not _is_near(url.host or ""):
            url = url.with_scheme("https")
    except ValueError as exc:
        raise UsageError(f"llm.base_url: {text!r} is no URL: {exc}", "for example http://localhost:8000/v1") from exc
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError(f"llm.base_url: {text!r} is no http(s) URL", "for example http://localhost:8000/v1")
    path = url.path.rstrip("/").removesuffix("/chat/completions").rstrip("/")
    return url.with_path(path or "/v1", keep_query=True)


def _is_near(host: str) -> bool:
    """Whether a host named without a scheme is likely to speak plain http: an address, or a name without a dot."""
    return "." not in host or host.replace(".", "").isdigit() or host.endswith((".local", ".internal"))
