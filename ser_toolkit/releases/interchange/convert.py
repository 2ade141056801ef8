"""`convert`: a release in, a folder in a trainer's own format out, with an account of what was changed on the way.

Written beside and renamed when whole. What a row lost or had joined, and which rows are left out, stands in
`interchange.json`; where the trainer demands user and assistant in turn, more changed rows than the limit are an error.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ser_toolkit.errors import DataError, UsageError
from ser_toolkit.media.sniffing import sniff
from ser_toolkit.registry import load
from ser_toolkit.workspace import writing

from ..load import Release, load_release
from ..manifest import file_hash
from ..prompting import OPENINGS
from ..rows import MEDIA_COLUMNS
from .alternation import Changes, alternate, plain
from .base import Example, Part, Picture, Row, Target
from .spoken import Spoken

if TYPE_CHECKING:
    import pyarrow as pa

ACCOUNT = "interchange.json"
DEFAULT_LIMIT = 0.05
BATCH = 64
LISTED = 20
"""Ids that are named beside a reason; the count is whole."""
_UNREAD = {
    "dialogues": "whole conversations without the three steps: the rounds of each stand in sft and prompts",
    "steps": "step labels, which TRL's stepwise columns carry as they are: read steps/ of the release",
    "judgements": "the judge's own four-round chats: `ser train-rm` reads them",
}


@dataclass(slots=True)
class Conversion:
    """What was written, and what became of the rows."""

    target: Target
    release: Release
    limit: float
    path: Path
    files: dict[str, Row] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    left_out: dict[str, list[str]] = field(default_factory=dict)

    @property
    def version(self) -> str:
        return f"{self.release.manifest['name']}-{self.release.manifest['version']}"

    @property
    def slug(self) -> str:
        """The release's name as an identifier."""
        name = (
            "".join(c if c.isascii() and c.isalnum() else "_" for c in self.release.manifest["name"]).strip("_").lower()
        )
        return name if name[:1].isalpha() else f"ser_{name}".rstrip("_")

    @property
    def share(self) -> float:
        """Of all rows, those that are not as they were spoken, or are left out."""
        return self.counts["changed"] / self.counts["read"] if self.counts["read"] else 0.0

    @property
    def told(self) -> str:
        """How many rows are not as they were spoken, and why."""
        counts = self.counts
        return (
            f"{counts['changed']} of {counts['read']} rows are not as they were spoken ({self.share:.1%}): "
            f"{counts['merged']} utterances merged, {counts['opened']} openings added, "
            f"{counts['dropped']} messages dropped, {sum(counts[r] for r in self.left_out)} rows left out"
        )

    @property
    def not_converted(self) -> dict[str, str]:
        reasons = {**_UNREAD, **self.target.unread}
        absent = self.release.manifest.get("absent", {})
        return {
            config: absent.get(config, reasons.get(config, "not in this release"))
            for config in (*_UNREAD, *self.target.unread, *self.target.parts)
            if config not in self.release.rows or config not in self.target.parts
        }

    def to_json(self) -> dict[str, Any]:
        manifest, counts = self.release.manifest, self.counts
        return {
            "target": self.target.name,
            "title": self.target.title,
            "release": {key: manifest[key] for key in ("name", "version", "content_hash")},
            "licences": sorted({s["licence"] for s in manifest["sources"]}),
            "toolkit": version("ser-toolkit"),
            "files": self.files,
            "turns": {
                "demanded": self.target.demands_turns,
                "rows": counts["read"],
                "rows_changed": counts["changed"],
                "share": round(self.share, 4),
                "limit": self.limit if self.target.demands_turns else None,
                "utterances_merged": counts["merged"],
                "openings_added": counts["opened"],
                "messages_dropped": counts["dropped"],
                "rows_unknown": counts["unknown"],
            },
            "left_out": {reason: {"rows": counts[reason], "ids": ids} for reason, ids in self.left_out.items()},
            "marks_broken_up": counts["marks"],
            "pictures": {"written": counts["pictures"], "left_out": counts["pictures_left_out"]},
            "not_converted": self.not_converted,
        }

    def render(self) -> str:
        counts = self.counts
        lines = [f"{self.version} for {self.target.title}: {self.path}"]
        lines += [f"  {name:<28} {entry['rows']:>7} rows" for name, entry in self.files.items()]
        lines.append(f"  turns       {self.told}")
        lines += [f"  left out    {counts[reason]} rows: {reason}" for reason in self.left_out]
        if counts["marks"]:
            lines.append(f"  marks       {counts['marks']} in what people said broken up, e.g. <image> as < image>")
        if counts["pictures"] or counts["pictures_left_out"]:
            lines.append(f"  pictures    {counts['pictures']} written, {counts['pictures_left_out']} left out")
        lines += [f"  no {config:<10} {why}" for config, why in self.not_converted.items()]
        return "\n".join([*lines, f"  how to use it: {self.path / 'README.md'}"])


