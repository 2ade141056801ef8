"""Models of embeddings: an OpenAI-compatible server, or sentence-transformers here.

For measures, rewards, and the clusters of personalities. The texts are sent to the server that is named; the key stands
in the environment variable that the recipe names.
"""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from ser_toolkit.errors import RecordError, RemoteError, UsageError
from ser_toolkit.llm.chat import Reply, Request
from ser_toolkit.llm.keys import read_key
from ser_toolkit.llm.meter import UsageMeter
from ser_toolkit.metrics.repetition import Embedder
from ser_toolkit.recipe import Endpoint

BATCH = 100
"""Texts of one request."""


def open_embedder(spec: str, settings: Endpoint, asked_by: str = "--embed") -> Embedder:
    """`openai:MODEL` at `settings.base_url`, or `local:MODEL` (a name or a folder). Raises UsageError.

    `asked_by` is what a person set to name it. A local model is loaded when it is first needed.
    """
    backend, _, model = spec.partition(":")
    if not model or backend not in ("openai", "local"):
        raise UsageError(f"{asked_by} {spec}: not of the form openai:MODEL or local:MODEL")
    if backend == "local":
        return LocalEmbedder(model, asked_by)
    return ServerEmbedder(model, settings, asked_by)


class ServerEmbedder:
    """`/embeddings` of an OpenAI-compatible server; the first base URL, the service's own without any."""

    def __init__(self, model: str, settings: Endpoint, asked_by: str = "--embed") -> None:
        self.name = model
        self._asked_by = asked_by
        self._url = settings.base_url[0] if settings.base_url else None
        self._limits: dict[str, Any] = {"timeout": settings.timeout_s, "max_retries": settings.max_retries}
        self._key = read_key(settings)
        if self._url is None and not self._key:
            raise UsageError(
                f"{asked_by} openai:{model}: neither an address nor a key",
                f"--set llm.base_url=URL, or a key in {settings.api_key_env}",
            )

    def embed(self, texts: list[str]) -> np.ndarray:
        """Raises RemoteError where the server refuses, or answers with fewer vectors than texts."""
        import openai

        vectors: list[list[float]] = []
        try:
            with openai.OpenAI(base_url=self._url, api_key=self._key or "none", **self._limits) as client:
                for at in range(0, len(texts), BATCH):
                    batch = texts[at : at + BATCH]
                    answer = client.embeddings.create(model=self.name, input=batch, encoding_format="float")
                    vectors += [d.embedding for d in sorted(answer.data, key=lambda d: d.index)]
        except openai.OpenAIError as exc:
            raise RemoteError(
                f"the model of embeddings {self.name} does not answer: {exc}", f"mend it, or leave {self._asked_by} out"
            ) from exc
        if len(vectors) != len(texts):
            raise RemoteError(f"{self.name} gave {len(vectors)} embeddings for {len(texts)} texts")
        return np.array(vectors, dtype=np.float32)


class LocalEmbedder:
    """A model of sentence-transformers in this process; one call at a time."""

    def __init__(self, model: str, asked_by: str = "--embed") -> None:
        if not _has_transformers():
            raise UsageError(
                f"{asked_by} local:{model} needs sentence-transformers", "pip install 'ser-toolkit[train]'"
            )
        self.name = Path(model).name  # a report tells no machine's path
        self._spec, self._asked_by = model, asked_by
        self._model: Any = None
        self._lock = threading.Lock()

    def embed(self, texts: list[str]) -> np.ndarray:
        """Raises UsageError where the model cannot be loaded."""
        with self._lock:
            if self._model is None:
                self._model = self._load()
            return np.asarray(self._model.encode(texts, show_progress_bar=False), dtype=np.float32)

    def _load(self) -> Any:
        from sentence_transformers import SentenceTransformer  # pyright: ignore[reportMissingImports]

        try:
            return SentenceTransformer(self._spec)
        except (OSError, ValueError) as exc:
            raise UsageError(
                f"{self._asked_by} local:{self._spec}: cannot be loaded: {exc}", "name a folder or a model"
            ) from exc


def _has_transformers() -> bool:
    try:
        return importlib.util.find_spec("sentence_transformers") is not None
    except ValueError:  # how a module that is blocked shows itself
        return False


class EmbeddingChat:
    """A model of embeddings as a ChatModel: the last message's text in, its vector as JSON out.

    So a `JournaledChat` around it keeps every finished call, and a build that is run again has the same vectors.
    """

    vision = False
    context_tokens: int | None = None
    languages: frozenset[str] = frozenset()

    def __init__(self, embedder: Embedder, identity: str) -> None:
        self.model = embedder.name
        self.identity = f"{identity} embeddings"
        self.meter = UsageMeter()
        self._embedder = embedder

    async def complete(self, request: Request) -> Reply:
        """Raises RemoteError where the server refuses; RecordError (schema) where the vector is none."""
        (vector,) = await asyncio.to_thread(self._embedder.embed, [request.messages[-1].text])
        size = float(np.linalg.norm(vector)) if vector.ndim == 1 else 0.0
        if not np.isfinite(size) or size == 0:
            raise RecordError("schema", f"{self.model} gave no vector for this text")
        return Reply(orjson.dumps([round(float(x) / size, 6) for x in vector]).decode())

    async def aclose(self) -> None:
        """Nothing is open between calls."""
