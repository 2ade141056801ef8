"""Faces and voices through a whole build: on the wire, in the tables, in the release, and gone again."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest

from pipelines import build
from pipelines.doctor import examine
from pipelines.exporting import export
from pipelines.showing import find, render
from pipelines.withdrawing import withdraw
from ser_toolkit import load_release
from ser_toolkit.errors import TooManyFailures, UsageError
from ser_toolkit.schema import Dialogue, Failure, Trace
from ser_toolkit.store import read_table
from ser_toolkit.workspace import Workspace
from tests.integration.conftest import TEXT
from tests.unit.media.making import photo, png_bomb, sound, video, with_exif


def data_url(data: bytes, media_type: str = "image/jpeg") -> dict:
    return {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{base64.b64encode(data).decode()}"}}


def write(folder: Path, *parts: list, name: str = "in.jsonl") -> Path:
    """A dialogue for each list of content parts, which stand beside the seeker's last words."""
    words = TEXT.split()
    lines = []
    for n, own in enumerate(parts):
        said = [" ".join(words[(7 * n + k) % len(words)] for k in range(i, i + 12)) for i in range(0, 36, 12)]
        content = [*own, {"type": "text", "text": f"{said[2]}, day {n}."}]
        turns = [("user", f"{said[0]}, first {n}."), ("assistant", said[1]), ("user", content), ("assistant", "I see.")]
        lines.append({"id": f"d{n}", "messages": [{"role": role, "content": text} for role, text in turns]})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(map(json.dumps, lines)))
    return folder / name


def run(home: Path, source: str, llm, *sets: str, **more):
    options = {"sources": [source], "quiet": True, "model": llm["model"], **more}
    return build(home, sets=[*llm["sets"], "filter.enabled=false", *sets], **options)


def test_files_of_a_corpus_reach_the_model_and_the_release(tmp_path, llm, model_server):
    corpus = tmp_path / "corpus"
    source = write(
        corpus,
        [data_url(with_exif())],
        [{"type": "image_url", "image_url": {"url": "faces/Kevin Walsh.png"}}],
        [{"type": "input_audio", "input_audio": {"data": base64.b64encode(sound()).decode(), "format": "wav"}}],
        [{"type": "image_url", "image_url": {"url": "faces/none.png"}}],
    )
    (corpus / "faces").mkdir()
    (corpus / "faces" / "Kevin Walsh.png").write_bytes(photo(7, "PNG"))
    result = run(tmp_path / "w", f"messages:{source}", llm)
    home = Workspace(tmp_path / "w")
    assert result.failures == {} and any("1 files that the sources name are not there" in n for n in result.notes)
    seen = {hashlib.sha256(p).hexdigest() for pictures in model_server.pictures() for p in pictures}
    stored = {p.stem: p for p in home.media.rglob("*.*g") if p.suffix in (".jpg", ".png")}
    assert len(seen) == 2 and seen == set(stored), "what is sent is what is kept"
    for file in (p for p in home.root.rglob("*") if p.is_file()):
        assert b"Kevin" not in file.read_bytes(), file
    assert not any("base64," in json.dumps(d.model_dump()) for d in read_table(home.table("imported"), Dialogue))
    saw = {t.id: t.saw for t in read_table(home.table("traces"), Trace)}
    assert [saw[f"messages-d{n}-r2"] for n in range(4)] == ["image", "image", "text", "text"]
    release = load_release(result.export.made.path)
    rows = {r["id"]: r for r in release.frame("traces").to_dicts()}
    held = [[hashlib.sha256(i["bytes"]).hexdigest() for i in rows[f"messages-d{n}-r2"]["images"]] for n in range(4)]
    assert [len(h) for h in held] == [1, 1, 0, 0] and {h for x in held for h in x} == seen
    assert [len(r["audio"]) for r in release.frame("dialogues").sort("id").to_dicts()] == [0, 0, 1, 0]
    assert str(tmp_path) not in json.dumps(release.manifest)
    again = run(tmp_path / "w", f"messages:{source}", llm)
    assert again.calls == 0 and again.export.made.content_hash == result.export.made.content_hash
    shown = render(find(home, "messages-d0"))
    assert "(image: media/" in shown and "(image: no media)" in render(find(home, "messages-d3"))


def test_a_file_that_cannot_be_used_is_a_failure_and_counts(tmp_path, llm, model_server):
    corpus = tmp_path / "corpus"
    names = ("../out.png", "bomb.png", "cut.jpg", "good.jpg")
    parts = [[{"type": "image_url", "image_url": {"url": name}}] for name in names]
    source = write(corpus, *parts)
    (tmp_path / "out.png").write_bytes(photo(1, "PNG"))
    (corpus / "bomb.png").write_bytes(png_bomb())
    (corpus / "cut.jpg").write_bytes(photo(1)[:200])
    (corpus / "good.jpg").write_bytes(photo(1))
    with pytest.raises(TooManyFailures, match=r"import: 3 of 7 failed.*media 3"):
        run(tmp_path / "w", f"messages:{source}", llm)
    assert model_server.stats().get("calls", 0) == 0
    result = run(tmp_path / "w", f"messages:{source}", llm, "failures.max_share=0.5")
    assert result.failures == {"media": 3} and len(model_server.pictures()) == 1
    failed = {f.record_id: f for f in read_table(Workspace(tmp_path / "w").table("failures"), Failure)}
    assert [(failed[f"messages-d{n}"].position, failed[f"messages-d{n}"].file) for n in range(3)] == [
        (f"line {n + 1}, turn 3", "in.jsonl") for n in range(3)
    ]
    assert failed["messages-d1"].reason.startswith("bomb.png: ")
    assert load_release(result.export.made.path).frame("dialogues").height == 4, "the dialogues go on"