def convert(release: str | Path, target: str, out: Path, max_changed: float = DEFAULT_LIMIT) -> Conversion:
    """Write the release (a folder, or an id on the Hub) into the new folder `out`, as `target` reads it.

    Raises UsageError for an unknown target, a limit outside [0, 1] or a folder that holds something; DataError for a
    release that is damaged or holds nothing for this target, and where the target demands turns and a larger share than
    `max_changed` of the rows is not as it was spoken.
    """
    found: Target = load("targets", target)
    if not 0 <= max_changed <= 1:
        raise UsageError(f"--max-changed {max_changed}: not between 0 and 1", "0.05 is a twentieth of all rows")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: there is something already", "name a folder that does not exist, or an empty one")
    opened = load_release(release)
    done = Conversion(found, opened, max_changed, out)
    with writing(out.parent):
        out.parent.mkdir(parents=True, exist_ok=True)
        temp = Path(tempfile.mkdtemp(prefix=".convert-", dir=out.parent))
        try:
            _write(temp, done)
            temp.chmod(0o755)  # mkdtemp made it private
            if out.exists():
                out.rmdir()
            temp.rename(out)
        finally:
            shutil.rmtree(temp, ignore_errors=True)
    return done


def _write(folder: Path, done: Conversion) -> None:
    parts = {config: part for config, part in done.target.parts.items() if config in done.release.rows}
    if not parts:
        wanted = ", ".join(done.target.parts)
        raise DataError(
            f"{done.release.path}: nothing in it for {done.target.title}, which reads {wanted}",
            "; ".join(f"{config}: {why}" for config, why in done.not_converted.items() if config in done.target.parts),
        )
    spoken = Spoken(done.release)
    for config, part in parts.items():
        for split, file in done.release.files(config).items():
            name = f"{part.folder}/{split}.{'parquet' if part.schema else 'jsonl'}"
            schema = _schema(part, file)
            rows = _write_rows(folder / name, schema, _rows(folder, done, config, part, split, file, spoken))
            if rows:
                done.files[name] = {"config": config, "split": split, "rows": rows, "sha256": file_hash(folder / name)}
    if done.target.demands_turns and done.share > done.limit:
        raise _too_many(done)
    done.target.finish(folder, done)
    (folder / "README.md").write_text(_readme(done), encoding="utf-8")
    account = json.dumps(done.to_json(), indent=2, ensure_ascii=False)
    (folder / ACCOUNT).write_text(account + "\n", encoding="utf-8")


def _rows(
    folder: Path, done: Conversion, config: str, part: Part, split: str, file: Path, spoken: Spoken
) -> Iterator[Row]:
    """The rows of a split, each as the target wants it, counted."""
    counts = done.counts
    for index, row in enumerate(_read(file)):
        counts["read"] += 1
        prompt, changes = alternate(row["prompt"], row["lang"])
        if reason := _unfit(config, row, bool(prompt)):
            counts.update((reason, "changed"))
            ids = done.left_out.setdefault(reason, [])
            if len(ids) < LISTED:
                ids.append(row["id"])
            continue
        _count(counts, changes, spoken.utterances(config, row), row)
        counts["marks"] += _break_marks(row, prompt)
        pictures = _pictures(folder, row.get("images") or (), part)
        counts["pictures" if part.pictures != "none" else "pictures_left_out"] += len(row.get("images") or ())
        yield part.make(Example(row, prompt, pictures, split, done.version, index))


def _read(file: Path) -> Iterator[Row]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file, pre_buffer=False) as table:
        for batch in table.iter_batches(BATCH):
            yield from batch.to_pylist()


_REPLIES = {"traces": ("completion",), "preferences": ("chosen", "rejected")}


