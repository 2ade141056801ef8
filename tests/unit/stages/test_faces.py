"""Photos by emotion, and faces and voices that a model makes."""

from __future__ import annotations

from collections import Counter

import pytest

from pipelines.stages.faces import FaceGiver, emotion_of
from pipelines.stages.photos import open_photos, person_of
from ser_toolkit.errors import RemoteError, UsageError
from ser_toolkit.journal import Journal
from ser_toolkit.llm.journaled import JournaledChat
from ser_toolkit.media import MediaStore
from ser_toolkit.media.making import FaceMaker, VoiceMaker
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Cue, Dialogue, Failure, Label, Media, Source, Speaker, Turn
from tests.servers.openai_stand_in import StandIn
from tests.unit.media.making import photo, sound

FELT = ("Sadness", "Joy", "Fear")


@pytest.fixture
def store(tmp_path) -> MediaStore:
    return MediaStore(tmp_path / "media")


@pytest.fixture
def photos(tmp_path):
    """Four people with a photo for each of three emotions, under names of different kinds."""
    for place, folder in enumerate(("sad", "Joy", "恐惧")):
        (tmp_path / "photos" / folder).mkdir(parents=True)
        for person in range(4):
            (tmp_path / "photos" / folder / f"p{person}_{place}.jpg").write_bytes(photo(10 * person + place))
    (tmp_path / "photos" / "surprise").mkdir()
    (tmp_path / "photos" / "sad" / "notes.txt").write_text("not a photo")
    return tmp_path / "photos"


def talk(id: str, *emotions: str | None, lang="en", cues=(), media=(), whole: str | None = None) -> Dialogue:
    """A round for each emotion."""
    turns = []
    for n, emotion in enumerate(emotions):
        felt = (Label(original="x", ser=emotion),) if emotion else ()
        turns += [
            Turn(speaker="seeker", text=f"Part {n}.", emotions=felt, cues=cues, media=media),
            Turn(speaker="supporter", text="I see."),
        ]
    emotion = Label(original="y", ser=whole) if whole else None
    source = Source(format="mesc", file="x")
    who = (Speaker(role="seeker", attributes={"gender": "female", "age": 34}),)
    return Dialogue(id=id, root_id=id, lang=lang, source=source, turns=tuple(turns), emotion=emotion, speakers=who)


def giver(store, *, photos=None, **more) -> FaceGiver:
    recipe = Recipe.model_validate({"sample": {"rounds": 9}, "media": more.pop("media", {"licence": "CC0-1.0"})})
    return FaceGiver(store, recipe, Prompts(), photos=photos and open_photos(photos, None), **more)


def faces_of(dialogue) -> list[Media]:
    return [m for t in dialogue.turns for m in t.media if m.kind == "image" and m.status == "ok"]


def test_subfolders_are_read_by_their_emotion_and_unknown_ones_listed(photos, tmp_path):
    found = open_photos(photos, None)
    assert {e: len(n) for e, n in found.by_emotion.items()} == {"Sadness": 4, "Joy": 4, "Fear": 4}
    assert found.unknown == ("surprise",)
    maps = tmp_path / "maps"
    maps.mkdir()
    (maps / "photos.toml").write_text('[emotions]\n"surprise" = {ser = "Fear"}\n')
    assert open_photos(photos, maps).unknown == ()
    for empty, why in ((tmp_path / "none", "no such folder"), (maps, "no subfolder with photos")):
        with pytest.raises(UsageError, match=why):
            open_photos(empty, None)


async def test_each_turn_shows_its_emotion_and_a_dialogue_one_person(photos, store):
    give = giver(store, photos=photos)
    people = Counter()
    for n in range(40):
        (made,) = await give.give(talk(f"d{n}", *FELT))
        shown = faces_of(made)
        assert [(m.origin, m.licence, m.shows) for m in shown] == [
            ("photos", "CC0-1.0", word) for word in ("sadness", "joy", "fear")
        ]
        who = {p for m in shown for p in range(4) for e in range(3) if m.sha256 == sha_of(store, 10 * p + e)}
        assert len(who) == 1, "one person a dialogue"
        people.update(who)
        assert (await give.give(talk(f"d{n}", *FELT))) == [made], "the draw hangs on seed and id"
    assert min(people.values()) >= 3 and len(people) == 4, f"all four are drawn: {people}"


