"""Whether a judge that was saved is the judge that was trained: the same chats, judged by both.

An adapter that is not loaded, or merged twice, shows in no loss; here it does (what is compared: every probability).
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from ser_toolkit.errors import CheckpointError

from .rounds import JudgeChat
from .speculation import judge_together

PROBES = 8
Chances = list[list[dict[str, float]]]
"""By chat and round: allowed answer -> probability."""
TOLERANCE: Mapping[str, float] = {"float32": 1e-4, "bfloat16": 0.05, "float16": 0.02}
"""By the type of the weights: how far a probability may be off. Half precision rounds anew where adapters merge."""


def probe(model: Any, processing: Any, chats: Sequence[JudgeChat]) -> Chances:
    """What a model says of the chats, one at a time."""
    judged = judge_together(model, processing, chats, batch_size=1)
    return [[dict(r) for r in j.rounds] for j in judged]


def probe_saved(folders: Sequence[Path], chats: Sequence[JudgeChat], text_only: bool, dtype: str) -> list[Chances]:
    """The same of saved models and adapters, in a process that has seen nothing of the training."""
    spawn = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            return pool.submit(_probe_saved, [str(f) for f in folders], list(chats), text_only, dtype).result()
    except BrokenProcessPool as exc:
        raise CheckpointError(
            f"{folders[0].parent}: the process that loaded what was saved died",
            "is there memory for it? --set verify=false skips this",
        ) from exc


def farthest(left: Chances, right: Chances) -> float:
    """The largest difference of a probability; infinite where one judge said nothing."""
    if [len(c) for c in left] != [len(c) for c in right] or not any(left):
        return float("inf")
    return max(abs(a[k] - b[k]) for x, y in zip(left, right, strict=True) for a, b in zip(x, y, strict=True) for k in a)


def _probe_saved(folders: list[str], chats: list[JudgeChat], text_only: bool, dtype: str) -> list[Chances]:
    from ser_toolkit.training.models import load

    found: list[Chances] = []
    for folder in folders:
        loaded = load(folder, text_only=text_only, dtype=dtype, device="auto")
        found.append(probe(loaded.model.eval(), loaded.processing, chats))
        del loaded
    return found
