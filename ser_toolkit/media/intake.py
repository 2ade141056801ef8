"""From untrusted bytes, or a path that a corpus names, to files of the store."""

from __future__ import annotations

import re
import stat
from pathlib import Path, PureWindowsPath

from ser_toolkit.errors import RecordError
from ser_toolkit.recipe import Media as Policy
from ser_toolkit.schema import Media

from .images import clean_image
from .sniffing import HEAD, KNOWN, FileType, Kind, sniff
from .sounds import clean_sound
from .store import MediaStore
from .videos import clean_video, key_frames


def take_in(
    data: bytes,
    kind: Kind,
    store: MediaStore,
    policy: Policy,
    *,
    origin: str = "corpus",
    licence: str | None = None,
    shows: str = "",
) -> tuple[Media, ...]:
    """The medium that `data` holds, cleaned and kept; behind a video the pictures out of it.

    Raises RecordError("media") where it is not of this kind by its content, damaged or too large.
    """
    limit = int(policy.max_file_mb * 2**20)
    if len(data) > limit:
        raise RecordError("media", f"{len(data):,} bytes, more than media.max_file_mb ({policy.max_file_mb:g}) allows")
    if not data:
        raise RecordError("media", "the file is empty")
    type = sniff(data[:HEAD])
    if type is None:
        raise RecordError("media", f"by its content it is no {KNOWN}")
    if type.kind != kind:
        raise RecordError("media", f"named as {kind}, but by its content it is {type.media_type}")

    def keep(bare: bytes, as_type: FileType, source: str = origin) -> Media:
        return store.medium(store.put(bare, as_type), origin=source, licence=licence, shows=shows)

    if kind == "image":
        return (keep(*clean_image(data, type, policy)),)
    if kind == "audio":
        return (keep(clean_sound(data, type, policy), type),)
    video = keep(clean_video(data), type)
    try:
        frames = key_frames(store.root / (video.path or ""), policy.key_frames, policy)
    except RecordError:
        store.remove([video.path or ""])
        raise
    return video, *(keep(frame, as_type, "video") for frame, as_type in frames)


def read_inside(root: Path, name: str, policy: Policy) -> bytes | None:
    """The bytes of the file that `name` means within the folder `root`; `None` where there is none.

    Raises RecordError("media") for a path that leaves the folder (absolute, "..", by a link), for what is no regular
    file, is too large or cannot be read.
    """
    if name.startswith("/") or "\0" in name or PureWindowsPath(name).drive or ".." in re.split(r"[/\\]", name):
        raise RecordError("media", "its path leads out of the source's folder")
    try:
        file = (root / name).resolve()
        if not file.is_relative_to(root.resolve()):
            raise RecordError("media", "its path leads out of the source's folder, by a link")
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):
            raise RecordError("media", "it is no regular file")
        if found.st_size > policy.max_file_mb * 2**20:
            raise RecordError(
                "media", f"{found.st_size:,} bytes, more than media.max_file_mb ({policy.max_file_mb:g}) allows"
            )
        return file.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, RuntimeError, ValueError) as exc:  # RuntimeError: links in a circle
        raise RecordError("media", f"it cannot be read: {getattr(exc, 'strerror', None) or exc}") from exc