SHAS: dict[int, str] = {}


def sha_of(store: MediaStore, seed: int) -> str:
    from ser_toolkit.media import take_in
    from ser_toolkit.recipe import Media as Policy

    if seed not in SHAS:
        SHAS[seed] = take_in(photo(seed), "image", store, Policy())[0].sha256 or ""
    return SHAS[seed]


def test_who_is_shown_is_told_by_the_name_before_the_first_underscore():
    assert [person_of(n) for n in ("sad/p1_2_3.jpg", "sad/0001.jpg", "a_b/x.png")] == ["p1", "", ""]


async def test_what_the_corpus_shows_comes_first_and_what_is_not_stated_is_not_invented(photos, store):
    give = giver(store, photos=photos)
    own = store.medium("ab/abcd.jpg")
    (made,) = await give.give(talk("a", "Joy", media=(own,)))
    assert faces_of(made) == [own]
    (made,) = await give.give(talk("b", None, "Disgust", "Joy"))
    assert [len(t.media) for t in made.turns] == [0, 0, 0, 0, 1, 0]
    assert give.without == {"no label of an emotion": 1, "no photo of Disgust": 1}
    (made,) = await give.give(talk("c", None, whole="Fear", lang="zh"))
    assert [m.shows for m in faces_of(made)] == ["恐惧"]
    assert emotion_of(talk("d", None), ()) is None


async def test_only_turns_that_are_reasoned_about_get_a_face(photos, store):
    give = giver(store, photos=photos)
    give.recipe = give.recipe.model_copy(update={"sample": give.recipe.sample.model_copy(update={"rounds": 2})})
    (made,) = await give.give(talk("a", *["Joy"] * 7))
    assert len(faces_of(made)) == 2


async def test_a_photo_that_cannot_be_used_is_a_failure_and_another_one_is_shown(photos, store):
    for file in sorted((photos / "sad").glob("*.jpg"))[:3]:
        file.write_bytes(file.read_bytes()[:100])
    give = giver(store, photos=photos)
    rows = [r for n in range(12) for r in await give.give(talk(f"d{n}", "Sadness"))]
    failures = [r for r in rows if isinstance(r, Failure)]
    assert failures and all(f.kind == "media" and f.stage == "faces" and "sad/p" in f.file for f in failures)
    assert all(f.position == "turn 1" for f in failures)
    shown = [d for d in rows if isinstance(d, Dialogue) and faces_of(d)]
    assert shown and give.without["no usable photo of Sadness"] == 12 - len(shown)


@pytest.fixture(scope="module")
def stand_in():
    with StandIn() as server:
        yield server


@pytest.fixture
def server(stand_in):
    stand_in.reset()
    return stand_in


def making(server, store, journal):
    media = {
        "faces": "generate",
        "voices": "generate",
        "image": {
            "base_url": server.base_url,
            "api_key_env": "IMAGE_KEY",
            "size": "256x256",
            "max_retries": 0,
        },
        "speech": {"base_url": server.base_url, "voice": "nova", "licence": "CC0-1.0", "max_retries": 0},
    }
    policy = Recipe.model_validate({"media": media}).media
    face, voice = FaceMaker(store, policy), VoiceMaker(store, policy)
    return giver(store, media=media, faces=JournaledChat(face, journal), voices=JournaledChat(voice, journal))


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path / "journal.sqlite")
    yield journal
    journal.close()


