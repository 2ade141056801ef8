"""A video as it is kept, and still pictures out of it.

What MP4's boxes say beside pictures and sound (place, device, title) is blanked in place, so that nothing moves. Still
pictures need OpenCV, the extra `[video]`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ser_toolkit.errors import RecordError, UsageError
from ser_toolkit.recipe import Media as Policy

from .images import encode
from .sniffing import FileType

_BLANKED = (b"udta", b"meta", b"uuid", b"skip", b"free")
_HOLDS = (b"moov", b"trak")


def clean_video(data: bytes) -> bytes:
    """The MP4 with its user data blanked. Raises RecordError("media") where its boxes do not fill the file."""
    clean = bytearray(data)
    found = [name for name, *_ in _boxes(data, 0, len(data))]
    for needed in (b"moov", b"mdat"):
        if needed not in found:
            raise RecordError("media", f"the MP4 video is damaged: it has no {needed.decode()} box")
    _blank(clean, data, 0, len(data))
    return bytes(clean)


def _blank(clean: bytearray, data: bytes, start: int, end: int) -> None:
    for name, at, body, stop in _boxes(data, start, end):
        if name in _BLANKED:
            clean[at + 4 : at + 8] = b"free"
            clean[body:stop] = bytes(stop - body)
        elif name in _HOLDS:
            _blank(clean, data, body, stop)


def _boxes(data: bytes, at: int, end: int) -> Iterator[tuple[bytes, int, int, int]]:
    """(name, start, start of its body, end) of the boxes in `data[at:end]`. Source: ISO/IEC 14496-12."""
    while at < end:
        size, name, body = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8], at + 8
        if size == 1:
            size, body = int.from_bytes(data[at + 8 : at + 16], "big"), at + 16
        stop = end if size == 0 else at + size
        if len(name) < 4 or stop < body or stop > end:
            raise RecordError("media", f"the MP4 video is cut or damaged at byte {at}")
        yield name, at, body, stop
        at = stop


def key_frames(file: Path, count: int, policy: Policy) -> list[tuple[bytes, FileType]]:
    """`count` pictures out of the video, from the middle of as many equal parts; fewer where it has fewer frames.

    Raises RecordError("media") where they cannot be decoded, UsageError where OpenCV is not installed.
    """
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    os.environ.setdefault("OPENCV_LOG_LEVEL", "OFF")
    try:
        import cv2
    except ImportError as exc:
        raise UsageError(
            "a video is among the media, and taking pictures out of it needs OpenCV",
            "pip install 'ser-toolkit[video]', or leave videos alone: --set media.key_frames=0",
        ) from exc
    from PIL import Image

    video = cv2.VideoCapture(str(file), cv2.CAP_FFMPEG)
    try:
        frames, rate, width, height = (
            video.get(p)
            for p in (cv2.CAP_PROP_FRAME_COUNT, cv2.CAP_PROP_FPS, cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT)
        )
        if not video.isOpened() or frames < 1 or rate <= 0:
            raise RecordError("media", "the MP4 video cannot be decoded")
        if frames / rate > policy.max_seconds:
            raise RecordError("media", f"the video is longer than media.max_seconds ({policy.max_seconds:g}) allows")
        if width * height > policy.max_megapixels * 1e6:
            raise RecordError("media", f"{width:g} x {height:g} pixels, more than media.max_megapixels allows")
        made = []
        for at in sorted({int((n + 0.5) * frames / count) for n in range(count)}):
            video.set(cv2.CAP_PROP_POS_FRAMES, at)
            is_there, frame = video.read()
            if not is_there:
                raise RecordError("media", f"the MP4 video is cut: frame {at} of {frames:g} is not there")
            picture = Image.fromarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB))
            made.append(encode(picture, policy.max_side, as_png=False))
        return made
    except cv2.error as exc:
        raise RecordError("media", f"the MP4 video is damaged: {exc}") from exc
    finally:
        video.release()
