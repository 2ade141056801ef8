"""Gold items: traces whose right labels are known, mixed in among the others to see how well an annotator judges.

A JSON Lines file, a line a trace:

    {"trace": "esconv-12-r3", "steps": [true, true, false], "better": "reference"}

A part may be null or left out; `better` is generated, reference, almost_equal or neither. Gold items check annotators;
their labels enter no release.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast, get_args

from pydantic import ValidationError

from ser_toolkit.errors import RecordError, UsageError
from ser_toolkit.verdicts import Better, read_verdict

from .items import Gold, Item

_HINT = 'a line is like {"trace": ID, "steps": [true, true, false], "better": "generated"}'


def read_gold(file: Path, items: Iterable[Item]) -> Iterator[Gold]:
    """The gold entries of a file, for these items. Raises UsageError that names the line."""
    known = {i.trace_id: i for i in items}
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"{file}: the gold items cannot be read: {exc}", "name a UTF-8 file in annotate.gold") from exc
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield _gold(json.loads(line), known)
            except (ValueError, RecordError) as exc:
                reason = exc.errors()[0]["msg"] if isinstance(exc, ValidationError) else exc
                raise UsageError(f"{file}, line {number}: {reason}", _HINT) from exc


def _gold(row: object, known: Mapping[str, Item]) -> Gold:
    if not isinstance(row, dict) or not set(row) <= {"trace", "steps", "better"} or "trace" not in row:
        raise ValueError("not an object with trace, steps and better")
    item = known.get(row["trace"])
    if item is None:
        raise ValueError(f"no trace of this workspace is called {row['trace']!r}")
    better = row.get("better")
    if better is not None and not item.has_pair:
        raise ValueError(f"{item.trace_id} has no two replies to compare")
    steps = row.get("steps") or [None, None, None]
    if not isinstance(steps, list) or len(steps) != 3 or any(s not in (True, False, None) for s in steps):
        raise ValueError("steps are three of true, false and null")
    better = None if better is None else read_better(str(better))
    gold = Gold(item_id=item.id, steps=(steps[0], steps[1], steps[2]), better=better)
    if all(gold.label(p) is None for p in item.parts):
        raise ValueError("no right label is given")
    return gold


def read_better(word: str) -> Better:
    """ "generated" or "reference", or a tie as any verdict may be spelled. Raises RecordError for another word."""
    if word in get_args(Better):
        return cast(Better, word)
    shown = read_verdict(word)
    if shown in ("first_better", "second_better"):
        raise RecordError("malformed", f"{word!r} names a position: say generated or reference", text=word)
    return cast(Better, shown)
