"""`diff_releases`: which rows came, went and changed between two releases, and what the makers changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ser_toolkit.errors import DataError

from .load import Release, load_release
from .manifest import row_bytes
from .rows import CONFIGS
from .splits import SPLITS

EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows, and the first of them."""

    count: int
    examples: list[str]


@dataclass(frozen=True, slots=True)
class ConfigDiff:
    """One config, by row id. `moved`: the same id in another split, which must not happen with equal ratios."""

    config: str
    a: int
    b: int
    added: Rows
    removed: Rows
    changed: Rows
    moved: Rows
    columns: list[str]


@dataclass(frozen=True, slots=True)
class ReleaseDiff:
    """From release `a` to release `b`. `lineage`: dotted key -> [in a, in b], `None` where it is not there."""

    a: str
    b: str
    is_equal: bool
    configs: list[ConfigDiff]
    lineage: dict[str, list[Any]]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def render(self) -> str:
        lines = [f"{self.a} -> {self.b}: {'the same content' if self.is_equal else 'different content'}"]
        for c in self.configs:
            lines.append(f"  {c.config}: {c.a} -> {c.b} rows")
            for word in ("added", "removed", "changed", "moved"):
                rows: Rows = getattr(c, word)
                if rows.count:
                    more = ", ..." if rows.count > len(rows.examples) else ""
                    lines.append(f"    {rows.count} {word}: {', '.join(rows.examples)}{more}")
            if c.columns:
                lines.append(f"    columns that changed: {', '.join(c.columns)}")
        if self.lineage:
            lines.append("  lineage:")
            lines += [f"    {key}: {_shown(a)} -> {_shown(b)}" for key, (a, b) in self.lineage.items()]
        return "\n".join(lines)


def diff_releases(a: str | Path, b: str | Path) -> ReleaseDiff:
    """Compare two releases, each a folder or an id on the Hub. About 150 bytes are held for each row."""
    one, two = load_release(a), load_release(b)
    names = [name for name in CONFIGS if name in one.rows or name in two.rows]
    before, after = _flat(one.manifest.get("lineage", {})), _flat(two.manifest.get("lineage", {}))
    return ReleaseDiff(
        one.path.name,
        two.path.name,
        one.manifest["content_hash"] == two.manifest["content_hash"],
        [_diff_config(name, one, two) for name in names],
        {k: [before.get(k), after.get(k)] for k in sorted(before | after) if before.get(k) != after.get(k)},
    )


def _diff_config(config: str, one: Release, two: Release) -> ConfigDiff:
    a, b = _digests(one, config), _digests(two, config)
    common = a.keys() & b.keys()
    changed = sorted(i for i in common if a[i][1] != b[i][1])
    return ConfigDiff(
        config,
        len(a),
        len(b),
        _rows(sorted(b.keys() - a.keys())),
        _rows(sorted(a.keys() - b.keys())),
        _rows(changed),
        _rows(sorted(i for i in common if a[i][0] != b[i][0])),
        _changed_columns(config, one, two, changed[:EXAMPLES]),
    )


def _rows(ids: list[str]) -> Rows:
    return Rows(len(ids), ids[:EXAMPLES])


def _digests(release: Release, config: str) -> dict[str, tuple[str, bytes]]:
    """Row id -> (split, 16 bytes of the row's hash)."""
    return {
        row["id"]: (split, hashlib.sha256(row_bytes(row)).digest()[:16]) for split, row in _stored_rows(release, config)
    }


def _changed_columns(config: str, one: Release, two: Release, ids: list[str]) -> list[str]:
    """The columns in which the example rows differ."""
    if not ids:
        return []
    a, b = ({row["id"]: row for _, row in _stored_rows(r, config) if row["id"] in ids} for r in (one, two))
    columns = {key: None for i in ids for key in (*a[i], *b[i]) if a[i].get(key) != b[i].get(key)}
    return list(columns)


def _stored_rows(release: Release, config: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for split in SPLITS:
        if split not in release.rows.get(config, {}):
            continue
        file = release.path / config / f"{split}.parquet"
        try:
            with pq.ParquetFile(file) as table:
                for batch in table.iter_batches(batch_size=1000):
                    for row in batch.to_pylist():
                        yield split, row
        except pa.ArrowException as exc:
            raise DataError(f"{file}: cannot be read: {exc}", "the release is damaged: export it again") from exc


def _flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Nested JSON as dotted keys."""
    if isinstance(tree, dict) and tree:
        pairs = tree.items()
    elif isinstance(tree, list) and any(isinstance(v, dict | list) for v in tree):
        pairs = enumerate(tree)
    else:
        return {prefix.rstrip("."): tree}
    return {k: v for name, child in pairs for k, v in _flat(child, f"{prefix}{name}.").items()}


def _shown(value: Any) -> str:
    text = "(none)" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
