"""manifest.json: what a release holds, where it comes from, and the hash of its content.

The content hash is taken over the rows alone (canonical JSON, canonical order); time, versions and
environment stand beside it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from ser_toolkit.errors import DataError
from ser_toolkit.plain import plain_error
from ser_toolkit.schema import Lang, canonical_json

MANIFEST = "manifest.json"
SCHEMA_VERSION = "1"

Manifest = dict[str, Any]

_Count = Annotated[int, Field(ge=0)]
_Config = Annotated[str, Field(pattern=r"^[a-z]+$")]
_Json = dict[str, Any]


class _File(BaseModel):
    sha256: str
    rows: _Count


class _Source(BaseModel):
    format: str
    licence: str


class _Cluster(BaseModel):
    role: str
    lang: str
    k: _Count
    curve: list[dict[str, float]]
    centres: list[dict[str, float]]


class _Quality(BaseModel):
    mean: dict[str, float] = {}


class _Rewriting(BaseModel):
    verdicts: _Json = {}
    left_out: dict[str, _Count] = {}
    quality: _Quality = _Quality()
    clusters: list[_Cluster] = []


class _Recipe(BaseModel):
    protect: _Json = {}


class _Lineage(BaseModel):
    recipe: _Recipe = _Recipe()
    rewriting: _Rewriting | None = None
    protection: _Json = {}


class _Shape(BaseModel):
    """What readers of a manifest rely on; whatever else stands there may be anything. Files lie inside the release."""

    name: str
    version: str
    content_hash: str
    files: dict[Annotated[str, Field(pattern=r"^[a-z]+/[a-z]+\.parquet$")], _File]
    rows: dict[_Config, dict[_Config, _Count]]
    created: str = ""
    absent: dict[str, str] = {}
    media: list[_Json] = []
    sources: list[_Source] = []
    languages: dict[Lang, _Count] = {}
    written_by: list[_Json] = []
    totals: dict[str, _Count] = {}
    licence_conflicts: list[str] = []
    groups: dict[str, _Count] = {}
    left_out: list[_Json] = []
    failures: dict[str, _Count] = {}
    verdicts: _Json = {}
    annotation: _Json = {}
    lineage: _Lineage = _Lineage()


class ContentHash:
    """SHA-256 over rows as they come, config by config and split by split; bytes count by their own hash."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def begin(self, config: str, split: str) -> None:
        self._sha.update(canonical_json({"config": config, "split": split}) + b"\n")

    def add(self, row: dict[str, Any]) -> None:
        self._sha.update(row_bytes(row) + b"\n")

    def hexdigest(self) -> str:
        return self._sha.hexdigest()


def row_bytes(row: dict[str, Any]) -> bytes:
    """The canonical spelling of a row; the bytes of an image or a sound stand as their SHA-256."""
    for name in ("images", "audio"):
        if row.get(name):
            row = {**row, name: [hashlib.sha256(i["bytes"]).hexdigest() for i in row[name]]}
    return canonical_json(row)


def file_hash(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    text = json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a release. Raises DataError where there is none, or none that can be read."""
    file = folder / MANIFEST
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as exc:
        raise DataError(f"{folder}: not a release: it has no {MANIFEST}", "name a folder under releases/") from exc
    except (OSError, ValueError) as exc:
        raise DataError(f"{file}: cannot be read: {exc}", "the release is damaged: export it again") from exc
    missing = [k for k in ("name", "version", "content_hash", "files", "rows") if k not in _mapping(manifest)]
    if missing:
        raise DataError(f"{file}: lacks {', '.join(missing)}", "the release is damaged: export it again")
    if manifest.get("schema_version") != SCHEMA_VERSION:
        raise DataError(
            f"{file}: of layout {manifest.get('schema_version')!r}; this toolkit reads {SCHEMA_VERSION!r}",
            "use the toolkit's version that wrote it, or export again",
        )
    try:
        _Shape.model_validate(manifest)
    except ValidationError as exc:
        first = exc.errors()[0]
        place = ".".join(map(str, first["loc"])).removesuffix(".[key]")
        raise DataError(f"{file}: {place}: {plain_error(first)}", "the release is damaged: export it again") from exc
    return manifest


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
