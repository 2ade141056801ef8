"""A picture as it is kept: upright, no larger than asked, and nothing beside its pixels.

It is decoded whole (a truncated file is found) and written anew: EXIF, GPS, XMP, comments, thumbnails and whatever is
glued behind the picture stay behind. The first frame of an animation is the picture. JPEG and opaque WebP become JPEG,
the rest PNG: every model server reads those two.
"""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from typing import TYPE_CHECKING

from ser_toolkit.errors import RecordError
from ser_toolkit.recipe import Media as Policy

from .sniffing import JPEG, PNG, WEBP, FileType

if TYPE_CHECKING:
    from PIL.Image import Image

QUALITY = 92
_FORMATS = {PNG: "PNG", JPEG: "JPEG", WEBP: "WEBP"}
_BROKEN = (OSError, SyntaxError, ValueError, TypeError, KeyError, LookupError, EOFError, OverflowError, ArithmeticError)
"""What Pillow is known to raise on damaged files."""


def clean_image(data: bytes, type: FileType, policy: Policy) -> tuple[bytes, FileType]:
    """The picture anew, and its type now. Raises RecordError("media"): damaged, or more pixels than allowed."""
    from PIL import Image, ImageOps

    limit = int(policy.max_megapixels * 1e6)
    if type is WEBP:  # its decoder takes the memory of a whole canvas on opening
        _check_pixels(*_webp_size(data), limit)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's own, larger limit on pixels; torn EXIF
            with Image.open(io.BytesIO(data), formats=[_FORMATS[type]]) as image:
                _check_pixels(*image.size, limit)
                image.load()
                upright = ImageOps.exif_transpose(image)
                return encode(upright, policy.max_side, as_png=type is PNG)
    except Image.DecompressionBombError as exc:  # Pillow's own limit, on opening
        raise _too_large("its pixels", limit) from exc
    except (*_BROKEN, struct.error, zlib.error, MemoryError) as exc:
        raise RecordError("media", f"the {_FORMATS[type]} picture is damaged: {str(exc)[:200]}") from exc


def encode(image: Image, max_side: int, *, as_png: bool) -> tuple[bytes, FileType]:
    """The picture as PNG (asked for, or see-through) or JPEG, scaled down to `max_side` pixels."""
    plain = image.convert("RGBA" if image.has_transparency_data else "RGB")
    plain.info = {}
    plain.thumbnail((max_side, max_side))
    out = io.BytesIO()
    if as_png or plain.mode == "RGBA":
        plain.save(out, "PNG", optimize=False)
        return out.getvalue(), PNG
    plain.save(out, "JPEG", quality=QUALITY)
    return out.getvalue(), JPEG


def _check_pixels(width: int, height: int, limit: int) -> None:
    if width * height > limit:
        raise _too_large(f"{width} x {height} pixels", limit)


def _too_large(what: str, limit: int) -> RecordError:
    return RecordError("media", f"{what}: more than media.max_megapixels ({limit / 1e6:g}) allows")


def _webp_size(data: bytes) -> tuple[int, int]:
    """(width, height) of the canvas, from the first chunk. Source: RFC 9649."""
    chunk, body = data[12:16], data[20:30]
    if len(body) == 10 and chunk == b"VP8X":
        return int.from_bytes(body[4:7], "little") + 1, int.from_bytes(body[7:10], "little") + 1
    if len(body) == 10 and chunk == b"VP8 ":
        width, height = struct.unpack("<HH", body[6:10])
        return width & 0x3FFF, height & 0x3FFF
    if len(body) >= 5 and chunk == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    raise RecordError("media", "the WEBP picture is damaged: no picture chunk at its front")
