"""Files by the SHA-256 of their content: `media/ab/abcdef….jpg` of a workspace."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from ser_toolkit.errors import DataError
from ser_toolkit.schema import Media
from ser_toolkit.workspace import writing

from .sniffing import BY_SUFFIX, FileType

_SHA256 = re.compile(r"[0-9a-f]{64}")


def find_file(root: Path, sha256: str) -> Path | None:
    """The file of this content in the store at `root`; `None` for what is no hash, or is not there."""
    if _SHA256.fullmatch(sha256) is None:
        return None
    return next((f for f in (root / sha256[:2]).glob(f"{sha256}.*") if f.suffix in BY_SUFFIX and f.is_file()), None)


class MediaStore:
    """The media of one workspace. Equal content is one file, however many turns show it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, data: bytes, type: FileType) -> str:
        """Keep `data`; its path within the store."""
        sha = hashlib.sha256(data).hexdigest()
        path = f"{sha[:2]}/{sha}{type.suffix}"
        file = self.root / path
        if not file.exists():
            with writing(file):
                file.parent.mkdir(parents=True, exist_ok=True)
                handle, part = tempfile.mkstemp(dir=file.parent, prefix=".part-")
                with os.fdopen(handle, "wb") as out:
                    out.write(data)
                Path(part).replace(file)
        return path

    def medium(self, path: str, *, origin: str = "corpus", licence: str | None = None, shows: str = "") -> Media:
        """The record of a file of this store."""
        type = BY_SUFFIX[PurePosixPath(path).suffix]
        return Media(
            kind=type.kind,
            path=path,
            sha256=PurePosixPath(path).stem,
            media_type=type.media_type,
            status="ok",
            origin=origin,
            licence=licence,
            shows=shows,
        )

    def has(self, path: str) -> bool:
        """Whether the file is still there."""
        return (self.root / path).is_file()

    def read(self, medium: Media) -> bytes:
        """The bytes of a medium whose status is "ok". Raises DataError where they are gone, or not what they were."""
        file = self.root / (medium.path or "")
        try:
            data = file.read_bytes()
        except OSError as exc:
            raise DataError(
                f"{file}: a file that a dialogue shows cannot be read ({exc.strerror})",
                "run `ser build` again to take it in",
            ) from exc
        if hashlib.sha256(data).hexdigest() != medium.sha256:
            raise DataError(f"{file}: damaged (its SHA-256 differs)", "delete it and run `ser build` again")
        return data

    def remove(self, paths: Iterable[str]) -> int:
        """Delete files of the store; returns how many there were."""
        gone = 0
        for path in paths:
            file = self.root / path
            with writing(file):
                gone += file.exists()
                file.unlink(missing_ok=True)
        return gone