def _unfit(config: str, row: Row, has_prompt: bool) -> str | None:
    """Why a row cannot be told to any trainer; `None` where it can."""
    if not has_prompt:
        return "nobody asks: the prompt holds no user message"
    for column in _REPLIES.get(config, ()):
        reply = row[column]
        if len(reply) != 1 or reply[0]["role"] != "assistant" or not (reply[0]["content"] or "").strip():
            return f"{column} is no single reply"
    if config == "preferences" and row["chosen"][0]["content"] == row["rejected"][0]["content"]:
        return "chosen and rejected are equal"
    return None


def _count(counts: Counter[str], changes: Changes, utterances: int | None, row: Row) -> None:
    """Adds what the conversion changed to what the release's own rendering had."""
    spoken = [m for m in row["prompt"] if m["role"] != "system"]
    opened = changes.is_opened
    merged = changes.merged
    if utterances is None:
        counts["unknown"] += 1
    else:
        # A release puts an opening in front of a history that the supporter begins; what else is missing was merged.
        was_opened = row.get("opening_added")
        if was_opened is None:
            was_opened = spoken[0]["content"] in OPENINGS["zh" if row["lang"] == "zh" else "en"]
        opened = opened or bool(was_opened)
        merged += max(0, utterances + bool(was_opened) - len(spoken))
    counts["merged"] += merged
    counts["opened"] += opened
    counts["dropped"] += changes.dropped
    counts["changed"] += bool(merged or opened or changes.dropped)


def _break_marks(row: Row, prompt: list[Row]) -> int:
    """Breaks up the marks in the texts that a tokenizer will see, in place."""
    found = 0
    replies = [m for column in ("completion", "chosen", "rejected") for m in row.get(column) or ()]
    for message in (*prompt, *replies):
        message["content"], count = plain(message["content"])
        found += count
    return found


def _pictures(folder: Path, images: Any, part: Part) -> tuple[Picture, ...]:
    if part.pictures == "none":
        return ()
    found: list[Picture] = []
    for image in images:
        kind = sniff(image["bytes"][:16])
        stem = Path(image["path"] or "picture").stem
        path = f"images/{stem}{kind.suffix if kind else ''}"
        if part.pictures == "files":
            file = folder / path
            file.parent.mkdir(exist_ok=True)
            if not file.exists():
                file.write_bytes(image["bytes"])
        found.append(Picture(image["bytes"], path))
    return tuple(found)


def _schema(part: Part, file: Path) -> pa.Schema | None:
    """The part's own, with the column of pictures where the release's file has it."""
    import pyarrow.parquet as pq

    if part.schema is None or part.pictures == "none" or "images" not in pq.read_schema(file).names:
        return part.schema
    return part.schema.append(MEDIA_COLUMNS["images"][0])


def _write_rows(file: Path, schema: pa.Schema | None, rows: Iterator[Row]) -> int:
    """The number of rows; without any there is no file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    written = 0
    file.parent.mkdir(exist_ok=True)
    if schema is None:
        with file.open("w", encoding="utf-8", newline="\n") as out:
            for row in rows:
                out.write(json.dumps(row, ensure_ascii=False) + "\n")
                written += 1
    else:
        with pq.ParquetWriter(file, schema, compression="zstd") as out:
            while batch := list(islice(rows, BATCH)):
                out.write_table(pa.Table.from_pylist(batch, schema=schema))
                written += len(batch)
    if not written:
        file.unlink()
    return written


def _too_many(done: Conversion) -> DataError:
    title, enough = done.target.title, min(1.0, math.ceil(done.share * 100) / 100)
    return DataError(
        f"{done.release.path}: {title} demands user and assistant in turn. {done.told}; the limit is {done.limit:.1%}",
        f"merging and opening lose no word; where that will do: --max-changed {enough:g}",
    )


def _readme(done: Conversion) -> str:
    manifest = done.release.manifest
    licences = ", ".join(sorted({s["licence"] for s in manifest["sources"]}))
    return (
        f"# {done.version} for {done.target.title}\n\n"
        f"Made by `ser convert` from the release {done.version} (content {manifest['content_hash'][:16]}). Licences\n"
        f"of its rows: {licences}; each row names its own. Splits are the release's: train on `train` alone. What was\n"
        f"changed and what was left out stands in `{ACCOUNT}`.\n\n{done.target.usage(done)}"
    )
