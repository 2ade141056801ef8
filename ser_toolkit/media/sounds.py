"""A sound as it is kept: the samples as they came, without tags, comments and cover pictures.

The stream is never written anew (a lossy one would lose more); the parts of the file that may speak of people are left
out, and the rest is decoded once, so that a cut or damaged file is found. An MP3 that was cut between two frames is a
shorter MP3: nothing in it tells.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

from ser_toolkit.errors import RecordError
from ser_toolkit.recipe import Media as Policy

from .sniffing import FLAC, MP3, WAV, FileType, is_mp3_frame

BLOCK = 1 << 18
"""Samples, of all channels, that are decoded at once."""


def clean_sound(data: bytes, type: FileType, policy: Policy) -> bytes:
    """The sound without its tags. Raises RecordError("media"): damaged, cut, or longer than allowed."""
    bare = {WAV: _bare_wav, FLAC: _bare_flac, MP3: _bare_mp3}[type](data)
    _decode(bare, type, policy.max_seconds)
    return bare


def _decode(data: bytes, type: FileType, max_seconds: float) -> None:
    """Decode it all, and see whether it is all there."""
    from soundfile import LibsndfileError, SoundFile

    name = type.suffix[1:].upper()
    try:
        with SoundFile(io.BytesIO(data)) as sound:
            if sound.frames > max_seconds * sound.samplerate:
                raise RecordError("media", f"the sound is longer than media.max_seconds ({max_seconds:g}) allows")
            found, step = 0, max(1, BLOCK // sound.channels)
            while block := len(sound.read(step, dtype="float32")):
                found += block
            if not found or (type is not MP3 and found != sound.frames):
                raise RecordError("media", f"the {name} sound is cut: {found} of {sound.frames} samples are there")
    except (LibsndfileError, ValueError, TypeError) as exc:
        raise RecordError("media", f"the {name} sound is damaged: {exc}") from exc


def _bare_wav(data: bytes) -> bytes:
    kept = b"".join(data[at:end] for name, at, end in _wav_chunks(data) if name in (b"fmt ", b"fact", b"data"))
    return b"RIFF" + struct.pack("<I", len(kept) + 4) + b"WAVE" + kept


def _wav_chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """(name, start, end) of each chunk, padding included, up to the samples."""
    at = 12
    while at + 8 <= len(data):
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        if at + 8 + size > len(data):
            raise RecordError("media", f"the WAV sound is cut: {at + 8 + size} bytes are stated, {len(data)} are there")
        end = at + 8 + size + size % 2
        yield name, at, end
        if name == b"data":
            return
        at = end
    raise RecordError("media", "the WAV sound is damaged: it has no samples")


def _bare_flac(data: bytes) -> bytes:
    """Source: RFC 9639, section 8: blocks 0 (stream info) and 3 (seek table) stay."""
    at, blocks, is_last = 4, [], False
    while not is_last:
        head = data[at : at + 4]
        if len(head) < 4:
            raise RecordError("media", "the FLAC sound is cut within its header")
        is_last, end = bool(head[0] & 0x80), at + 4 + int.from_bytes(head[1:], "big")
        if head[0] & 0x7F in (0, 3):
            blocks.append((head[0] & 0x7F, data[at + 1 : end]))
        at = end
    if not blocks or at >= len(data):
        raise RecordError("media", "the FLAC sound is cut: it has no samples")
    heads = [bytes([kind | (0x80 if n == len(blocks) else 0)]) + rest for n, (kind, rest) in enumerate(blocks, 1)]
    return b"fLaC" + b"".join(heads) + data[at:]


def _bare_mp3(data: bytes) -> bytes:
    """Without ID3v2 in front, and without ID3v1 and APE tags behind."""
    start, end = 0, len(data)
    while data[start : start + 3] == b"ID3" and len(data) >= start + 10:
        size = 0
        for byte in data[start + 6 : start + 10]:
            size = size << 7 | byte & 0x7F
        start += size + (20 if data[start + 5] & 0x10 else 10)
    while end > start:
        if data[max(start, end - 128) :][:3] == b"TAG" and end - start >= 128:
            end -= 128
        elif data[max(start, end - 32) :][:8] == b"APETAGEX" and end - start >= 32:
            footer = data[end - 32 : end]
            size, flags = struct.unpack("<I4xI", footer[12:24])
            end = max(start, end - size - (32 if flags & 0x80000000 else 0))
        else:
            break
        data = data[:end]
    bare = data[start:end]
    if len(bare) < _frame_length(bare):
        raise RecordError("media", "the MP3 sound is cut within its first frame")
    return bare


def _frame_length(data: bytes) -> int:
    """Bytes of the frame of layer III that `data` begins with; 4, a header's, where there is none. Source: ISO/IEC
    11172-3, 2.4.2.3, and 13818-3.
    """
    if len(data) < 4 or not is_mp3_frame(data):
        return 4
    is_first = data[1] & 0x18 == 0x18  # MPEG 1, else 2 or 2.5
    rate = (44_100, 48_000, 32_000)[data[2] >> 2 & 3] >> (0 if is_first else 1 if data[1] & 0x10 else 2)
    kilobits = (_KILOBITS_1 if is_first else _KILOBITS_2)[data[2] >> 4]
    return (144 if is_first else 72) * kilobits * 1000 // rate + (data[2] >> 1 & 1)


_KILOBITS_1 = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_KILOBITS_2 = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
