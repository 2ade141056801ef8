"""OpenAI's messages: SoulChat, PsyDTCorpus, and chats with image parts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from pipelines.sources.base import Imported, SourceFormat
from pipelines.sources.openai_messages import MESSAGES, PSYDT, SOULCHAT, read_content
from ser_toolkit.errors import RecordError
from ser_toolkit.schema import Dialogue, Failure, Media

Importing = Callable[..., list[Imported]]
USER = {"role": "user", "content": "我最近总是失眠。"}
REPLY = {"role": "assistant", "content": "从什么时候开始的？"}
RIFF_SHA = hashlib.sha256(b"RIFF").hexdigest()
PIXEL = b"\x89PNG pixel"
DATA_URL = "data:image/png;base64," + base64.b64encode(PIXEL).decode()


@pytest.mark.parametrize("format", [SOULCHAT, PSYDT, MESSAGES], ids=lambda f: f.name)
@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_messages_become_turns_and_the_rest_meta(importing: Importing, format: SourceFormat, name: str) -> None:
    system = {"role": "system", "content": "你是一位咨询师。"}
    rows = [
        {"id": 3, "topic": "睡眠", "normalizedTag": "压力", "messages": [system, USER, {**REPLY, "name": "b"}]},
        {"messages": [USER, REPLY]},
    ]
    first, second = importing(format, {name: rows})
    assert isinstance(first, Dialogue)
    assert isinstance(second, Dialogue)
    assert (first.id, first.problem, first.lang) == (f"{format.name}-3", "睡眠", "zh")
    assert [(turn.speaker, turn.text) for turn in first.turns] == [
        ("seeker", USER["content"]),
        ("supporter", REPLY["content"]),
    ]
    assert first.meta == {
        "normalizedTag": "压力",
        "shape": "messages",
        "system": system["content"],
        "turn_fields": {"3": {"name": "b"}},
    }
    assert first.source.licence == "unknown"
    assert second.meta == {"shape": "messages"}


def test_a_line_may_be_the_bare_list(importing: Importing) -> None:
    found = importing(MESSAGES, {"a.jsonl": [[USER, REPLY], [REPLY, USER, REPLY]]})
    assert [len(record.turns) for record in found if isinstance(record, Dialogue)] == [2, 3]


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        ({"text": "x"}, "malformed"),
        ({"messages": "x"}, "malformed"),
        ({"messages": [USER, "x"]}, "malformed"),
        ({"messages": [USER, {"content": "x"}]}, "malformed"),
        ({"messages": [USER, {"role": "tool", "content": "x"}]}, "unknown_speaker"),
        ({"messages": [USER, {"role": "assistant", "content": 5}]}, "malformed"),
        ({"messages": [USER, {"role": "assistant", "content": None, "tool_calls": []}]}, "one_sided"),
        ({"id": [1], "messages": [USER, REPLY]}, "malformed"),
    ],
)
def test_what_is_no_chat_is_a_failure(importing: Importing, record: Any, kind: str) -> None:
    good = {"messages": [USER, REPLY]}
    found = importing(MESSAGES, {"a.jsonl": [record, good]})
    assert isinstance(found[0], Failure)
    assert (found[0].kind, found[0].position) == (kind, "line 1")
    assert isinstance(found[1], Dialogue)


# Parts


@pytest.mark.parametrize(
    ("part", "medium"),
    [
        (
            {"type": "image_url", "image_url": {"url": "https://a.org/x.png", "detail": "low"}},
            Media(kind="image", url="https://a.org/x.png"),
        ),
        ({"type": "image_url", "image_url": "faces/x.png"}, Media(kind="image", path="faces/x.png")),
        ({"type": "input_image", "image_url": "file://faces/x.png"}, Media(kind="image", path="faces/x.png")),
        ({"type": "image", "url": "http://a.org/x.png"}, Media(kind="image", url="http://a.org/x.png")),
        ({"type": "image", "path": "x.png"}, Media(kind="image", path="x.png")),
        (
            {"type": "video_url", "video_url": {"url": "https://a.org/x.mp4"}},
            Media(kind="video", url="https://a.org/x.mp4"),
        ),
        (
            {"type": "image_url", "image_url": {"url": DATA_URL}},
            Media(kind="image", url=DATA_URL, sha256=hashlib.sha256(PIXEL).hexdigest(), media_type="image/png"),
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            Media(kind="audio", url="data:audio/wav;base64,UklGRg==", sha256=RIFF_SHA, media_type="audio/wav"),
        ),
    ],
)
def test_media_parts(part: Any, medium: Media) -> None:
    text, media = read_content([{"type": "text", "text": "a"}, part, {"type": "text", "text": "b"}], "message 1")
    assert (text, media) == ("a\nb", (medium,))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([{"type": "refusal", "refusal": "x"}], "part 1 of message 1 is of an unknown type, 'refusal'"),
        ([{"type": "image_url"}], "names no image"),
        ([{"type": "image_url", "image_url": {"url": ""}}], "names no image"),
        ([{"type": "text"}], "has no 'text'"),
        ([{"type": "text", "text": 5}], "'text' of part 1 of message 1"),
        ([5], "part 1 of message 1 is int"),
        ([{"type": "image_url", "image_url": {"url": "data:image/png;base64,@@@"}}], "data URL cannot be read"),
        ([{"type": "image_url", "image_url": {"url": "data:image/png,xx"}}], "data URL cannot be read"),
    ],
)
def test_a_part_that_cannot_be_kept_fails_the_record(content: Any, reason: str) -> None:
    with pytest.raises(RecordError) as error:
        read_content(content, "message 1")
    assert error.value.kind == "malformed"
    assert reason in error.value.reason


def test_an_image_alone_is_a_turn(importing: Importing) -> None:
    photo = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": DATA_URL}}]}
    (found,) = importing(MESSAGES, {"a.jsonl": [{"messages": [photo, REPLY]}]})
    assert isinstance(found, Dialogue)
    assert (found.turns[0].text, len(found.turns[0].media), found.meta["shape"]) == ("", 1, "parts")
