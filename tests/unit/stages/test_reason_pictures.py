"""What a model sees of a face, on the wire, and what the trace says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.stages.reason import MOST_PICTURES, reason
from ser_toolkit.journal import Journal
from ser_toolkit.llm.journaled import JournaledChat
from ser_toolkit.llm.openai import open_model
from ser_toolkit.media import MediaStore, take_in
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Media as Policy
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Cue, Dialogue, Media, Source, Trace, Turn
from tests.servers.openai_stand_in import StandIn
from tests.unit.media.making import photo

REPLIES = Path(__file__).parents[2] / "servers" / "ser_replies.py"
FACE = Cue(channel="face", text="eyes on the floor", source="x")
VOICE = Cue(channel="voice", text="hardly to be heard", source="x")


@pytest.fixture(scope="module")
def stand_in():
    with StandIn(reply=f"{REPLIES}:build") as server:
        yield server


@pytest.fixture
def server(stand_in):
    stand_in.reset()
    return stand_in


@pytest.fixture
def store(tmp_path) -> MediaStore:
    return MediaStore(tmp_path / "media")


def face(store: MediaStore, n: int = 0, shows: str = "") -> Media:
    return take_in(photo(n), "image", store, Policy(), shows=shows)[0]


def talk(*media: Media, cues=(FACE, VOICE), lang="en") -> Dialogue:
    seen = {"media": media, "cues": cues}
    turns = (
        Turn(speaker="seeker", text="First part.", cues=(FACE,)),
        Turn(speaker="supporter", text="Go on."),
        Turn(speaker="seeker", text="It was my brother.", **seen),
        Turn(speaker="supporter", text="What was he like?"),
    )
    return Dialogue(id="d", root_id="d", lang=lang, source=Source(format="x"), turns=turns)


async def traces(server, store, dialogue, journal=None, **llm) -> list[Trace]:
    settings = {"model": "openai:m", "base_url": server.base_url, "max_retries": 0, **llm.pop("llm", {})}
    recipe = Recipe.model_validate({"llm": settings, "sample": {"rounds": 9}, **llm})
    chat = open_model("m", recipe.llm)
    rows = await reason(dialogue, JournaledChat(chat, journal) if journal else chat, recipe, Prompts(), store)
    await chat.aclose()
    assert all(isinstance(r, Trace) for r in rows), rows
    return rows  # pyright: ignore[reportReturnType]


def said(body) -> str:
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else content[-1]["text"]


async def test_the_picture_arrives_and_stands_for_the_words_about_the_face(server, store):
    shown = face(store)
    first, second = await traces(server, store, talk(shown))
    assert (first.saw, second.saw) == ("cues", "image"), "the first round has no picture"
    assert server.pictures() == [[store.read(shown)]], "byte for byte"
    (asked,) = [b for b in server.bodies() if isinstance(b["messages"][-1]["content"], list)]
    url = asked["messages"][-1]["content"][0]["image_url"]["url"]
    assert url.startswith("data:image/jpeg;base64,")
    assert "It was my brother. [face: see the picture] [voice: hardly to be heard]" in said(asked)
    assert "First part. [face: eyes on the floor]" in said(asked), "earlier faces are told in words"


@pytest.mark.parametrize("vision", ["false", "auto"])
async def test_a_text_only_model_gets_the_cues_in_place_of_the_picture(server, store, tmp_path, vision):
    server.reset(refuses=["images"])
    journal = Journal(tmp_path / "journal.sqlite")
    for _ in range(2):  # asked, then replayed
        _, trace = await traces(server, store, talk(face(store)), journal, llm={"vision": vision})
        assert trace.saw == "cues", "what it really saw, also when replayed"
    journal.close()
    answered = [b for b in server.bodies() if isinstance(b["messages"][-1]["content"], str)]
    assert len(answered) == 2
    assert any("brother. [face: eyes on the floor] [voice: hardly to be heard]" in said(b) for b in answered)
    assert not any("see the picture" in said(b) for b in answered)
    assert len(server.pictures()) == (1 if vision == "auto" else 0)


async def test_what_a_photo_was_chosen_to_show_is_told_where_the_corpus_has_no_cue(server, store):
    _, trace = await traces(server, store, talk(face(store, shows="sadness"), cues=()), llm={"vision": False})
    assert trace.saw == "cues" and any("brother. [face: sadness]" in said(b) for b in server.bodies())
    server.reset()
    _, trace = await traces(server, store, talk(face(store, shows="sadness"), cues=()))
    assert trace.saw == "image" and not any("sadness" in said(b) for b in server.bodies()), "it is to be seen, not told"


async def test_each_part_of_a_trace_sees_the_picture_and_chinese_says_so(server, store):
    _, trace = await traces(server, store, talk(face(store), lang="zh"), reason={"parts": "each"})
    assert trace.saw == "image" and len(server.pictures()) == 4
    asked = [b for b in server.bodies() if isinstance(b["messages"][-1]["content"], list)]
    assert all("【" in said(b) or "[表情：见图]" in said(b) for b in asked)


async def test_pictures_are_bounded_and_count_in_the_context(server, store):
    many = tuple(face(store, n) for n in range(MOST_PICTURES + 2))
    await traces(server, store, talk(*many))
    assert server.pictures() == [[store.read(m) for m in many[-MOST_PICTURES:]]]
    fits = {"context_tokens": 2150, "max_tokens": 256}
    for pictures, start in (((), 0), (many[:1], 2)):
        *_, trace = await traces(server, store, talk(*pictures), llm=fits)
        assert trace.history_start == start