async def test_faces_and_voices_are_made_once_and_replayed(server, store, journal, monkeypatch):
    monkeypatch.setenv("IMAGE_KEY", "sk-image-key")
    cues = (Cue(channel="face", text="eyes down", source="x"), Cue(channel="voice", text="flat", source="x"))
    give = making(server, store, journal)
    (made,) = await give.give(talk("a", "Sadness", None, cues=cues))
    face, voice = made.turns[0].media
    assert (face.origin, face.licence, face.shows) == ("model:gpt-image-1", "unknown", "sadness; eyes down")
    assert (voice.kind, voice.origin, voice.licence) == ("audio", "model:gpt-4o-mini-tts", "CC0-1.0")
    assert store.read(face) and store.read(voice)
    picture = [r for r in server.received() if r["headers"]["path"].endswith("/images/generations")]
    assert len(picture) == 2 and picture[0]["headers"]["authorization"] == "Bearer sk-image-key"
    sent = picture[0]["body"]
    assert (sent["size"], sent["n"], sent["response_format"]) == ("256x256", 1, "b64_json")
    assert "sadness" in sent["prompt"] and "eyes down" in sent["prompt"] and "female, 34" in sent["prompt"]
    assert "Part 0" not in sent["prompt"], "what was said is not sent to who makes pictures"
    said = [r["body"] for r in server.received() if r["headers"]["path"].endswith("/audio/speech")]
    assert [s["input"] for s in said] == ["Part 0.", "Part 1."] and "flat" in said[0]["instructions"]
    before = server.stats()["made"]
    again = making(server, store, journal)
    assert await again.give(talk("a", "Sadness", None, cues=cues)) == [made]
    assert server.stats()["made"] == before and again.faces.replayed == 2  # pyright: ignore
    store.remove([face.path or ""])
    (mended,) = await making(server, store, journal).give(talk("a", "Sadness", None, cues=cues))
    assert store.has(mended.turns[0].media[0].path or "") and server.stats()["made"] == before + 1


async def test_without_emotion_and_cue_no_face_is_made(server, store, journal):
    give = making(server, store, journal)
    (made,) = await give.give(talk("a", None))
    assert not faces_of(made) and give.without == {"no label of an emotion and no cue": 1}


async def test_parameters_that_a_server_refuses_are_left_out(server, store, journal):
    server.reset(refuses=["response_format", "instructions"])
    (made,) = await making(server, store, journal).give(talk("a", "Joy"))
    assert [m.kind for m in made.turns[0].media] == ["image", "audio"]


async def test_what_comes_and_cannot_be_used_is_a_failure_that_stays(server, store, journal):
    server.reset(makes="broken")
    rows = await making(server, store, journal).give(talk("a", "Joy"))
    assert [r.kind for r in rows if isinstance(r, Failure)] == ["media", "media"], "a face and a voice"
    failure, _ = rows[1:]
    assert failure.request_key and failure.position == "turn 1" and "damaged" in failure.reason  # pyright: ignore
    server.reset()
    assert (await making(server, store, journal).give(talk("a", "Joy")))[1] == failure, "kept like any reply"
    server.reset(makes="wrong")
    rows = await making(server, store, journal).give(talk("b", "Joy"))
    assert "b64_json" in rows[1].reason, "an address is not followed"  # pyright: ignore


async def test_a_filtered_picture_is_counted_as_such_and_a_refused_key_ends_the_run(server, store, journal):
    server.reset(script=["400:content_policy_violation"])
    rows = await making(server, store, journal).give(talk("a", "Joy"))
    assert [r.kind for r in rows if isinstance(r, Failure)] == ["filtered"]
    server.reset(key="sk-right")
    with pytest.raises(RemoteError, match="the key was refused") as caught:
        await making(server, store, journal).give(talk("b", "Joy"))
    assert "IMAGE_KEY" in caught.value.hint
    with pytest.raises(UsageError, match=r"media\.image: no server is named"):
        FaceMaker(store, Recipe().media)


async def test_a_voice_of_the_corpus_stays(server, store, journal):
    from ser_toolkit.media import take_in
    from ser_toolkit.recipe import Media as Policy

    own = take_in(sound(), "audio", store, Policy())
    (made,) = await making(server, store, journal).give(talk("a", "Joy", media=own))
    assert [m.origin for m in made.turns[0].media] == ["corpus", "model:gpt-image-1"]
