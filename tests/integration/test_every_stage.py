"""One recipe with every stage on, over real corpora: with the embedded model, and with one that sees pictures."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import pytest
import yaml

from pipelines.stages.rewriting.records import Draw
from ser_toolkit import load_release
from ser_toolkit.releases.load import Release
from ser_toolkit.schema import Dialogue, Scenario, Trace, Verdict
from ser_toolkit.store import read_table
from ser_toolkit.workspace import Workspace
from tests.servers.openai_stand_in import StandIn
from tests.unit.media.making import photo

REPLIES = Path(__file__).parents[1] / "servers" / "every_replies.py"
EMOTIONS = ("Joy", "anger", "fear", "sad", "anxiety", "disgust", "depression", "shame", "Neutral")
PRIVATE = ("Sarah", "555-0142", "sarah.miller@example.org")
SCENARIOS = [
    {
        "id": "parcel", "lang": "en", "problem": "work", "emotion": "Anxiety", "intensity": "Moderate",
        "situation": "My name is Sarah Miller. My new boss counts my parcels; write me at sarah.miller@example.org.",
        "persona": "Drives a van.", "opening": "They time my breaks now.", "hidden_intention": "wants to be believed",
    },
    {
        "id": "piano", "lang": "en", "problem": "family", "emotion": "Sadness", "intensity": "Mild",
        "situation": "We sold my mother's piano.", "persona": "A retired baker.",
        "opening": "The corner where it stood is so bright.", "hidden_intention": "would like to hum a tune",
    },
]  # fmt: skip
TALK = (
    ("user", "Nobody came to see my little play on Friday."),
    ("assistant", "Not one? What was it about?"),
    ("user", "About my brother's bakery. Call me on 212-555-0142 if you want to see it."),
    ("assistant", "I would have loved the part with the ovens, I think. Who had promised to come?"),
)


@dataclass
class Made:
    """A build through the command line, and what it left."""

    home: Workspace
    told: dict[str, Any]

    @property
    def release(self) -> Release:
        return load_release(self.home.root / self.told["release"])

    def rows(self, name: str, record: Any) -> list[Any]:
        return list(read_table(self.home.table(name), record))


def ser(*args: object, cwd: Path) -> str:
    command = [sys.executable, "-m", "pipelines", *map(str, args)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.fixture
def workspace(tmp_path: Path, shared_data: Path) -> Path:
    """A workspace whose recipe turns everything on, beside photos, a hand-written talk with a picture, and seeds."""
    home = tmp_path / "w"
    for place, name in enumerate(EMOTIONS):
        (home / "photos" / name).mkdir(parents=True)
        for person in range(2):
            (home / "photos" / name / f"p{person}_x.jpg").write_bytes(photo(10 * place + person))
    (home / "own.png").write_bytes(photo(99, "PNG"))
    picture = {"type": "image_url", "image_url": {"url": "own.png"}}
    messages = [
        {"role": role, "content": [picture, {"type": "text", "text": text}] if role == "user" else text}
        for role, text in TALK
    ]
    (home / "talk.jsonl").write_text(json.dumps({"id": "own", "messages": messages}))
    (home / "seeds").mkdir()
    (home / "seeds" / "scenarios.json").write_text(json.dumps(SCENARIOS))
    recipe = {
        "name": "all",
        "sources": [
            {"format": "esconv", "path": str(shared_data / "esconv" / "FailedESConv.json"), "limit": 2},
            {"format": "escot", "path": str(shared_data / "escot" / "val.json"), "limit": 1},
            {"format": "mesc", "path": str(shared_data / "mesc" / "test.txt"), "limit": 1},
            {"format": "messages", "path": "talk.jsonl", "licence": "CC0-1.0"},
            {"format": "seeds", "path": "seeds"},
        ],
        "synthesize": {"count": 3, "max_rounds": 1, "mix": {"problem": {"work": 0.66, "family": 0.33}}},
        "sample": {"rounds": 1, "keep": "history"},
        "media": {"faces": "folder", "folder": "photos", "licence": "CC0-1.0"},
        "rewrite": {"enabled": True, "k_range": [1, 3]},
        "failures": {"max_share": 0.5},
    }
    (home / "ser.yaml").write_text(yaml.safe_dump(recipe))
    return home


def build(home: Path, model: str, *sets: str) -> Made:
    given = [part for key in sets for part in ("--set", key)]
    told = json.loads(ser("build", "-w", home, "--model", model, *given, "--json", cwd=home))
    return Made(Workspace(home), told)


def slim(home: Path) -> Path:
    """The same recipe over one talk of each corpus and one that is made: the embedded model takes its time."""
    recipe = yaml.safe_load((home / "ser.yaml").read_text())
    recipe["sources"] = [{**s, "limit": 1} for s in recipe["sources"] if s["format"] != "messages"]
    recipe["synthesize"] = {"count": 1, "max_rounds": 1}
    (home / "ser.yaml").write_text(yaml.safe_dump(recipe))
    return home


def check_release(made: Made, formats: set[str], shown: set[str]) -> None:
    """What holds whoever wrote it: all stages left their rows, families stand together, pictures are shown.

    There is a dialogue of each of `formats`, and of those of `shown` a trace with a picture.
    """
    release = made.release
    dialogues = {d["id"]: d for d in release.frame("dialogues").to_dicts()}
    traces = {t["id"]: t for t in release.frame("traces").to_dicts()}
    left_out = {item["id"] for item in release.manifest["left_out"]}
    for table, record in (("dialogues", Dialogue), ("rewrites", Dialogue)):
        ids = {d.id for d in made.rows(table, record)}
        assert ids <= dialogues.keys() | left_out, "whoever is not there is listed"
    assert {d["source_format"] for d in dialogues.values() if not d["rewritten_from"]} == formats
    looked_at = {d.id for name in ("imported", "synthesized") for d in made.rows(name, Dialogue)}
    assert {v.record_id for v in made.rows("verdicts", Verdict)} == looked_at, "the filter looked at each"
    rewrites = [d for d in dialogues.values() if d["rewritten_from"]]
    assert rewrites and all(d["split"] == dialogues[d["rewritten_from"]]["split"] for d in rewrites)
    for trace in traces.values():
        assert trace["split"] == dialogues[trace["dialogue_id"]]["split"]
        if trace["rewritten_from"]:
            source = traces[trace["rewritten_from"]]
            assert trace["images"] == source["images"] and trace["completion"] == source["completion"]
    for split, rows in datasets.load_dataset(str(release.path), "traces").items():
        for row in rows:
            assert [i.size for i in row["images"]] == [(96, 96)] * len(row["images"]), (split, row["id"])
    assert {dialogues[t["dialogue_id"]]["source_format"] for t in traces.values() if t["images"]} >= shown
    for file in (
        p for p in made.home.root.rglob("*") if p.is_file() and p.name not in ("talk.jsonl", "scenarios.json")
    ):
        data = file.read_bytes()
        assert not any(word.encode() in data for word in PRIVATE), file
    page = made.home.root / "page.html"
    ser("report", release.path, "--out", page, cwd=made.home.root)
    assert page.read_text().startswith("<!doctype html>") and "Quality of rewriting" in page.read_text()
    figures = json.loads(ser("eval", "dataset", release.path, "--json", cwd=made.home.root))["figures"]
    assert figures["leaks.groups"]["value"] == 0
    assert figures["rewriting.kept"]["value"] == len(made.rows("rewrites", Dialogue))
    assert figures["size.dialogues"]["value"] == len(dialogues)


@pytest.mark.slow
@pytest.mark.xdist_group("embedded")
def test_every_stage_with_the_embedded_model(workspace):
    slim(workspace)
    made = build(workspace, "embedded", "llm.context_tokens=512")
    assert made.told["calls"] > 50 and made.release.manifest["machinery_only"] is True
    check_release(made, {"esconv", "escot", "mesc", "seeds"}, shown={"esconv", "seeds"})
    assert {t.saw for t in made.rows("traces", Trace)} <= {"cues", "text"}, "it sees nothing, and the record says so"
    again = build(workspace, "embedded", "llm.context_tokens=512")
    assert again.told["calls"] == 0 and again.told["content_hash"] == made.told["content_hash"]


def test_every_stage_with_a_model_that_sees_pictures(workspace):
    with StandIn(reply=f"{REPLIES}:build") as server:
        sets = (f"llm.base_url={server.base_url}", "llm.identity=here")
        made = build(workspace, "openai:m", *sets)
        assert made.told["failures"] == 0
        formats = {"esconv", "escot", "mesc", "messages", "seeds", "invented"}
        check_release(made, formats, shown={"esconv", "messages", "seeds"})
        sent = [b for b in server.bodies() if any(isinstance(m["content"], list) for m in b["messages"])]
        pictures = server.pictures()
        again = build(workspace, "openai:m", *sets)
    assert again.told["calls"] == 0 and again.told["content_hash"] == made.told["content_hash"]
    dialogues = {d.id: d for d in made.rows("dialogues", Dialogue)}
    asked = {t.id: dialogues[t.dialogue_id].turns[t.target - 1] for t in made.rows("traces", Trace)}
    with_photo = {id: turn for id, turn in asked.items() if turn.media}
    saw = {t.id: t.saw for t in made.rows("traces", Trace)}
    assert {id for id, what in saw.items() if what == "image"} == with_photo.keys() and len(with_photo) >= 5
    assert len(sent) == len(with_photo), "a request with a picture for each turn that has one, and for no other"
    wire = Counter(
        (hashlib.sha256(seen[0]).hexdigest(), _words(body)) for body, seen in zip(sent, pictures, strict=True)
    )
    for turn in with_photo.values():
        (medium,) = turn.media
        match = next(key for key in wire if key[0] == medium.sha256 and turn.text in key[1])
        wire[match] -= 1
    assert not +wire, "each with its own turn's words"
    assert {m.origin for t in with_photo.values() for m in t.media} == {"photos", "corpus"}
    invented = made.rows("invented", Scenario)
    synthesized = made.rows("synthesized", Dialogue)
    assert len(invented) == 1 and len(synthesized) == 3
    released = {d["id"]: d for d in made.release.frame("dialogues").to_dicts()}
    assert {d.id for d in synthesized} <= released.keys()
    rewritten = {d["rewritten_from"] for d in released.values()} - {None}
    alone = {d.dialogue_id for d in made.rows("draws", Draw) if d.drawn is None}
    in_crisis = {d.id for d in dialogues.values() if d.risk}
    assert rewritten == dialogues.keys() - alone - in_crisis and rewritten & {d.id for d in synthesized}
    told = made.release.manifest["lineage"]
    assert {"synthesis", "faces", "rewriting"} <= told.keys() and told["protection"]["replaced"]["email"] >= 1


def _words(body: dict[str, Any]) -> str:
    """What a request says in words."""
    parts = [m["content"] if isinstance(m["content"], list) else [{"text": m["content"]}] for m in body["messages"]]
    return "\n".join(p["text"] for content in parts for p in content if "text" in p)
