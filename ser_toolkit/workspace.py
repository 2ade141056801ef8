"""A workspace: the folder in which a build lives, and the lock that keeps two builds apart.

ser.yaml   journal.sqlite   tables/*.parquet   media/   annotation.sqlite   releases/   runs/
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .errors import DataError, UsageError


@dataclass(frozen=True, slots=True)
class Workspace:
    """The paths of one workspace."""

    root: Path

    @property
    def journal(self) -> Path:
        return self.root / "journal.sqlite"

    @property
    def releases(self) -> Path:
        return self.root / "releases"

    @property
    def media(self) -> Path:
        """Pictures, sounds and videos, by their content."""
        return self.root / "media"

    @property
    def maps(self) -> Path:
        """Label maps that lie over the bundled ones."""
        return self.root / "maps"

    @property
    def prompts(self) -> Path:
        """Prompt templates that lie over the bundled ones."""
        return self.root / "prompts"

    @property
    def withdrawn(self) -> Path:
        """The ids that were withdrawn, one a line."""
        return self.root / "withdrawn.txt"

    def table(self, name: str) -> Path:
        return self.root / "tables" / f"{name}.parquet"

    def must_exist(self) -> Workspace:
        """Itself. Raises UsageError where there is no such folder: a command that only reads makes none."""
        if not self.root.is_dir():
            raise UsageError(f"{self.root}: there is no such workspace", "name one with -w; `ser init DIR` makes one")
        return self

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the workspace for one writing command. Raises DataError where another one has it.

        The lock is the kernel's (flock), so it ends with its process, also after kill -9.
        """
        with writing(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as exc:
                owner = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
                raise DataError(
                    f"{self.root}: another command (process {owner}) is working in this workspace",
                    "wait for it to end, or use another folder with -w",
                ) from exc
            with writing(self.root):
                os.ftruncate(handle, 0)
                os.pwrite(handle, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(handle)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the file system's refusals into a DataError that says what to do."""
    try:
        yield
    except OSError as exc:
        raise disk_error(path, exc) from exc


def disk_error(path: Path, exc: OSError) -> DataError:
    """What an OSError on writing to `path` means for the user."""
    if exc.errno in (errno.ENOSPC, errno.EDQUOT):
        return DataError(
            f"{path}: no space left on the disk",
            "free some and run the same command again: what was paid for is kept",
        )
    if exc.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return DataError(f"{path}: cannot be written to (read-only?)", "choose a writable folder with -w")
    if exc.errno in (errno.ENOTDIR, errno.EEXIST):
        return DataError(f"{path}: a file stands where a folder is needed", "choose another folder with -w")
    return DataError(f"{path}: {exc.strerror or exc}", "check the disk and the path")