def test_a_text_only_server_is_told_and_the_pictures_still_stand_in_the_release(tmp_path, llm, model_server):
    source = write(tmp_path / "c", [data_url(photo(1))], [data_url(photo(2))])
    model_server.reset(refuses=["images"])
    result = run(tmp_path / "w", f"messages:{source}", llm)
    traces = load_release(result.export.made.path).frame("traces")
    assert set(traces["saw"]) == {"text"} and traces["images"].list.len().sum() == 2
    left = run(tmp_path / "v", f"messages:{source}", llm, "media.faces=cues")
    assert "images" not in load_release(left.export.made.path).frame("traces").columns
    assert any("2 media of the sources are left alone" in n for n in left.notes)


def test_withdrawing_takes_the_pictures_along(tmp_path, llm):
    shared = photo(1)
    source = write(tmp_path / "c", [data_url(shared)], [data_url(photo(2)), data_url(shared)], [data_url(photo(3))])
    run(tmp_path / "w", f"messages:{source}", llm)
    home = Workspace(tmp_path / "w")
    before = {p.name for p in home.media.rglob("*.jpg")}
    gone = withdraw(home, "messages-d1")
    after = {p.name for p in home.media.rglob("*.jpg")}
    assert (len(before), len(after), gone.media) == (3, 2, 1), "what another dialogue shows stays"
    made = load_release(export(home).made.path)
    assert {i["path"] for r in made.frame("traces")["images"].to_list() for i in r} == after
    run(tmp_path / "w", f"messages:{source}", llm)
    assert {p.name for p in home.media.rglob("*.jpg")} == after, "a later build does not take them in again"


def photo_folder(folder: Path) -> Path:
    for place, name in enumerate(
        ("sad", "anger", "fear", "joy", "anxiety", "disgust", "depression", "shame", "Neutral")
    ):
        (folder / name).mkdir(parents=True)
        for person in range(3):
            (folder / name / f"p{person}_x.jpg").write_bytes(photo(10 * place + person))
    (folder / "surprise").mkdir()
    (folder / "surprise" / "1.jpg").write_bytes(photo(99))
    return folder


def test_real_corpora_get_photos_by_emotion(tmp_path, llm, model_server, shared_data):
    folder = photo_folder(tmp_path / "photos")
    sources = [f"esconv:{shared_data / 'esconv'}", f"mesc:{shared_data / 'mesc' / 'test.txt'}"]
    sets = (f"media.folder={folder}", "media.faces=folder", "media.licence=CC0-1.0", "failures.max_share=0.4")
    result = run(tmp_path / "w", "", llm, *sets, sources=sources, limit=6)
    assert any("emotion is not known: surprise" in n for n in result.notes)
    release = load_release(result.export.made.path)
    traces = release.frame("traces").to_dicts()
    with_picture = [t for t in traces if t["images"]]
    assert len(with_picture) > len(traces) / 2 and {t["saw"] for t in with_picture} == {"image"}
    assert len(model_server.pictures()) == len(with_picture)
    known = {hashlib.sha256(p.read_bytes()).hexdigest() for p in Workspace(tmp_path / "w").media.rglob("*.jpg")}
    assert {hashlib.sha256(i["bytes"]).hexdigest() for t in traces for i in t["images"]} == known
    (photos,) = release.manifest["media"]
    assert (photos["origin"], photos["licence"]) == ("photos", "CC0-1.0")
    card = (result.export.made.path / "README.md").read_text()
    assert "Faces and voices are personal data" in card and "| image | photos | CC0-1.0 |" in card
    assert "photos" in release.manifest["lineage"]["recipe"]["media"]["folder"]
    assert str(tmp_path) not in json.dumps(release.manifest)
    again = run(tmp_path / "w", "", llm, *sets, sources=sources, limit=6)
    assert again.calls == 0 and again.export.made.content_hash == result.export.made.content_hash


