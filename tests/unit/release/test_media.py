"""Pictures and sounds in a release: inside its Parquet, only where there are any, and gone for text models."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from ser_toolkit import load_release
from ser_toolkit.errors import DataError, UsageError
from ser_toolkit.hub import push_release
from ser_toolkit.media import MediaStore, take_in
from ser_toolkit.recipe import Media as Policy
from ser_toolkit.schema import Dialogue, Media
from tests.unit.media.making import photo, sound
from tests.unit.release.making import crowd, make, trace

ROOT = Path(__file__).parents[3]


def seen(dialogue: Dialogue, media: tuple[Media, ...], turn: int = 2) -> Dialogue:
    """The dialogue, with media at its last seeker's turn."""
    turns = list(dialogue.turns)
    turns[turn] = turns[turn].model_copy(update={"media": media})
    return dialogue.model_copy(update={"turns": tuple(turns)})


@pytest.fixture
def store(tmp_path) -> MediaStore:
    return MediaStore(tmp_path / "media")


def faces(store: MediaStore, n: int, **of: str) -> tuple[Media, ...]:
    return take_in(photo(n), "image", store, Policy(), **of)


def test_pictures_and_sounds_load_with_datasets(tmp_path, store):
    dialogues = crowd(12)
    voice = take_in(sound("MP3"), "audio", store, Policy())
    gone = Media(kind="image", status="no media")
    shown = [seen(d, (*faces(store, n), *voice, gone)) if n % 2 else d for n, d in enumerate(dialogues)]
    made = make(tmp_path / "releases", shown, media=store.root)
    code = f"""
import datasets, io, soundfile
for config in ("traces", "prompts"):
    rows = [r for s in datasets.load_dataset({str(made.path)!r}, config).values() for r in s]
    found = [r["images"] for r in rows]
    assert sorted(len(f) for f in found) == [0] * 6 + [1] * 6, found
    assert all(i.size == (96, 96) and i.mode == "RGB" for f in found for i in f)
    assert all(isinstance(m["content"], str) for r in rows for m in r["prompt"])
rows = [r for s in datasets.load_dataset({str(made.path)!r}, "dialogues").values() for r in s]
heard = [r["audio"] for r in rows if r["audio"]]
assert len(heard) == 6 and "images" not in rows[0]
assert soundfile.read(io.BytesIO(heard[0][0]["bytes"]))[1] == 16000
named = [m["sha256"] for r in rows for t in r["turns"] for m in t["media"] if m["kind"] == "audio"]
assert any(heard[0][0]["path"].startswith(sha) for sha in named)
"""
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    release = load_release(made.path)
    for config, column in (("traces", "images"), ("prompts", "images"), ("dialogues", "audio")):
        assert column in release.frame(config).columns
        assert column not in release.frame(config, text_only=True).columns
    assert release.manifest["media"] == [
        {"kind": "audio", "origin": "corpus", "licence": "CC-BY-4.0", "count": 6},
        {"kind": "image", "origin": "corpus", "licence": "CC-BY-4.0", "count": 6},
    ]


def test_without_media_there_is_no_such_column_and_the_hash_hangs_on_the_pictures(tmp_path, store):
    plain = make(tmp_path / "a", crowd(8), media=store.root)
    assert "images" not in load_release(plain.path).frame().columns
    one, same, other = (
        make(tmp_path / name, [seen(d, faces(store, n)) for d in crowd(8)], media=store.root)
        for name, n in (("b", 1), ("c", 1), ("d", 2))
    )
    assert one.content_hash == same.content_hash != other.content_hash != plain.content_hash
    (first := faces(store, 1)[0])
    store.remove([first.path or ""])
    with pytest.raises(DataError, match="cannot be read"):
        make(tmp_path / "e", [seen(d, (first,)) for d in crowd(8)], media=store.root)


def test_a_text_model_gets_a_dataset_without_pictures(tmp_path, store, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    made = make(tmp_path / "r", [seen(d, faces(store, 1)) for d in crowd(8)], media=store.root)
    release = load_release(made.path)
    assert "images" in release.dataset("traces")["train"].column_names
    assert "images" not in release.dataset("traces", text_only=True)["train"].column_names


def test_withdrawn_dialogues_take_their_pictures_along(tmp_path, store):
    dialogues = [seen(d, faces(store, n)) for n, d in enumerate(crowd(10))]
    made = make(tmp_path / "r", dialogues, media=store.root, withdrawn=frozenset({"d003"}))
    left = {i["path"] for f in load_release(made.path).frame()["images"].to_list() for i in f}
    assert len(left) == 9 and Path(dialogues[3].turns[2].media[0].path or "").name not in left


def test_row_groups_are_bounded_by_bytes_of_media(tmp_path, store, monkeypatch):
    from ser_toolkit.releases import write

    monkeypatch.setattr(write, "ROW_GROUP_BYTES", 60_000)
    dialogues = [seen(d, faces(store, n)) for n, d in enumerate(crowd(30))]
    made = make(tmp_path / "r", dialogues, media=store.root, ratios=(1.0, 0.0, 0.0))
    file = pq.ParquetFile(made.path / "traces" / "train.parquet")
    assert file.metadata.num_row_groups > 3
    assert pl.read_parquet(made.path / "traces" / "train.parquet")["id"].to_list() == sorted(
        trace(d).id for d in dialogues
    )


def test_photos_of_an_unknown_licence_are_not_pushed_for_all_to_see(tmp_path, store):
    closed = [seen(d, faces(store, n, origin="photos", licence="unknown")) for n, d in enumerate(crowd(8))]
    made = make(tmp_path / "r", closed, media=store.root)
    card = (made.path / "README.md").read_text()
    assert "personal data" in card and "photos" in card and "unknown" in card
    with pytest.raises(UsageError, match="image from photos: unknown"):
        push_release(made.path, "me/release", public=True, dry_run=True)
    open_ones = [seen(d, faces(store, n, origin="photos", licence="CC0-1.0")) for n, d in enumerate(crowd(8))]
    made = make(tmp_path / "s", open_ones, media=store.root)
    assert push_release(made.path, "me/release", public=True, dry_run=True).status == "planned"


@pytest.mark.slow
def test_memory_does_not_grow_with_the_pictures(tmp_path):
    """400 pictures more, 80 MB in two configs, cost no more than a row group."""
    script = """
import resource, sys
from pathlib import Path
from ser_toolkit.media import MediaStore, take_in
from ser_toolkit.recipe import Media
from tests.unit.media.making import photo
from tests.unit.release.making import crowd, make
from tests.unit.release.test_media import seen
home, count = Path(sys.argv[1]), int(sys.argv[2])
store = MediaStore(home / "media")
faces = [take_in(photo(n, "PNG", (256, 256)), "image", store, Media()) for n in range(count)]
make(home / "r", [seen(d, f) for d, f in zip(crowd(count), faces)], media=store.root, ratios=(1.0, 0.0, 0.0))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""

    def peak_mb(count: int) -> int:
        run = [sys.executable, "-c", script, str(tmp_path / str(count)), str(count)]
        return int(subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout)

    peaks = [peak_mb(count) for count in (200, 600)]
    assert peaks[1] - peaks[0] < 40, f"{peaks} MB"
