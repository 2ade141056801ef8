"""What is taken in, what is refused, and what is left of it."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ser_toolkit.errors import DataError, RecordError
from ser_toolkit.media import MediaStore, read_inside, sniff, take_in
from ser_toolkit.recipe import Media
from tests.unit.media.making import (
    animated,
    photo,
    picture,
    png_bomb,
    sound,
    video,
    webp_bomb,
    with_exif,
    with_place,
)

POLICY = Media()


@pytest.fixture
def store(tmp_path) -> MediaStore:
    return MediaStore(tmp_path / "media")


def opened(store: MediaStore, path: str | None):
    from PIL import Image

    image = Image.open(store.root / (path or ""))
    image.load()
    return image


@pytest.mark.parametrize(("format", "stored"), [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/jpeg")])
def test_pictures_are_kept_by_their_hash(store, format, stored):
    (medium,) = take_in(picture(format), "image", store, POLICY)
    data = store.read(medium)
    assert (medium.media_type, medium.status, medium.origin) == (stored, "ok", "corpus")
    assert medium.sha256 == hashlib.sha256(data).hexdigest()
    assert medium.path == f"{medium.sha256[:2]}/{medium.sha256}{'.png' if stored == 'image/png' else '.jpg'}"
    assert opened(store, medium.path).size == (64, 48)


def test_equal_content_is_one_file_and_the_same_file_again(store):
    first, again = (take_in(photo(1), "image", store, POLICY)[0] for _ in range(2))
    assert first == again and len(list(store.root.rglob("*.jpg"))) == 1


def test_a_picture_is_turned_upright_and_keeps_nothing_that_tells_on_people(store):
    data = with_exif() + b"glued behind: Kevin's motion photo"
    assert b"Kevin Walsh" in data and b"taken by Kevin" in data
    (medium,) = take_in(data, "image", store, POLICY)
    kept = store.read(medium)
    image = opened(store, medium.path)
    assert b"Kevin" not in kept and not image.getexif() and "comment" not in image.info
    assert image.size == (40, 60), "orientation 6: turned a quarter"
    assert np.asarray(image.convert("L"))[30, 38] < 60, "its dark upper edge is now on the right"


def test_a_large_picture_is_scaled_down_and_a_see_through_one_stays_so(store):
    from PIL import Image

    (large,) = take_in(picture("JPEG", (400, 200)), "image", store, Media(max_side=100))
    assert opened(store, large.path).size == (100, 50)
    out = io.BytesIO()
    Image.new("RGBA", (20, 20), (255, 0, 0, 90)).save(out, "WEBP", lossless=True)
    (clear,) = take_in(out.getvalue(), "image", store, POLICY)
    assert clear.media_type == "image/png" and opened(store, clear.path).getpixel((3, 3)) == (255, 0, 0, 90)


@pytest.mark.parametrize("format", ["WEBP", "PNG"])
def test_of_an_animation_the_first_frame_counts(store, format):
    (medium,) = take_in(animated(format), "image", store, POLICY)
    image = opened(store, medium.path)
    assert getattr(image, "n_frames", 1) == 1
    red, _, blue = image.convert("RGB").getpixel((5, 5))
    assert red > 200 and blue < 50


def test_bombs_are_refused_before_they_are_decoded(store):
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for bomb in (png_bomb(), webp_bomb()):
        assert len(bomb) < 20_000
        with pytest.raises(RecordError, match=r"pixels: more than media\.max_megapixels"):
            take_in(bomb, "image", store, POLICY)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kB"
    with pytest.raises(RecordError, match="64 x 48 pixels"):
        take_in(picture(), "image", store, Media(max_megapixels=0.001))


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP"])
def test_cut_and_damaged_pictures_are_refused(store, format):
    whole = photo(3, format)
    for length in (20, len(whole) // 2, len(whole) - 40):
        with pytest.raises(RecordError, match="damaged"):
            take_in(whole[:length], "image", store, POLICY)
    assert not store.root.exists(), "nothing of them is kept"


@pytest.mark.parametrize("format", ["WAV", "FLAC", "MP3"])
def test_sounds_are_kept_and_cut_ones_refused(store, format):
    whole = sound(format)
    (medium,) = take_in(whole, "audio", store, POLICY)
    assert medium.kind == "audio" and medium.path and medium.path.endswith(f".{format.lower()}")
    if format != "MP3":  # half an MP3 is a shorter MP3
        with pytest.raises(RecordError, match=r"cut|damaged"):
            take_in(whole[: len(whole) // 2], "audio", store, POLICY)
    for length in (12, 30):
        with pytest.raises(RecordError):
            take_in(whole[:length], "audio", store, POLICY)
    with pytest.raises(RecordError, match=r"longer than media\.max_seconds"):
        take_in(whole, "audio", store, Media(max_seconds=0.1))


def test_tags_leave_a_sound_and_its_samples_stay(store):
    import soundfile

    mp3 = sound("MP3")
    name = b"TIT2\0\0\0\x0c\0\0\0Kevin Walsh"
    tagged = b"ID3\x03\0\0\0\0\0" + bytes([len(name)]) + name + mp3 + b"TAG" + b"Kevin".ljust(125, b"\0")
    (medium,) = take_in(tagged, "audio", store, POLICY)
    assert store.read(medium) == mp3
    wav = sound()
    info = b"LIST" + (16).to_bytes(4, "little") + b"INFOIART\x04\0\0\0Kev\0"
    (medium,) = take_in(wav[:36] + info + wav[36:], "audio", store, POLICY)
    assert b"Kev" not in store.read(medium)
    assert np.array_equal(soundfile.read(io.BytesIO(store.read(medium)))[0], soundfile.read(io.BytesIO(wav))[0])
    flac = sound("FLAC")
    said = b"\0\0\0\0\x01\0\0\0\x0c\0\0\0ARTIST=Kevin"
    comment = b"\x04" + len(said).to_bytes(3, "big") + said
    (medium,) = take_in(flac[:4] + comment + flac[4:], "audio", store, POLICY)
    assert b"Kevin" not in store.read(medium)
    assert np.array_equal(soundfile.read(io.BytesIO(store.read(medium)))[0], soundfile.read(io.BytesIO(flac))[0])


def test_a_video_is_kept_without_its_place_and_gives_pictures(store, tmp_path):
    data = with_place(video(tmp_path / "v.mp4"))
    film, *frames = take_in(data, "video", store, Media(key_frames=3))
    kept = store.read(film)
    assert film.media_type == "video/mp4" and len(kept) == len(data) and b"+52.5200" not in kept
    bright = [np.asarray(opened(store, f.path).convert("L")).mean() for f in frames]
    assert [f.origin for f in frames] == ["video"] * 3
    assert bright == sorted(bright) and bright[0] < 60 and bright[2] > 190, "from the middle of each third"
    with pytest.raises(RecordError, match="cut or damaged"):
        take_in(data[:-30], "video", store, POLICY)
    with pytest.raises(RecordError, match="longer than"):
        take_in(data, "video", store, Media(max_seconds=1))
    holed = bytearray(data)
    start = data.index(b"mdat") + 4
    holed[start : start + 2000] = b"\xff" * 2000
    with pytest.raises(RecordError, match="video"):
        take_in(bytes(holed), "video", store, POLICY)


def test_without_opencv_a_video_names_the_extra(store, tmp_path, monkeypatch):
    import sys

    from ser_toolkit.errors import UsageError

    data = video(tmp_path / "v.mp4")
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(UsageError, match="OpenCV") as caught:
        take_in(data, "video", store, POLICY)
    assert "ser-toolkit[video]" in caught.value.hint


def test_what_is_no_medium_or_another_kind_is_refused_by_its_content(store):
    for data, kind, why in (
        (b"<html>not found</html>", "image", "no PNG, JPEG, WebP"),
        (b"GIF89a" + bytes(40), "image", "no PNG"),
        (sound(), "image", "named as image, but by its content it is audio/wav"),
        (picture(), "audio", "named as audio, but by its content it is image/png"),
        (b"", "image", "empty"),
        (picture() + bytes(2_000_000), "image", "more than media\\.max_file_mb"),
    ):
        with pytest.raises(RecordError, match=why) as caught:
            take_in(data, kind, store, Media(max_file_mb=1))
        assert caught.value.kind == "media"


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["PNG", "JPEG", "WEBP", "animated", "WAV", "FLAC", "MP3"]),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=6),
    st.floats(0.05, 1),
)
def test_whatever_is_done_to_a_file_it_is_taken_in_or_refused(store, format, changes, share):
    whole = {"animated": animated}.get(
        format, lambda: (photo if format in ("PNG", "JPEG", "WEBP") else sound)(*ARGS[format])
    )()
    data = bytearray(whole)
    for place, byte in changes:
        data[int(place * len(data))] = byte
    found = sniff(bytes(data[:16]))
    try:
        (medium,) = take_in(bytes(data[: int(share * len(data))]), found.kind if found else "image", store, POLICY)
    except RecordError as exc:
        assert exc.kind == "media" and exc.reason
    else:
        assert hashlib.sha256(store.read(medium)).hexdigest() == medium.sha256


ARGS = {f: (5, f) for f in ("PNG", "JPEG", "WEBP")} | {f: (f, 0.2) for f in ("WAV", "FLAC", "MP3")}


def test_a_path_cannot_leave_its_folder(tmp_path):
    root = tmp_path / "corpus"
    (root / "faces").mkdir(parents=True)
    (root / "faces" / "a.png").write_bytes(picture())
    (tmp_path / "secret.png").write_bytes(picture())
    (root / "out.png").symlink_to(tmp_path / "secret.png")
    (root / "up").symlink_to(tmp_path)
    (root / "in.png").symlink_to(root / "faces" / "a.png")
    (root / "loop").symlink_to(root / "loop")
    os.mkfifo(root / "pipe.png")
    assert read_inside(root, "faces/a.png", POLICY) == picture() == read_inside(root, "in.png", POLICY)
    assert read_inside(root, "faces/none.png", POLICY) is None
    assert read_inside(root, "faces/a.png/b.png", POLICY) is None
    for path in (
        *("../secret.png", str(tmp_path / "secret.png"), "faces/../../secret.png", "out.png", "up/secret.png"),
        *("..\\secret.png", "C:\\secret.png", "a\0.png", "pipe.png", "faces", "loop", "x" * 5000),
    ):
        with pytest.raises(RecordError) as caught:
            read_inside(root, path, POLICY)
        assert caught.value.kind == "media", path
    with pytest.raises(RecordError, match="max_file_mb"):
        read_inside(root, "faces/a.png", Media(max_file_mb=0.0001))


@given(st.text(max_size=40))
def test_no_path_reads_outside(tmp_path_factory, name):
    root = ROOT.setdefault("root", tmp_path_factory.mktemp("inside"))
    try:
        assert read_inside(root, name, POLICY) is None
    except RecordError as exc:
        assert exc.kind == "media"


ROOT: dict[str, Path] = {}


def test_a_file_of_the_store_that_is_gone_or_changed_is_told(store):
    (medium,) = take_in(picture(), "image", store, POLICY)
    file = store.root / (medium.path or "")
    file.write_bytes(picture(color="red"))
    with pytest.raises(DataError, match="damaged"):
        store.read(medium)
    assert store.remove([medium.path or "", "ab/none.png"]) == 1
    with pytest.raises(DataError, match="cannot be read"):
        store.read(medium)