def test_made_faces_and_voices_are_paid_for_once_and_leave(tmp_path, llm, model_server, monkeypatch):
    monkeypatch.setenv("IMAGE_KEY", "sk-image-secret")
    source = tmp_path / "in.jsonl"
    rows = [
        {
            "id": f"d{n}",
            "turns": [
                {"speaker": "seeker", "text": f"My flat feels empty, day {n}.", "emotion": felt},
                {"speaker": "supporter", "text": "Since when?"},
            ],
        }
        for n, felt in enumerate(("sadness", "fear", "shame"))
    ]
    source.write_text("\n".join(map(json.dumps, rows)))
    sets = [
        "media.faces=generate",
        "media.voices=generate",
        f"media.image.base_url={model_server.base_url}",
        "media.image.api_key_env=IMAGE_KEY",
        f"media.speech.base_url={model_server.base_url}",
    ]
    result = run(tmp_path / "w", f"jsonl:{source}", llm, *sets)
    home = Workspace(tmp_path / "w")
    assert result.calls == 3 + 3 + 3 and model_server.stats()["made"] == 6
    release = load_release(result.export.made.path)
    assert release.frame("traces")["images"].list.len().to_list() == [1, 1, 1]
    assert release.frame("dialogues")["audio"].list.len().to_list() == [1, 1, 1]
    assert {m["origin"] for m in release.manifest["media"]} == {"model:gpt-image-1", "model:gpt-4o-mini-tts"}
    assert "images from model:gpt-image-1 are unknown" in result.render()
    again = run(tmp_path / "w", f"jsonl:{source}", llm, *sets)
    assert (again.calls, again.replayed) == (0, 9) and model_server.stats()["made"] == 6
    assert again.export.made.content_hash == release.manifest["content_hash"]
    for file in (p for p in home.root.rglob("*") if p.is_file()):
        assert b"sk-image-secret" not in file.read_bytes(), file
    text = json.dumps(release.manifest)
    assert "127.0.0.1" not in text and "IMAGE_KEY" not in text
    gone = withdraw(home, "jsonl-d1")
    assert (gone.media, gone.replies) == (2, 3) and len(list(home.media.rglob("*.*"))) == 4


def test_voices_and_videos_beside_a_corpus(tmp_path, llm, model_server):
    """AvaMERG's way: one sound and one video an utterance, found by their names."""
    corpus = tmp_path / "ava"
    (corpus / "video").mkdir(parents=True)
    said = (
        "My dog ran off last night.",
        "Oh no. Did you find him?",
        "Not yet. I keep calling.",
        "I hope he comes back.",
    )
    history = [{"index": i, "role": ("speaker", "listener")[i % 2], "utterance": text} for i, text in enumerate(said)]
    turns = [{"dialogue_history": history[:n], "response": said[n]} for n in (1, 3)]
    record = {"conversation_id": "00042", "speaker_profile": {"ID": 3}, "listener_profile": {"ID": 5}, "turns": turns}
    (corpus / "train.json").write_text(json.dumps([record]))
    (corpus / "dia00042utt2_3.wav").write_bytes(sound())
    film = video(corpus / "video" / "dia00042utt2_3.mp4")
    result = run(tmp_path / "w", f"avamerg:{corpus / 'train.json'}", llm)
    assert result.failures == {} and len(model_server.pictures()) == 1
    traces = {t.round: t.saw for t in read_table(Workspace(tmp_path / "w").table("traces"), Trace)}
    assert traces == {1: "text", 2: "image"}
    release = load_release(result.export.made.path)
    assert [(m["kind"], m["origin"]) for m in release.manifest["media"]] == [("audio", "corpus"), ("image", "video")]
    assert len(release.frame("dialogues")["audio"][0]) == 1
    for file in (tmp_path / "w" / "releases").rglob("*.parquet"):
        assert film[-200:] not in file.read_bytes(), "of a video a release holds the pictures alone"


def test_what_the_recipe_asks_for_and_cannot_be_had_is_told_before_anything_is_paid(tmp_path, llm, model_server):
    source = write(tmp_path / "c", [])
    for sets, why in (
        (["media.faces=folder"], r"media\.folder names none"),
        (["media.faces=folder", f"media.folder={tmp_path / 'none'}"], "no such folder"),
        (["media.faces=generate"], r"media\.image: no server is named"),
        (["media.voices=generate"], r"media\.speech: no server is named"),
        (["media.faces=photos"], r"media\.faces"),
        (["media.image.base_url=http://me:secret@host"], "no password in an address"),
    ):
        with pytest.raises(UsageError, match=why) as caught:
            run(tmp_path / "w", f"messages:{source}", llm, *sets)
        assert "secret" not in str(caught.value)
    assert model_server.stats().get("calls", 0) == 0


def test_doctor_tells_of_faces_and_voices(tmp_path, monkeypatch):
    monkeypatch.delenv("IMAGE_KEY", raising=False)

    def media(recipe: str):
        (tmp_path / "ser.yaml").write_text(recipe)
        (found,) = (c for c in examine(tmp_path).checks if c.name == "media")
        return found

    assert media("seed: 1\n").what == "faces: files; voices: files"
    broken = media("media: {faces: folder, folder: none}\n")
    assert broken.state == "broken" and "no such folder" in broken.what
    photo_folder(tmp_path / "photos")
    assert media("media: {faces: folder, folder: photos}\n").state == "ok", "a relative folder counts from the recipe"
    image = "{base_url: http://localhost:9/v1, api_key_env: IMAGE_KEY}"
    assert media(f"media: {{faces: generate, image: {image}}}\n").what.endswith("IMAGE_KEY is not set")
