"""How many utterances stand behind a prompt of a release: what its rendering has merged already, told from
`dialogues/`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..load import Release

_Round = tuple[str, int]


class Spoken:
    """`utterances(config, row)`: of the history behind the prompt of a row; `None` where that cannot be told."""

    def __init__(self, release: Release) -> None:
        self._speakers: dict[str, int] = {}
        self._starts: dict[_Round, int] = {}
        self._targets: dict[str, _Round] = {}
        for id, turns in _cells(release, "dialogues", ("id", "turns")):
            self._speakers[id] = len(turns or ())
        for id, dialogue, target in _cells(release, "prompts", ("id", "dialogue_id", "target")):
            start = id.rpartition(":")[2].partition("-")[0]
            if start.isdecimal():
                self._starts[dialogue, target] = int(start)
        for id, dialogue, target in _cells(release, "traces", ("id", "dialogue_id", "target")):
            self._targets[id] = (dialogue, target)

    def utterances(self, config: str, row: dict[str, Any]) -> int | None:
        """Raises nothing: a release that others have cut may lack what tells it."""
        place = self._targets.get(row["id"]) if config == "preferences" else (row["dialogue_id"], row["target"])
        start = None if place is None else self._starts.get(place)
        if place is None or start is None or place[1] > self._speakers.get(place[0], 0):
            return None
        return place[1] - start


def _cells(release: Release, config: str, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    import pyarrow.parquet as pq

    if config not in release.rows:
        return
    wanted = [f"{c}.list.element.speaker" if c == "turns" else c for c in columns]
    for file in release.files(config).values():
        with pq.ParquetFile(file, pre_buffer=False) as table:
            for batch in table.iter_batches(1000, columns=wanted):
                yield from zip(*(batch.column(c).to_pylist() for c in columns), strict=True)
