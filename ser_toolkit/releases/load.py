"""`load_release`: a release as Polars frames, pandas frames or `datasets`, its files checked first."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ser_toolkit.errors import DataError, UsageError

from .manifest import Manifest, file_hash, read_manifest
from .rows import MEDIA_COLUMNS
from .splits import SPLITS

if TYPE_CHECKING:
    import datasets
    import pandas
    import polars

REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""owner/name on the Hub."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release on disk. `rows` is config -> split -> count, as the manifest says."""

    path: Path
    manifest: Manifest

    def __repr__(self) -> str:
        return f"Release({str(self.path)!r}, {_listed(self.rows)})"

    @property
    def rows(self) -> dict[str, dict[str, int]]:
        return self.manifest["rows"]

    def files(self, config: str, split: str | None = None) -> dict[str, Path]:
        """Split -> Parquet file. Raises UsageError for a config or split that the release does not have."""
        found = {s: self.path / config / f"{s}.parquet" for s in SPLITS if s in self.rows.get(config, {})}
        if not found or (split is not None and split not in found):
            asked = config if split is None or not found else f"{config}/{split}"
            reason = self.manifest.get("absent", {}).get(asked, "there is no such config or split")
            raise UsageError(f"{self.path.name} has no {asked}: {reason}", f"it has: {_listed(self.rows)}")
        return found if split is None else {split: found[split]}

    def frame(self, config: str = "traces", split: str | None = None, *, text_only: bool = False) -> polars.DataFrame:
        """The rows of one split, or of all with a column `split` in front; `text_only`: without pictures and sounds."""
        import polars

        left_out = MEDIA_COLUMNS if text_only else ()
        frames = [
            polars.scan_parquet(f)
            .select(polars.lit(s).alias("split"), polars.all())
            .drop(left_out, strict=False)
            .collect()
            for s, f in self.files(config, split).items()
        ]
        whole = polars.concat(frames)
        return whole if split is None else whole.drop("split")

    def to_pandas(
        self, config: str = "traces", split: str | None = None, *, text_only: bool = False
    ) -> pandas.DataFrame:
        """The same as `frame`, for pandas; a list in a cell comes as a NumPy array."""
        return self.frame(config, split, text_only=text_only).to_pandas()

    def dataset(self, config: str = "traces", *, text_only: bool = False) -> datasets.DatasetDict:
        """The splits of a config, as `datasets.load_dataset(PATH, CONFIG)` gives them; `text_only`: for a text model,
        without the columns of pictures and sounds.
        """
        import datasets

        self.files(config)
        found: datasets.DatasetDict = datasets.load_dataset(str(self.path), config)  # pyright: ignore[reportAssignmentType]
        if not text_only:
            return found
        held = {name for columns in found.column_names.values() for name in columns}
        return found.remove_columns([name for name in MEDIA_COLUMNS if name in held])

    def verify(self) -> None:
        """Raises DataError that names the first file which is missing, or is not as it was written."""
        for name, entry in self.manifest["files"].items():
            file = self.path / name
            try:
                intact = file_hash(file) == entry["sha256"]
            except OSError as exc:
                raise DataError(f"{file}: cannot be read: {exc.strerror}", _DAMAGED) from exc
            if not intact:
                raise DataError(f"{file}: its content is not what was released (SHA-256 differs)", _DAMAGED)


_DAMAGED = "the release is damaged: export it again, or fetch it again"


def load_release(release: str | Path, verify: bool = True) -> Release:
    """A release by its folder, or by its id `owner/name` (or `owner/name@version`) on the Hub.

    Raises DataError for a folder that is no release or is damaged, UsageError where there is neither a folder nor an
    id, RemoteError where the Hub refuses.
    """
    path = Path(release)
    if not path.exists():
        repo_id, _, revision = str(release).partition("@")
        if not REPO_ID.fullmatch(repo_id):
            raise UsageError(f"{release}: no such folder", "name a folder under releases/, or owner/name on the Hub")
        from ser_toolkit.hub import pull_release

        path = pull_release(repo_id, revision or None)
    found = Release(path, read_manifest(path))
    if verify:
        found.verify()
    return found


def _listed(rows: dict[str, dict[str, int]]) -> str:
    return "; ".join(f"{config} ({', '.join(splits)})" for config, splits in rows.items())
