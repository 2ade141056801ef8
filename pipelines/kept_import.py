"""An import that need not be made again: what it was made from, kept beside its tables in `tables/imported.json`.

Import costs no model call, but protection makes it slow. Its tables are taken as they stand where everything that they
hang on is as it was: the sources' files (path, size, times), their settings, the label maps, protection, what is
withdrawn, the languages of the seeds, this code and the packages under it; and where the tables themselves are whole.
Anything else, and `--fresh`, imports again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ser_toolkit.recipe import Protect, SourceSpec
from ser_toolkit.registry import provider
from ser_toolkit.schema import canonical_json
from ser_toolkit.store import write_json
from ser_toolkit.workspace import Workspace, writing

from .lineage import installed
from .sources.base import SourceFormat

TABLES = ("imported", "scenarios", "import_failures")
"""The tables of an import."""
CODE = (Path(__file__).parent, Path(__file__).parent.parent / "ser_toolkit")
CODE_SUFFIXES = (".py", ".toml", ".txt", ".json")
PACKAGES = ("charset-normalizer", "datasets", "ftfy", "orjson", "polars", "pyarrow", "pydantic", "scikit-learn")


def fingerprint(
    home: Workspace,
    specs: Sequence[SourceSpec],
    formats: Mapping[str, SourceFormat],
    policy: Protect,
    withdrawn: frozenset[str],
    languages: frozenset[str],
) -> str:
    """One hash of all that an import's tables hang on; to be taken before the sources are read."""
    made_from = {
        "sources": [
            {
                **spec.model_dump(mode="json"),
                "path": str(Path(spec.path).resolve()) if spec.path else "",
                "provider": provider("sources", spec.format),
                "files": list(_files(Path(spec.path), beside=formats[spec.format].looks_beside)) if spec.path else [],
            }
            for spec in specs
        ],
        "maps": [_content(f, home.maps) for f in sorted(home.maps.rglob("*")) if f.is_file()],
        "protect": policy.model_dump(mode="json"),
        "withdrawn": sorted(withdrawn),
        "languages": sorted(languages),
        "code": _code(),
    }
    return hashlib.sha256(canonical_json(made_from)).hexdigest()


def kept_import(home: Workspace, mark: str) -> dict[str, Any] | None:
    """What `keep_import` was given with this fingerprint; None where there is none, or its tables are not those."""
    try:
        kept = json.loads(_file(home).read_text(encoding="utf-8"))
        if kept["fingerprint"] == mark and kept["tables"] == _table_hashes(home):
            return kept["found"]
    except (OSError, ValueError, LookupError, TypeError):
        pass  # no import, half an import, or another version's: it is made again
    return None


def keep_import(home: Workspace, mark: str, found: Mapping[str, Any]) -> None:
    """Say that the import's tables are whole; `found` is what is to be told of them, as JSON."""
    write_json(_file(home), {"fingerprint": mark, "tables": _table_hashes(home), "found": found})


def forget_import(home: Workspace) -> None:
    """The tables are about to change."""
    with writing(home.root):
        _file(home).unlink(missing_ok=True)


def _file(home: Workspace) -> Path:
    return home.root / "tables" / "imported.json"


def _table_hashes(home: Workspace) -> dict[str, str]:
    hashes = {}
    for name in TABLES:
        with home.table(name).open("rb") as table:
            hashes[name] = hashlib.file_digest(table, "sha256").hexdigest()
    return hashes


def _files(path: Path, *, beside: bool) -> Iterator[tuple[str, int, int, int]]:
    """(name, size, mtime, ctime) of a file, of all files under a folder, or of all that lies beside a file."""
    root = path.parent if beside and path.is_file() else path
    if root.is_file():
        yield _stat("", root)
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            file = Path(folder, name)
            if file.is_file():
                yield _stat(file.relative_to(root).as_posix(), file)


def _stat(name: str, file: Path) -> tuple[str, int, int, int]:
    found = file.stat()
    return name, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@cache
def _code() -> list[Any]:
    """Python, the packages, and this code itself: a changed rule is no rule that the tables were made by."""
    own = hashlib.sha256()
    for root in CODE:
        for file in sorted(f for f in root.rglob("*") if f.suffix in CODE_SUFFIXES):
            own.update(canonical_json(_content(file, root)))
    return [sys.version, [installed(p) for p in PACKAGES], own.hexdigest()]


def _content(file: Path, root: Path) -> tuple[str, str]:
    return file.relative_to(root).as_posix(), hashlib.sha256(file.read_bytes()).hexdigest()
