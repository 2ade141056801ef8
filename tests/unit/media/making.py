"""Pictures, sounds and videos, made here: small, real files, and ones that are not what they say."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np


def picture(format: str = "PNG", size: tuple[int, int] = (64, 48), color: str = "teal", **options: object) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", size, color).save(out, format, **options)
    return out.getvalue()


def photo(seed: int, format: str = "JPEG", size: tuple[int, int] = (96, 96), **options: object) -> bytes:
    """A picture of noise: no two seeds alike, and as hard to pack as a photo."""
    from PIL import Image

    pixels = np.random.default_rng(seed).integers(0, 255, (*size[::-1], 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, format, **options)
    return out.getvalue()


def with_exif(orientation: int = 6) -> bytes:
    """A JPEG that lies on its side, says where it was taken, and has a comment."""
    from PIL import Image

    image = Image.new("RGB", (60, 40), "white")
    image.paste("black", (0, 0, 60, 4))
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010E] = "Kevin Walsh at home"
    exif.get_ifd(0x8825).update({1: "N", 2: (52.0, 31.0, 12.0)})
    out = io.BytesIO()
    image.save(out, "JPEG", exif=exif, comment=b"taken by Kevin", quality=95)
    return out.getvalue()


def animated(format: str = "WEBP") -> bytes:
    """Two frames: red, then blue."""
    from PIL import Image

    frames = [Image.new("RGB", (32, 32), color) for color in ("red", "blue")]
    out = io.BytesIO()
    frames[0].save(out, format, save_all=True, append_images=frames[1:], lossless=True)
    return out.getvalue()


def png_bomb(width: int = 60_000, height: int = 60_000) -> bytes:
    """A PNG of few bytes that says it has 3,600,000,000 pixels."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\0" * 10_000_000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def webp_bomb() -> bytes:
    """A WebP whose canvas says 16,384 x 16,384 pixels."""
    data = bytearray(animated())
    at = data.index(b"VP8X") + 12
    data[at : at + 6] = (16_383).to_bytes(3, "little") * 2
    return bytes(data)


def sound(format: str = "WAV", seconds: float = 0.5) -> bytes:
    import soundfile

    rate = 16_000
    wave = 0.3 * np.sin(2 * np.pi * 220 * np.arange(int(rate * seconds)) / rate)
    out = io.BytesIO()
    soundfile.write(out, wave, rate, format=format)
    return out.getvalue()


def video(path: Path, frames: int = 20, size: tuple[int, int] = (64, 48)) -> bytes:
    """A small MP4 whose frames go from dark to bright."""
    import cv2

    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"mp4v"), 10, size)
    for n in range(frames):
        writer.write(np.full((size[1], size[0], 3), 255 * n // (frames - 1), dtype=np.uint8))
    writer.release()
    return path.read_bytes()


def with_place(mp4: bytes) -> bytes:
    """The MP4 with a user data box behind everything in `moov` that names a place."""
    at = mp4.index(b"moov") - 4
    size = int.from_bytes(mp4[at : at + 4], "big")
    said = b"+52.5200+013.4050/"
    box = struct.pack(">I", 8 + 8 + len(said)) + b"udta" + struct.pack(">I", 8 + len(said)) + b"\xa9xyz" + said
    assert at + size == len(mp4), "moov must stand last, so that no offset moves"
    return mp4[:at] + struct.pack(">I", size + len(box)) + mp4[at + 4 :] + box
