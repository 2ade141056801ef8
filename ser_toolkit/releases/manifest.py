"""manifest.json: what a release holds, where it comes from, and the hash of its content.

The content hash is taken over the rows alone (canonical JSON, canonical order); time, versions and
environment stand beside it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ser_toolkit.errors import DataError
from ser_toolkit.schema import canonical_json

MANIFEST = "manifest.json"
SCHEMA_VERSION = "1"

Manifest = dict[str, Any]


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
    return manifest


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
