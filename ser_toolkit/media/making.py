"""Faces and voices that a model makes, through OpenAI-compatible endpoints.

Each is a ChatModel whose reply is the path of a file in the media store. So a `JournaledChat` around it keeps every
finished call, and a build that is run again asks for nothing twice (`made.made_path` asks anew where a file is gone).
"""

from __future__ import annotations

import base64
import binascii
from abc import ABC, abstractmethod
from typing import Any

import orjson

from ser_toolkit.errors import RecordError, UsageError
from ser_toolkit.llm.chat import Reply, Request, Usage
from ser_toolkit.llm.keys import read_key
from ser_toolkit.llm.meter import UsageMeter
from ser_toolkit.llm.openai import base_url
from ser_toolkit.llm.openai_transport import Transport
from ser_toolkit.llm.openai_wire import MalformedReply, Refusal
from ser_toolkit.recipe import Endpoint
from ser_toolkit.recipe import Media as Policy

from .intake import take_in
from .made import UNUSABLE
from .sniffing import HEAD, Kind, sniff
from .store import MediaStore


class Maker(ABC):
    """A model that makes media of one kind. `optional` names the parameters that a server may refuse to take."""

    vision = False
    context_tokens: int | None = None
    languages: frozenset[str] = frozenset()
    optional: tuple[str, ...] = ()
    kind: Kind
    path: str

    def __init__(
        self, settings: Endpoint, section: str, model: str, variant: str, store: MediaStore, policy: Policy
    ) -> None:
        if not settings.base_url:
            raise UsageError(
                f"{section}: no server is named",
                f"--set {section}.base_url=https://api.openai.com/v1, or that of any OpenAI-compatible server",
            )
        bases = sorted({base_url(text) for text in settings.base_url}, key=str)
        self.model = model
        self.identity = f"{settings.identity or ','.join(map(str, bases))} {variant}"
        self.meter = UsageMeter()
        self._store = store
        self._policy = policy
        self._refused: set[str] = set()
        self._transport = Transport(
            bases,
            self.path,
            section=section,
            key=read_key(settings),
            key_env=settings.api_key_env,
            concurrency=settings.concurrency,
            timeout_s=settings.timeout_s,
            max_retries=settings.max_retries,
            meter=self.meter,
        )

    async def complete(self, request: Request) -> Reply:
        """Make it once. Raises RecordError (refused_request, timeout, unavailable) or RemoteError."""
        body = self.body(request)
        while True:
            sent = {k: v for k, v in body.items() if k not in self._refused}
            try:
                data = await self._transport.post(orjson.dumps(sent), self.parse)
                break
            except Refusal as refusal:
                if refusal.is_content_filter:
                    return Reply("", "content_filter")
                told = f"{refusal.param} {refusal.message}"
                refused = next((name for name in self.optional if name in sent and name in told), None)
                if refused is None:
                    raise RecordError("refused_request", f"HTTP {refusal.status}: {refusal.message}") from refusal
                self.meter.retry("other form")
                self._refused.add(refused)
        self.meter.add(Usage())
        try:
            return Reply(take_in(data, self.kind, self._store, self._policy)[0].path or "")
        except RecordError as exc:
            return Reply(exc.reason, UNUSABLE)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    @abstractmethod
    def body(self, request: Request) -> dict[str, Any]:
        """What is sent for this request."""

    @staticmethod
    @abstractmethod
    def parse(data: bytes) -> bytes:
        """The file in an answer. Raises MalformedReply."""


class FaceMaker(Maker):
    """Pictures, by /images/generations: the last message is the picture's description."""

    kind = "image"
    path = "/images/generations"
    optional = ("response_format",)

    def __init__(self, store: MediaStore, policy: Policy) -> None:
        made = policy.image
        super().__init__(made, "media.image", made.model, made.size, store, policy)

    def body(self, request: Request) -> dict[str, Any]:
        return {
            "model": self.model,
            "prompt": "\n\n".join(m.text for m in request.messages),
            "n": 1,
            "size": self._policy.image.size,
            "response_format": "b64_json",
        }

    @staticmethod
    def parse(data: bytes) -> bytes:
        """The picture must stand in the answer itself: an address of one is not followed."""
        try:
            return base64.b64decode(orjson.loads(data)["data"][0]["b64_json"], validate=True)
        except (KeyError, IndexError, TypeError, binascii.Error, ValueError) as exc:
            raise MalformedReply("no data[0].b64_json in the body") from exc


class VoiceMaker(Maker):
    """Speech, by /audio/speech: the user's message is what is said, the system's how."""

    kind = "audio"
    path = "/audio/speech"
    optional = ("instructions",)

    def __init__(self, store: MediaStore, policy: Policy) -> None:
        made = policy.speech
        super().__init__(made, "media.speech", made.model, made.voice, store, policy)

    def body(self, request: Request) -> dict[str, Any]:
        *how, said = request.messages
        return {
            "model": self.model,
            "input": said.text,
            "voice": self._policy.speech.voice,
            "response_format": "mp3",
            "instructions": "\n\n".join(m.text for m in how),
        }

    @staticmethod
    def parse(data: bytes) -> bytes:
        type = sniff(data[:HEAD])
        if type is None or type.kind != "audio":
            raise MalformedReply("the body is no MP3, WAV or FLAC")
        return data
