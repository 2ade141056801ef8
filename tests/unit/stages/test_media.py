"""Taking in what a corpus names: what is kept, what is told, and that the dialogue goes on."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from pipelines.stages.media import MediaCounts, take_in_media
from ser_toolkit.media import MediaStore
from ser_toolkit.recipe import Media as Policy
from ser_toolkit.schema import Dialogue, Media, Source, Turn
from tests.unit.media.making import picture, png_bomb, sound


@pytest.fixture
def store(tmp_path) -> MediaStore:
    return MediaStore(tmp_path / "media")


def talk(*media: Media, file: str = "sub/in.jsonl") -> Dialogue:
    turns = (
        Turn(speaker="supporter", text="How are you?"),
        Turn(speaker="seeker", text="Tired.", media=media),
        Turn(speaker="supporter", text="Since when?"),
    )
    source = Source(format="jsonl", file=file, position="line 7")
    return Dialogue(id="d1", root_id="d1", lang="en", source=source, turns=turns)


def files(folder: Path, **content: bytes) -> Path:
    (folder / "sub").mkdir(parents=True)
    for name, data in content.items():
        stem, _, suffix = name.rpartition("_")
        (folder / "sub" / f"{stem}.{suffix}").write_bytes(data)
    return folder


def test_files_are_looked_for_beside_the_file_that_names_them_then_in_the_folder(tmp_path, store):
    folder = files(tmp_path / "c", face_png=picture())
    (folder / "voice.wav").write_bytes(sound())
    named = talk(
        Media(kind="image", path="face.png"), Media(kind="audio", path="voice.wav"), Media(kind="image", path="no.png")
    )
    made, failures, counts = take_in_media(named, folder, store, Policy())
    face, voice, none = made.turns[1].media
    assert (face.status, voice.status, none) == ("ok", "ok", Media(kind="image", status="no media"))
    assert store.has(face.path or "") and store.has(voice.path or "")
    assert not failures and counts == MediaCounts({"image": 1, "audio": 1}, absent=1)
    assert counts.notes() == ['1 files that the sources name are not there: their media say "no media"']
    assert "face.png" not in made.model_dump_json() and "voice" not in made.model_dump_json()


def test_what_cannot_be_used_is_a_failure_with_record_turn_and_file_and_the_talk_goes_on(tmp_path, store):
    folder = files(tmp_path / "c", bomb_png=png_bomb(), cut_png=picture()[:40], page_jpg=b"<html>", sound_png=sound())
    (tmp_path / "c" / "sub" / "link.png").symlink_to(tmp_path)
    names = ("../../secret.png", "/etc/passwd", "bomb.png", "cut.png", "page.jpg", "sound.png", "link.png/x.png")
    named = talk(*(Media(kind="image", path=name) for name in names))
    made, failures, counts = take_in_media(named, folder, store, Policy())
    assert [m.status for m in made.turns[1].media] == ["no media"] * len(names) and counts.taken.total() == 0
    assert [t.text for t in made.turns] == [t.text for t in named.turns]
    reasons = (
        "out of the",
        "out of the",
        "more than media.max_mega",
        "damaged",
        "by its content",
        "audio/wav",
        "by a link",
    )
    for failure, name, reason in zip(failures, names, reasons, strict=True):
        assert failure.reason.startswith(f"{name}: ") and reason in failure.reason
        assert (failure.kind, failure.stage, failure.record_id) == ("media", "media", "d1")
        assert (failure.source, failure.file, failure.position) == ("jsonl", "sub/in.jsonl", "line 7, turn 2")
    assert not store.root.exists()


def test_a_name_that_says_another_type_is_flagged_and_the_content_believed(tmp_path, store):
    folder = files(tmp_path / "c", a_png=picture("JPEG"))
    made, failures, counts = take_in_media(talk(Media(kind="image", path="a.png")), folder, store, Policy())
    assert made.turns[1].media[0].media_type == "image/jpeg" and made.turns[1].flags == ("media_mislabelled",)
    assert not failures and counts.mislabelled == 1


def test_a_data_url_is_taken_out_of_the_record_whatever_the_recipe_wants(tmp_path, store):
    url = f"data:image/png;base64,{base64.b64encode(picture()).decode()}"
    named = talk(Media(kind="image", url=url, media_type="image/png"))
    made, _, _ = take_in_media(named, tmp_path, store, Policy())
    assert made.turns[1].media[0].status == "ok" and "base64" not in made.model_dump_json()
    left, _, counts = take_in_media(named, tmp_path, store, Policy(faces="cues"))
    assert left.turns[1].media[0].status == "referenced" and "base64" not in left.model_dump_json()
    assert counts == MediaCounts(left=1)
    broken = talk(Media(kind="image", url="data:image/png;base64,@@"))
    _, (failure,), _ = take_in_media(broken, tmp_path, store, Policy())
    assert failure.reason == "image in the record: its data URL is no base64: Only base64 data is allowed"


def test_an_address_is_not_fetched_and_told(tmp_path, store):
    address = Media(kind="image", url="https://me:secret@example.org/a.png?key=secret#x")
    made, failures, counts = take_in_media(talk(address), tmp_path, store, Policy())
    assert made.turns[1].media == (Media(kind="image", url="https://example.org/a.png", status="no media"),)
    assert not failures
    assert "not fetched" in counts.notes()[0]


def test_voices_and_videos_can_be_left_alone(tmp_path, store):
    folder = files(tmp_path / "c", a_wav=sound(), b_mp4=b"no video")
    named = talk(Media(kind="audio", path="a.wav"), Media(kind="video", path="b.mp4"))
    made, failures, counts = take_in_media(named, folder, store, Policy(voices="none", key_frames=0))
    assert [m.status for m in made.turns[1].media] == ["referenced"] * 2 and not failures and counts.left == 2
