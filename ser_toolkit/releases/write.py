"""`write_release`: tables in, an immutable, content-addressed release out.

Written into a temporary folder beside the releases and renamed when whole and on disk, so a killed export
leaves nothing that looks like a release. The caller holds the workspace's lock. Memory stays bounded: rows
are staged on disk and stream through.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ser_toolkit.errors import DataError, UsageError
from ser_toolkit.schema import Dialogue, Json, Trace
from ser_toolkit.store import sync
from ser_toolkit.workspace import writing

from .admission import left_out_copies, survey, withdraw
from .card import write_card
from .labels import TraceLabels
from .licences import conflicts
from .manifest import (
    MANIFEST,
    SCHEMA_VERSION,
    ContentHash,
    Manifest,
    file_hash,
    read_manifest,
    write_manifest,
)
from .rows import CONFIGS, MEDIA_COLUMNS, Config, Row
from .splits import SPLITS, Ratios, assign_splits
from .staging import Staging

FIRST_VERSION = "0.1.0"
ROW_GROUP, ROW_GROUP_BYTES = 1000, 16 << 20

_TEMP = ".export-"
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")


@dataclass(frozen=True, slots=True)
class ReleaseInput:
    """All that a release is made from. `dialogues` and `traces` are read once, in any order.

    `lineage` is JSON: recipe, models, prompt versions, sources with their licences, package versions.
    `machinery_only`: made with the embedded model, so it tests the machinery and is no training data.
    `absent_reasons`: config -> why it has no rows. `failures` (kind -> count) and `verdicts` (name -> count)
    are for the card. `labels` are the annotators', by source trace, and `annotation` what the card tells of them.
    `withdrawn` holds ids that stay out with everything made from them. `media` is the workspace's media folder.
    """

    name: str
    dialogues: Iterable[Dialogue]
    traces: Iterable[Trace]
    ratios: Ratios = (0.8, 0.1, 0.1)
    lineage: Json = field(default_factory=dict)
    machinery_only: bool = False
    absent_reasons: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    verdicts: Mapping[str, int] = field(default_factory=dict)
    labels: Iterable[TraceLabels] = ()
    annotation: Json = field(default_factory=dict)
    withdrawn: frozenset[str] = frozenset()
    media: Path | None = None


@dataclass(frozen=True, slots=True)
class ReleaseResult:
    """The release, new or found: `rows` is config -> split -> count, `left_out` as in the manifest."""

    path: Path
    version: str
    content_hash: str
    rows: dict[str, dict[str, int]]
    left_out: list[dict[str, Any]]
    is_new: bool
    licence_conflicts: tuple[str, ...] = ()


def write_release(folder: Path, inputs: ReleaseInput, version: str | None = None) -> ReleaseResult:
    """Make a release under `folder` (a workspace's `releases/`).

    Without `version`: the latest release of this name with equal content, where there is one; else the next
    patch number. Raises UsageError where `version` exists with other content, DataError where there is
    nothing to release or the disk refuses.
    """
    check_version(version)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for stale in folder.glob(f"{_TEMP}*"):
            shutil.rmtree(stale, ignore_errors=True)
        temp = Path(tempfile.mkdtemp(prefix=_TEMP, dir=folder))
        try:
            manifest = _write_into(temp, inputs)
            known = _releases(folder, inputs.name)
            same = [v for v, h in known.items() if h == manifest["content_hash"]]
            if version is None and same:
                version = max(same, key=_number)
            version = version or _next(known)
            path = folder / f"{inputs.name}-{version}"
            is_new = version not in known
            if is_new:
                manifest = {"name": inputs.name, "version": version, **manifest}
                _finish(temp, path, manifest)
            elif version in same:
                manifest = read_manifest(path)
            else:
                raise UsageError(
                    f"{path.name} exists with other content, and a release never changes",
                    "choose another --version, or leave it out for the next patch number",
                )
        finally:
            shutil.rmtree(temp, ignore_errors=True)
    return ReleaseResult(
        path,
        version,
        manifest["content_hash"],
        manifest["rows"],
        manifest["left_out"],
        is_new,
        tuple(manifest.get("licence_conflicts", ())),
    )


def check_version(version: str | None) -> None:
    """Raises UsageError for what is no X.Y.Z; to be called before anything is paid for."""
    if version is not None and not _VERSION.fullmatch(version):
        raise UsageError(f"--version {version}: not of the form X.Y.Z", f"for example {FIRST_VERSION}")


def _write_into(temp: Path, inputs: ReleaseInput) -> Manifest:
    """All Parquet files, and the manifest but for name and version."""
    staging = Staging(temp / "staging.sqlite")
    try:
        staging.add_dialogues(inputs.dialogues)
        staging.add_traces(inputs.traces)
        staging.add_labels(inputs.labels)
        withdrawn, left_out = withdraw(staging, inputs.withdrawn)
        assignment = assign_splits((d for d in staging.all_dialogues() if d.id not in withdrawn), inputs.ratios)
        if not assignment.splits:
            raise DataError("there is no dialogue to release", "`ser build` makes some; see its failures and verdicts")
        staging.set_splits(assignment.splits)
        left_out += left_out_copies(staging, assignment)
        unfit, counts = survey(staging, inputs.withdrawn, inputs.media is not None)
        staging.leave_out_traces(t["id"] for t in unfit)
        left_out += unfit
        held = counts.pop("with")  # media column -> rows that have one
        content, files, rows = ContentHash(), {}, {}
        for config in CONFIGS.values():
            media = inputs.media if held.get(config.media) else None
            for split in SPLITS:
                content.begin(config.name, split)
                file = temp / config.name / f"{split}.parquet"
                written = _write_split(file, config, media is not None, config.rows(staging, split, media), content)
                if written:
                    files[f"{config.name}/{split}.parquet"] = {"sha256": file_hash(file), "rows": written}
                    rows.setdefault(config.name, {})[split] = written
    except sqlite3.OperationalError as exc:
        raise DataError(
            f"{temp}: the records cannot be staged: {exc}", "free some disk space and run it again"
        ) from exc
    finally:
        staging.close()
        (temp / "staging.sqlite").unlink(missing_ok=True)
    report = assignment.report
    return {
        "schema_version": SCHEMA_VERSION,
        "content_hash": content.hexdigest(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machinery_only": inputs.machinery_only,
        "files": files,
        "rows": rows,
        "absent": _absent(rows, inputs.absent_reasons),
        "ratios": dict(zip(SPLITS, inputs.ratios, strict=True)),
        **counts,
        "licence_conflicts": conflicts(s["licence"] for s in (*counts["sources"], *counts.get("media", ()))),
        "groups": {
            "groups": report.groups,
            "dialogues": report.dialogues,
            "straddling": len(report.straddling),
        },
        "left_out": left_out,
        "failures": dict(inputs.failures),
        "verdicts": dict(inputs.verdicts),
        "annotation": inputs.annotation,
        "lineage": inputs.lineage,
    }


def _write_split(file: Path, config: Config, with_media: bool, rows: Iterator[Row], content: ContentHash) -> int:
    """The number of rows; without any there is no file."""
    written, writer = 0, None
    schema = config.schema(with_media)
    for batch in _batches(rows):
        if writer is None:
            file.parent.mkdir(exist_ok=True)
            writer = pq.ParquetWriter(file, schema, compression="zstd")
        for row in batch:
            content.add(row)
        writer.write_table(pa.Table.from_pylist(batch, schema=schema))
        written += len(batch)
    if writer is not None:
        writer.close()
        sync(file)
    return written


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """The rows, a row group at a time: so many rows, or so many bytes of media."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(item["bytes"]) for name in MEDIA_COLUMNS for item in row.get(name, ()))
        if len(batch) >= ROW_GROUP or size >= ROW_GROUP_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _absent(rows: Mapping[str, Mapping[str, int]], reasons: Mapping[str, str]) -> dict[str, str]:
    """Config, or config/split -> why it is not there."""
    absent: dict[str, str] = {}
    for name, config in CONFIGS.items():
        if name not in rows:
            absent[name] = reasons.get(name, config.absent)
            continue
        for split in SPLITS:
            if split not in rows[name]:
                absent[f"{name}/{split}"] = "no row of this config falls into this split"
    return absent


def _finish(temp: Path, path: Path, manifest: Manifest) -> None:
    """Card and manifest, all of it on disk, and only then the name."""
    write_card(temp, manifest)
    write_manifest(temp, manifest)
    for item in (temp / MANIFEST, temp / "README.md", *(p for p in temp.iterdir() if p.is_dir()), temp):
        sync(item)
    temp.chmod(0o755)  # mkdtemp made it private
    temp.rename(path)
    sync(path.parent)


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _releases(folder: Path, name: str) -> dict[str, str]:
    """Version -> content hash of the releases of one name; a damaged one keeps its version and matches
    nothing.
    """
    found: dict[str, str] = {}
    for path in folder.glob(f"{name}-*"):
        version = path.name.removeprefix(f"{name}-")
        if _VERSION.fullmatch(version):
            try:
                found[version] = read_manifest(path)["content_hash"]
            except DataError:
                found[version] = ""
    return found


def _next(known: Iterable[str]) -> str:
    highest = max(map(_number, known), default=None)
    if highest is None:
        return FIRST_VERSION
    return ".".join(map(str, (*highest[:2], highest[2] + 1)))
