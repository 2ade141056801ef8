"""What a record says of a picture, a sound or a video: an address, a path, or the thing itself -> Media."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from ser_toolkit.errors import RecordError
from ser_toolkit.media.sniffing import BY_SUFFIX, Kind
from ser_toolkit.schema import Media

_PLACES = ("url", "path", "file")


def media_of(value: Any, kind: Kind, place: str, files: Mapping[str, bytes] | None = None) -> tuple[Media, ...]:
    """The media of a value: a path, an http(s) or data URL, an object that holds one, or a list of these.

    `files` holds bytes of the record by their SHA-256, which a table's cell {bytes, path} names. Raises
    RecordError("malformed"), naming the place.
    """
    if isinstance(value, list):
        return tuple(m for one in value for m in media_of(one, kind, place, files))
    if value is None or value == "":
        return ()
    if isinstance(value, dict):
        held = value.get("bytes")
        if isinstance(held, dict) and (data := (files or {}).get(str(held.get("sha256")))) is not None:
            return (_held(data, kind),)
        value = next((value[key] for key in _PLACES if value.get(key)), None)
    if not isinstance(value, str) or not value:
        raise RecordError("malformed", f"{place} names no {kind}")
    if value.startswith("data:"):
        return (_inline(value, kind, place),)
    if value.startswith(("http://", "https://")):
        return (Media(kind=kind, url=value),)
    return (Media(kind=kind, path=value.removeprefix("file://")),)


def may_be_media(value: Any, kind: Kind) -> bool:
    """Whether a value under a common name is a medium, and no words about one."""
    if isinstance(value, list):
        return bool(value) and all(may_be_media(one, kind) for one in value)
    if isinstance(value, dict):
        return "bytes" in value or any(isinstance(value.get(key), str) for key in _PLACES)
    if not isinstance(value, str):
        return False
    named = BY_SUFFIX.get(PurePath(value).suffix.lower())
    return value.startswith(("data:", "http://", "https://", "file://")) or (named is not None and named.kind == kind)


def _held(data: bytes, kind: Kind) -> Media:
    url = f"data:;base64,{base64.b64encode(data).decode('ascii')}"
    return Media(kind=kind, url=url, sha256=hashlib.sha256(data).hexdigest())


def _inline(url: str, kind: Kind, place: str) -> Media:
    head, comma, data = url.partition(",")
    try:
        if not comma or not head.endswith(";base64"):
            raise ValueError("not of the form data:TYPE;base64,DATA")
        content = base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError) as exc:
        raise RecordError("malformed", f"{place}: the data URL cannot be read: {exc}", text=url[:80]) from exc
    return Media(
        kind=kind,
        url=url,
        sha256=hashlib.sha256(content).hexdigest(),
        media_type=head.removeprefix("data:").partition(";")[0] or None,
    )
