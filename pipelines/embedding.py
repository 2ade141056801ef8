"""Models of embeddings, for the measures alone: an OpenAI-compatible server, or sentence-transformers here.

The texts of the sample are sent to the server that is named. The key stands in the environment variable that the recipe
names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ser_toolkit.errors import RemoteError, UsageError
from ser_toolkit.llm.keys import read_key
from ser_toolkit.metrics.repetition import Embedder
from ser_toolkit.recipe import Endpoint

BATCH = 100
"""Texts of one request."""


def open_embedder(spec: str, settings: Endpoint) -> Embedder:
    """`openai:MODEL` at `settings.base_url`, or `local:MODEL` (a name or a folder). Raises UsageError."""
    backend, _, model = spec.partition(":")
    if not model or backend not in ("openai", "local"):
        raise UsageError(f"--embed {spec}: not of the form openai:MODEL or local:MODEL")
    if backend == "local":
        return LocalEmbedder(model)
    return ServerEmbedder(model, settings)


class ServerEmbedder:
    """`/embeddings` of an OpenAI-compatible server; the first base URL, the service's own without any."""

    def __init__(self, model: str, settings: Endpoint) -> None:
        self.name = model
        self._url = settings.base_url[0] if settings.base_url else None
        self._limits: dict[str, Any] = {"timeout": settings.timeout_s, "max_retries": settings.max_retries}
        self._key = read_key(settings)
        if self._url is None and not self._key:
            raise UsageError(
                f"--embed openai:{model}: neither an address nor a key",
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
                f"the model of embeddings {self.name} does not answer: {exc}", "mend it, or leave --embed out"
            ) from exc
        if len(vectors) != len(texts):
            raise RemoteError(f"{self.name} gave {len(vectors)} embeddings for {len(texts)} texts")
        return np.array(vectors, dtype=np.float32)


class LocalEmbedder:
    """A model of sentence-transformers in this process."""

    def __init__(self, model: str) -> None:
        try:
            from sentence_transformers import SentenceTransformer  # pyright: ignore[reportMissingImports]
        except ImportError as exc:
            raise UsageError(
                f"--embed local:{model} needs sentence-transformers", "pip install 'ser-toolkit[train]'"
            ) from exc
        try:
            self._model: Any = SentenceTransformer(model)
        except (OSError, ValueError) as exc:
            raise UsageError(f"--embed local:{model}: cannot be loaded: {exc}", "name a folder or a model") from exc
        self.name = Path(model).name  # a report tells no machine's path

    def embed(self, texts: list[str]) -> np.ndarray:
        return np.asarray(self._model.encode(texts, show_progress_bar=False), dtype=np.float32)
