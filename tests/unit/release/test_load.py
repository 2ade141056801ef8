"""Reading a release back: Polars, pandas, and `datasets` without any code of ours."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ser_toolkit.errors import DataError, UsageError
from ser_toolkit.releases.load import load_release
from ser_toolkit.schema import Media
from tests.unit.release.making import crowd, make
from tests.unit.release.test_write import PNG

LOADER = """
import json, sys
import datasets
path, configs = sys.argv[1], sys.argv[2:]
out = {"": {s: d.num_rows for s, d in datasets.load_dataset(path).items()}}
features = {}
for config in configs:
    loaded = datasets.load_dataset(path, config)
    out[config] = {s: d.num_rows for s, d in loaded.items()}
    features[config] = {n: repr(f) for n, f in next(iter(loaded.values())).features.items()}
print(json.dumps({"rows": out, "features": features, "names": datasets.get_dataset_config_names(path)}))
"""


def load_outside(path: str, configs: list[str], cache: Path, **environment: str) -> dict[str, Any]:
    """What `datasets` makes of `path`, in a process that has none of our code."""
    env = {**os.environ, "HF_HOME": str(cache), "HF_DATASETS_OFFLINE": "1", "HF_HUB_OFFLINE": "1", **environment}
    run = subprocess.run(
        [sys.executable, "-c", LOADER, path, *configs], cwd=cache.parent, env=env, capture_output=True, text=True
    )
    if run.returncode:
        pytest.fail(run.stderr[-3000:])
    return json.loads(run.stdout.splitlines()[-1])


def test_every_config_of_the_card_loads_with_datasets(tmp_path: Path):
    made = make(tmp_path / "releases", crowd(60))
    seen = load_outside(str(made.path), list(made.rows), tmp_path / "hf")
    assert seen["rows"] == {**made.rows, "": made.rows["traces"]}
    assert sorted(seen["names"]) == sorted(made.rows)


def test_another_release_of_the_same_name_is_not_answered_from_the_cache_of_the_first(tmp_path: Path):
    """`datasets` keys its cache by the folder's name and the card's configs, never by path or content."""
    one, two = (make(tmp_path / name, crowd(n)) for name, n in (("a", 60), ("b", 61)))
    assert one.path.name == two.path.name
    for made in (one, two):
        assert load_outside(str(made.path), ["traces"], tmp_path / "hf")["rows"]["traces"] == made.rows["traces"]


def test_one_split_and_photos_load_with_datasets(tmp_path: Path):
    (tmp_path / "media").mkdir()
    (tmp_path / "media" / "ab.png").write_bytes(PNG)
    photo = Media(
        kind="image", path="ab.png", sha256=hashlib.sha256(PNG).hexdigest(), media_type="image/png", status="ok"
    )
    [d] = crowd(1)
    d = d.model_copy(update={"turns": (*d.turns[:2], d.turns[2].model_copy(update={"media": (photo,)}), d.turns[3])})
    made = make(tmp_path / "releases", [d], media=tmp_path / "media", ratios=(0.0, 0.0, 1.0))
    seen = load_outside(str(made.path), list(made.rows), tmp_path / "hf")
    assert seen["rows"]["traces"] == {"test": 1}
    assert seen["features"]["traces"]["images"] == "List(Image(mode=None, decode=True))"
    assert "images" not in seen["features"]["dialogues"]


def test_frames_and_pandas(tmp_path: Path):
    made = make(tmp_path, crowd(60))
    release = load_release(made.path)
    whole = release.frame("dialogues")
    assert whole.height == 60
    assert dict(whole["split"].value_counts().rows()) == made.rows["dialogues"]
    assert "split" not in release.frame("dialogues", "train").columns
    frame = release.to_pandas("traces", "test")
    assert len(frame) == made.rows["traces"]["test"]
    assert [c[0]["role"] for c in frame["completion"]] == ["assistant"] * len(frame)
    with pytest.raises(UsageError, match="people's labels"):
        release.frame("steps")
    with pytest.raises(UsageError, match="no such config"):
        release.frame("nonsense")


@pytest.mark.parametrize("damage", ["changed", "cut", "gone"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str):
    made = make(tmp_path, crowd(10))
    file = made.path / "prompts" / "train.parquet"
    data = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(data[:-9] if damage == "cut" else data[:50] + bytes([data[50] ^ 1]) + data[51:])
    with pytest.raises(DataError, match=r"prompts/train\.parquet"):
        load_release(made.path)
    assert load_release(made.path, verify=False).manifest["version"] == "0.1.0"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"name": "ser"}', '{"schema_version": "9"}', "\x00"])
def test_a_damaged_manifest_is_named(tmp_path: Path, text: str):
    made = make(tmp_path, crowd(2))
    (made.path / "manifest.json").write_text(text)
    with pytest.raises(DataError, match=r"manifest\.json"):
        load_release(made.path)
    # The version is taken all the same: it is never written over.
    assert make(tmp_path, crowd(3)).version == "0.1.1"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rows": None}, "rows"),
        ({"rows": {"../traces": {"train": 1}}}, "rows"),
        ({"rows": {"traces": {"train": "many"}}}, r"rows\.traces\.train"),
        ({"files": {"../../secret.parquet": {"sha256": "0", "rows": 1}}}, "files"),
        ({"languages": {"../../etc/hosts": 1}}, "languages"),
        ({"sources": [{"format": "esconv"}]}, r"sources\.0\.licence"),
        ({"lineage": {"rewriting": {"clusters": [{}]}}}, r"lineage\.rewriting\.clusters\.0\.role"),
        ({"left_out": "x"}, "left_out"),
    ],
)
def test_a_manifest_of_another_shape_is_named_by_place(tmp_path: Path, change: dict, says: str):
    made = make(tmp_path, crowd(2))
    file = made.path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(DataError, match=rf"manifest\.json: {says}"):
        load_release(made.path)


def test_what_is_no_release_is_said_so(tmp_path: Path):
    with pytest.raises(DataError, match="not a release"):
        load_release(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        load_release(tmp_path / "a" / "b" / "c")
