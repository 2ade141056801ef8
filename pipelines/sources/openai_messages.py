"""OpenAI's `messages` layout: SoulChat, PsyDTCorpus, and one's own chats, with image parts.

A record is {id?, topic?, messages: [{role: user | assistant | system, content}]}, in a JSON list or JSON Lines. The
user is the seeker, the assistant the supporter; a system text is kept in `meta`, as is every other field of a record
(normalizedTag); a topic is the problem. Neither SoulChat's nor PsyDTCorpus' files state a licence that we could
confirm: both are "unknown" until the recipe says more.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ser_toolkit.errors import RecordError
from ser_toolkit.media.sniffing import Kind
from ser_toolkit.schema import Dialogue, Media
from ser_toolkit.taxonomy import LabelMap, load_map

from .base import Imported, ReadContext, SourceFormat
from .collecting import Collected
from .finish import make_dialogue, member, read_records
from .media_parts import media_of
from .reading import Raw, json_records

_PARTS: dict[str, Kind] = {
    "image_url": "image",
    "input_image": "image",
    "image": "image",
    "input_audio": "audio",
    "audio_url": "audio",
    "audio": "audio",
    "video_url": "video",
    "video": "video",
}
_TEXT_PARTS = ("text", "input_text", "output_text")


def _read(name: str, path: Path, context: ReadContext) -> Iterator[Imported]:
    labels = load_map(name, context.maps)
    return read_records(json_records(path, context), name, lambda raw: _dialogue(raw, name, labels, context))


def _dialogue(raw: Raw, name: str, labels: LabelMap, context: ReadContext) -> Dialogue:
    record = {"messages": raw.value} if isinstance(raw.value, list) else raw.value
    messages = member(record, "messages", list)
    collected = Collected(context.spec.roles, labels)
    for place, message in enumerate(messages, 1):
        where = f"message {place}"
        role = member(message, "role", str, where)
        text, media = read_content(message.get("content"), where)
        rest = {key: value for key, value in message.items() if key not in ("role", "content")}
        collected.add(place, role, text, media=media, rest=rest)
    own_id, topic = record.get("id"), record.get("topic")
    used = {"messages", *(["id"] if own_id is not None else []), *(["topic"] if isinstance(topic, str) else [])}
    if own_id is not None and (not isinstance(own_id, str | int) or isinstance(own_id, bool)):
        raise RecordError("malformed", f"the id is of type {type(own_id).__name__}")
    return make_dialogue(
        raw,
        name,
        "unknown",
        context,
        turns=collected.turns,
        own_id=None if own_id is None else str(own_id),
        problem=topic if isinstance(topic, str) else "",
        meta={
            **{key: value for key, value in record.items() if key not in used},
            "shape": "parts" if any(turn.media for turn in collected.turns) else "messages",
            **collected.meta(),
        },
    )


def read_content(content: Any, where: str) -> tuple[str, tuple[Media, ...]]:
    """A message's text and media: `content` is a text, nothing, or a list of parts. Raises RecordError("malformed")."""
    if content is None or isinstance(content, str):
        return content or "", ()
    if not isinstance(content, list):
        raise RecordError("malformed", f"the content of {where} is of type {type(content).__name__}")
    texts: list[str] = []
    media: list[Media] = []
    for number, part in enumerate(content, 1):
        place = f"part {number} of {where}"
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = member(part, "type", str, place)
        if kind in _TEXT_PARTS:
            texts.append(member(part, "text", str, place))
        elif kind in _PARTS:
            media += _medium(part, kind, place)
        else:
            raise RecordError("malformed", f"{place} is of an unknown type, {kind!r}")
    return "\n".join(texts), tuple(media)


def _medium(part: dict[str, Any], key: str, place: str) -> tuple[Media, ...]:
    """{type: image_url, image_url: {url}} and its kin: the address is under the type's own key, or `url`, `path`."""
    kind = _PARTS[key]
    found = part.get(key, part.get("image_url", part.get("url", part.get("path"))))
    if isinstance(found, dict) and isinstance(found.get("data"), str):  # input_audio: bare base64 and a format
        found = f"data:{kind}/{found.get('format', 'wav')};base64,{found['data']}"
    made = media_of(found, kind, place)
    if not made:
        raise RecordError("malformed", f"{place} names no {kind}")
    return made


def _format(name: str, title: str, languages: tuple[str, ...], expects: str) -> SourceFormat:
    return SourceFormat(name, title, "dialogues", languages, "unknown", expects, partial(_read, name))


_EXPECTS = "JSON list or JSON Lines of {id?, topic?, messages: [{role, content}]}"
SOULCHAT = _format("soulchat", "SoulChat", ("zh",), _EXPECTS)
PSYDT = _format("psydt", "PsyDTCorpus", ("zh",), _EXPECTS)
MESSAGES = _format("messages", "one's own chats in OpenAI's layout", ("en", "zh"), f"{_EXPECTS}, image parts too")
