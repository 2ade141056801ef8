"""Evaluation suites' files -> scenarios: cards and profiles through the importers, EQ-Bench 3's text by itself."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from rl_training.suites import Suite
from ser_toolkit.errors import DataError, RecordError, UsageError
from ser_toolkit.recipe import SourceSpec
from ser_toolkit.registry import load, names
from ser_toolkit.schema import Failure, Scenario

from .sources.base import Imported, ReadContext, SourceFormat
from .sources.finish import detect_lang, make_source, read_records
from .sources.reading import Raw, files_of, text_files

EQBENCH = "eqbench3"
_SCENARIO = re.compile(r"(?m)^#{8}(?!#)[ \t]*(?P<number>[^|\n]+?)[ \t]*\|(?P<title>.*)$")
_PART = re.compile(r"(?m)^#{7}(?!#)[ \t]*(?:Prompt)?[ \t]*\d+[ \t]*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SuiteItems:
    """A suite's items in their order, the records that could not be read, and what the run card says of the file."""

    items: list[Scenario]
    failures: list[Failure]
    told: dict[str, Any]


def read_suite(suite: Suite, data: str, limit: int | None = None, maps: Path | None = None) -> SuiteItems:
    """The items at `data`, a path or FORMAT:PATH where the file is of another format than the suite's own.

    Raises UsageError for a path or a format that is not there or holds no scenarios, DataError where nothing is in it.
    """
    prefix, colon, rest = data.partition(":")
    is_named = bool(colon) and prefix in {*names("sources"), EQBENCH}
    name, path = (prefix, Path(rest)) if is_named else (suite.format, Path(data))
    if suite.told != (name == EQBENCH):
        raise UsageError(f"{suite.name} is not played from a file of format {name}", f"its own is {suite.format}")
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder", "--data names the suite's file, which is not bundled")
    source: SourceFormat | None = None if name == EQBENCH else load("sources", name)
    if source is not None and source.yields != "scenarios":
        raise UsageError(f"{name} holds dialogues, not scenarios", "formats of scenarios: sage, esc-eval, esc-judge")
    context = ReadContext(SourceSpec(format=name, path=str(path)), maps)
    records = _eqbench(path, context) if source is None else source.read(path, context)
    items: list[Scenario] = []
    failures: list[Failure] = []
    for record in islice(records, limit):
        (failures if isinstance(record, Failure) else items).append(record)  # type: ignore[arg-type]
    if not items:
        raise DataError(
            f"{path}: holds no item of {suite.name}",
            failures[0].reason if failures else "is this the suite's file?",
        )
    return SuiteItems(items, failures, {"format": name, "files": _hashes(path), "items": len(items), "limit": limit})


def _eqbench(path: Path, context: ReadContext) -> Iterator[Imported]:
    yield from read_records(_blocks(path, context), EQBENCH, lambda raw: _scenario(raw, context))


def _blocks(path: Path, context: ReadContext) -> Iterator[Raw | Failure]:
    """Each scenario's block of a text file as a record."""
    for raw in text_files(path, context):
        if isinstance(raw, Failure):
            yield raw
            continue
        text: str = raw.value
        marks = list(_SCENARIO.finditer(text))
        ends = [*(m.start() for m in marks[1:]), len(text)]
        for mark, end in zip(marks, ends, strict=False):
            block = (mark["number"], mark["title"].strip(), text[mark.end() : end])
            yield Raw(block, raw.file, f"line {text.count(chr(10), 0, mark.start()) + 1}", raw.flags)


def _scenario(raw: Raw, context: ReadContext) -> Scenario:
    number, title, body = raw.value
    parts = [part.strip() for part in _PART.split(body)[1:]]
    if not parts or not all(parts):
        raise RecordError("malformed", f"scenario {number} has no prompt, or an empty one")
    return Scenario(
        id=f"{EQBENCH}-{number}",
        lang=context.spec.lang or detect_lang(parts),
        source=make_source(raw, EQBENCH, "MIT", context),
        situation=" ".join(title.replace("|", ":").split()),
        meta={"parts": parts},
    )


def _hashes(path: Path) -> dict[str, str]:
    """The SHA-256 of each file that is read, by name."""
    files = files_of(path, (".json", ".jsonl", ".ndjson", ".txt"))
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files}
