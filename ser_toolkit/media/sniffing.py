"""What a file is, by its first bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["image", "audio", "video"]


@dataclass(frozen=True, slots=True)
class FileType:
    """One type that is taken in; `suffix` is how the store's files of it are called."""

    kind: Kind
    media_type: str
    suffix: str


PNG = FileType("image", "image/png", ".png")
JPEG = FileType("image", "image/jpeg", ".jpg")
WEBP = FileType("image", "image/webp", ".webp")
WAV = FileType("audio", "audio/wav", ".wav")
FLAC = FileType("audio", "audio/flac", ".flac")
MP3 = FileType("audio", "audio/mpeg", ".mp3")
MP4 = FileType("video", "video/mp4", ".mp4")

TYPES = (PNG, JPEG, WEBP, WAV, FLAC, MP3, MP4)
BY_SUFFIX = {**{t.suffix: t for t in TYPES}, ".jpeg": JPEG, ".jpe": JPEG, ".wave": WAV, ".m4v": MP4}
KNOWN = "PNG, JPEG, WebP, WAV, FLAC, MP3 or MP4"
HEAD = 16
"""Bytes that `sniff` looks at."""

_NOT_VIDEO = frozenset(brand.ljust(4) for brand in b"heic heix heim heis hevc mif1 msf1 avif avis crx M4A M4B".split())
"""Brands of other files in MP4's container: still pictures, sound alone."""


def sniff(head: bytes) -> FileType | None:
    """The type of a file that begins with `head`; `None` for any other."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return PNG
    if head.startswith(b"\xff\xd8\xff"):
        return JPEG
    if head[:4] == b"RIFF":
        return {b"WEBP": WEBP, b"WAVE": WAV}.get(head[8:12])
    if head.startswith(b"fLaC"):
        return FLAC
    if head[4:8] == b"ftyp":
        return None if head[8:12] in _NOT_VIDEO else MP4
    return MP3 if head.startswith(b"ID3") or is_mp3_frame(head) else None


def is_mp3_frame(head: bytes) -> bool:
    """Whether a frame header of MPEG layer III stands at the front."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2:
        return False
    is_version_known, bitrate, rate = head[1] & 0x18 != 0x08, head[2] >> 4, head[2] >> 2 & 3
    return is_version_known and 0 < bitrate < 15 and rate < 3
