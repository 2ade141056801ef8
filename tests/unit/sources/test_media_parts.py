"""Columns and cells that hold a picture, a sound or a video, in the general formats."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.sources import generic
from pipelines.sources.base import ReadContext
from pipelines.sources.media_parts import may_be_media, media_of
from ser_toolkit.errors import RecordError
from ser_toolkit.recipe import SourceSpec
from ser_toolkit.schema import Dialogue, Media
from tests.unit.media.making import photo

SAID = [("seeker", "My flat feels empty."), ("supporter", "Since when?"), ("seeker", "Since May.")]


def read(format, path: Path, **columns: str) -> list[Dialogue]:
    spec = SourceSpec(format=format.name, path=str(path), columns=columns)
    found = list(format.read(path, ReadContext(spec)))
    assert all(isinstance(f, Dialogue) for f in found), found
    return found  # pyright: ignore[reportReturnType]


def test_a_turn_names_its_files(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"id": "a", "turns": [{"speaker": "seeker", "text": "Hm.", "image": ["f/1.png", "f/2.jpg"],'
        ' "audio": "f/1.wav"}, {"speaker": "supporter", "text": "Yes?", "photo": "she smiles",'
        ' "video": {"path": "f/1.mp4"}}]}'
    )
    (found,) = read(generic.JSONL, tmp_path / "a.jsonl")
    assert found.turns[0].media == (
        Media(kind="image", path="f/1.png"),
        Media(kind="image", path="f/2.jpg"),
        Media(kind="audio", path="f/1.wav"),
    )
    assert found.turns[1].media == (Media(kind="video", path="f/1.mp4"),)
    assert found.meta["turn_fields"] == {"2": {"photo": "she smiles"}}, "words about a picture are no picture"


def test_a_row_names_its_files_by_the_recipes_column(tmp_path):
    lines = ["dialogue_id,speaker,text,clip,image"]
    lines += [f"d,{who},{text},{'c.wav' if n else ''},{n}.png" for n, (who, text) in enumerate(SAID)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    (found,) = read(generic.CSV, tmp_path / "a.csv", audio="clip")
    assert [[(m.kind, m.path) for m in t.media] for t in found.turns] == [
        [("image", "0.png")],
        [("image", "1.png"), ("audio", "c.wav")],
        [("image", "2.png"), ("audio", "c.wav")],
    ]


@pytest.mark.parametrize("by_row", [True, False])
def test_pictures_inside_a_parquet_file_are_read(tmp_path, by_row):
    data = photo(1)
    rows = [
        {"speaker": w, "text": t, "image": {"bytes": data, "path": "x.jpg"} if not n else None}
        for n, (w, t) in enumerate(SAID)
    ]
    table = pa.Table.from_pylist([{"dialogue_id": "d", **r} for r in rows] if by_row else [{"turns": rows}])
    pq.write_table(table, tmp_path / "a.parquet")
    (found,) = read(generic.PARQUET, tmp_path / "a.parquet")
    (medium,) = found.turns[0].media
    assert medium.sha256 == hashlib.sha256(data).hexdigest()
    assert base64.b64decode((medium.url or "").partition(",")[2]) == data
    assert not found.turns[1].media and not found.turns[2].media


def test_what_names_no_medium_is_told():
    with pytest.raises(RecordError, match="'image' of turn 3 names no image"):
        media_of({"bytes": None}, "image", "'image' of turn 3")
    with pytest.raises(RecordError, match="data URL cannot be read"):
        media_of("data:image/png,zz", "image", "x")
    assert media_of(None, "image", "x") == media_of("", "image", "x") == ()
    assert media_of("file:///etc/passwd", "image", "x") == (Media(kind="image", path="/etc/passwd"),), (
        "intake refuses it"
    )
    assert (
        not may_be_media("smiles.", "image") and not may_be_media("a.wav", "image") and may_be_media("a.PNG", "image")
    )
