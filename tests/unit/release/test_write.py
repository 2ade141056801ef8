"""A release on disk: its layout, its hash, its immutability, and what it leaves out."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ser_toolkit.errors import DataError, UsageError
from ser_toolkit.reasoning import parse_trace
from ser_toolkit.releases.load import load_release
from ser_toolkit.releases.prompting import INSTRUCTIONS, OPENINGS
from ser_toolkit.schema import Cue, Media
from tests.unit.release.making import crowd, dialogue, make, six, trace

ROOT = Path(__file__).resolve().parents[3]


def files_of(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_layout_and_manifest_agree(tmp_path: Path):
    made = make(tmp_path, crowd(60))
    manifest = json.loads((made.path / "manifest.json").read_text())
    assert made.path.name == "ser-0.1.0" and made.is_new
    assert files_of(made.path) == {"README.md", "manifest.json", *manifest["files"]}
    assert set(manifest["rows"]) == {"traces", "dialogues", "prompts"}
    for file, entry in manifest["files"].items():
        config, split = file.removesuffix(".parquet").split("/")
        assert pq.read_metadata(made.path / file).num_rows == entry["rows"] == manifest["rows"][config][split]
    assert sum(manifest["rows"]["dialogues"].values()) == 60 == sum(manifest["rows"]["traces"].values())
    assert set(manifest["absent"]) == {"steps", "preferences", "judgements"}
    assert manifest["sources"] == [{"format": "esconv", "licence": "CC-BY-4.0", "dialogues": 60, "traces": 60}]
    assert (made.content_hash, made.rows) == (manifest["content_hash"], manifest["rows"])


def test_a_split_without_rows_has_no_file_and_a_reason(tmp_path: Path):
    made = make(tmp_path, crowd(3), ratios=(1.0, 0.0, 0.0), absent_reasons={"steps": "nobody has labelled yet"})
    manifest = load_release(made.path).manifest
    assert made.rows["traces"] == {"train": 3}
    assert manifest["absent"]["steps"] == "nobody has labelled yet"
    assert {"traces/validation", "traces/test"} <= set(manifest["absent"])
    assert not (made.path / "traces" / "test.parquet").exists()


def test_prompt_and_completion_are_what_a_chat_template_takes(tmp_path: Path):
    cue = Cue(channel="face", text="looks away", source="rule:x")
    d = dialogue("d", "I feel lost in this town.", "Since when?", "Since May.", "That is long.", cues=[cue])
    made = make(tmp_path, [d])
    row = load_release(made.path).frame("traces").to_dicts()[0]
    assert row["prompt"] == [
        {"role": "system", "content": INSTRUCTIONS["en"]},
        {"role": "user", "content": "I feel lost in this town. [face: looks away]"},
        {"role": "assistant", "content": "Since when?"},
        {"role": "user", "content": "Since May. [face: looks away]"},
    ]
    [message] = row["completion"]
    parsed = parse_trace(message["content"])
    assert message["role"] == "assistant" and parsed.complete and not parsed.problems
    assert parsed.reply == row["reply"] == "What part of it weighs most on you?"
    assert row["reference"] == "That is long." and row["licence"] == "CC-BY-4.0" and row["opening_added"] is False
    assert row["cues"] == [cue.model_dump()]
    prompt = load_release(made.path).frame("prompts").to_dicts()[0]
    assert prompt["prompt"] == row["prompt"] and prompt["scenario"] == "A hard week." and prompt["persona"] is None


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_dialogue_that_the_supporter_opens_gets_a_legal_opening_and_the_release_says_so(tmp_path: Path, lang: str):
    said = ("Hi, how was the move?", "I know nobody here.", "That is hard.", "Yes.", "Tell me more.")
    d = dialogue("d", *said, first="supporter", lang=lang)  # pyright: ignore[reportArgumentType]
    traces = [trace(d, 2), trace(d, 4, start=2)]
    made = make(tmp_path, [d], traces=traces)
    begun, cut = (load_release(made.path).frame("traces").sort("target")["prompt"]).to_list()
    assert [m["role"] for m in begun] == ["system", "user", "assistant", "user"]
    assert [m["role"] for m in cut] == ["system", "user", "assistant", "user"]
    assert (begun[1]["content"], cut[1]["content"]) == OPENINGS[lang]  # pyright: ignore[reportArgumentType]
    manifest = load_release(made.path).manifest
    assert manifest["totals"]["openings_added"] == 2 and manifest["totals"]["supporter_first"] == 1
    assert "In 2 traces the supporter speaks first" in (made.path / "README.md").read_text()


def test_neighbouring_turns_of_one_speaker_are_merged_in_the_prompt(tmp_path: Path):
    d = dialogue("d", "It is late.", "Yes.", "And I can't sleep.", "Since when?")
    turns = (d.turns[0], d.turns[2], d.turns[1], d.turns[1], d.turns[2], d.turns[3])
    d = d.model_copy(update={"turns": turns})
    made = make(tmp_path, [d])
    prompt = load_release(made.path).frame("traces")["prompt"].to_list()[0]
    assert [m["content"] for m in prompt[1:]] == ["It is late.\nAnd I can't sleep.", "Yes.\nYes.", "And I can't sleep."]


def test_equal_inputs_in_any_order_are_the_same_release(tmp_path: Path):
    one = make(tmp_path, crowd(30))
    two = make(tmp_path, crowd(30)[::-1], lineage={"models": ["another"]})
    assert (two.path, two.is_new, two.content_hash) == (one.path, False, one.content_hash)
    assert [p.name for p in tmp_path.iterdir()] == ["ser-0.1.0"]


def test_equal_inputs_give_equal_bytes(tmp_path: Path):
    one, two = make(tmp_path / "a", crowd(30)), make(tmp_path / "b", crowd(30)[::-1])
    assert load_release(one.path).manifest["files"] == load_release(two.path).manifest["files"]


def test_other_inputs_are_the_next_patch_number_and_an_older_equal_one_is_found(tmp_path: Path):
    first = make(tmp_path, crowd(5))
    assert make(tmp_path, crowd(6)).version == "0.1.1"
    assert make(tmp_path, crowd(7), version="0.4.9").version == "0.4.9"
    assert make(tmp_path, crowd(8)).version == "0.4.10"
    assert make(tmp_path, crowd(5)).path == first.path
    assert make(tmp_path, crowd(9), name="ser-x").version == "0.1.0"


def test_a_release_never_changes(tmp_path: Path):
    made = make(tmp_path, crowd(5), version="1.0.0")
    before = {p: p.read_bytes() for p in made.path.rglob("*.*")}
    with pytest.raises(UsageError, match=r"ser-1\.0\.0 exists"):
        make(tmp_path, crowd(6), version="1.0.0")
    assert make(tmp_path, crowd(5), version="1.0.0").is_new is False
    assert {p: p.read_bytes() for p in made.path.rglob("*.*")} == before
    assert [p.name for p in tmp_path.iterdir()] == ["ser-1.0.0"]


@pytest.mark.parametrize("version", ["1", "1.2", "v1.2.3", "01.2.3", "1.2.3-rc1", "../x", ""])
def test_a_version_has_three_numbers(tmp_path: Path, version: str):
    with pytest.raises(UsageError, match=r"X\.Y\.Z"):
        make(tmp_path, crowd(2), version=version)


def test_nothing_to_release_is_an_error(tmp_path: Path):
    with pytest.raises(DataError, match="no dialogue"):
        make(tmp_path, [])
    assert list(tmp_path.iterdir()) == []


def test_ids_that_come_twice_are_refused(tmp_path: Path):
    d = crowd(1)[0]
    with pytest.raises(DataError, match="d000: this id comes twice"):
        make(tmp_path, [d, d], traces=[])
    with pytest.raises(DataError, match="d000-t3: this id comes twice"):
        make(tmp_path, [d], traces=[trace(d), trace(d)])


def test_several_traces_of_one_round_make_one_prompt(tmp_path: Path):
    d = crowd(1)[0]
    made = make(tmp_path, [d], traces=[trace(d, 3, id="a"), trace(d, 3, id="b"), trace(d, 1, id="c")])
    release = load_release(made.path)
    assert release.frame("traces")["id"].to_list() == ["c", "a", "b"]
    assert release.frame("prompts")["target"].to_list() == [1, 3]


def test_copies_in_laxer_splits_are_left_out_and_listed_with_their_traces(tmp_path: Path):
    dialogues = [d.model_copy(update={"id": f"{d.id}.4", "root_id": f"{d.id}.4"}) for d in six()]
    made = make(tmp_path, dialogues, ratios=(0.4, 0.3, 0.3))
    frame = load_release(made.path).frame("dialogues")
    for group in ("o1", "o3"):
        assert frame.filter(frame["id"].str.starts_with(group))["split"].n_unique() == 1
    listed = {x["id"]: x for x in made.left_out}
    assert listed and listed.keys() | set(frame["id"]) == {d.id for d in dialogues}
    assert all(x["traces"] == 1 and x["like"] in set(frame["id"]) for x in listed.values())
    assert set(load_release(made.path).frame("traces")["dialogue_id"]) == set(frame["id"])
    groups = load_release(made.path).manifest["groups"]
    assert (groups["groups"], groups["dialogues"]) == (3, 6)


def test_withdrawal_reaches_all_that_was_made_from_a_dialogue(tmp_path: Path):
    a, b, c = crowd(3)
    rewrite = dialogue("a-r", "Other words for it, by another person.", "I see.", root_id=a.id, rewritten_from=a.id)
    again = dialogue("a-rr", "And worded once more, differently.", "Go on.", root_id="elsewhere", rewritten_from="a-r")
    kept = trace(c, 3, id="gone")
    made = make(
        tmp_path,
        [a, b, c, rewrite, again],
        traces=[*(trace(d) for d in (a, b, rewrite, again)), kept, trace(c, 1)],
        withdrawn=frozenset({a.id, "gone"}),
        ratios=(1.0, 0.0, 0.0),
    )
    release = load_release(made.path)
    assert set(release.frame("dialogues")["id"]) == {b.id, c.id}
    assert set(release.frame("traces")["id"]) == {trace(b).id, trace(c, 1).id}
    assert {(x["id"], x["reason"]) for x in made.left_out} == {(i, "withdrawn") for i in (a.id, "a-r", "a-rr", "gone")}


def test_a_trace_that_cannot_stand_is_left_out_with_its_reason(tmp_path: Path):
    d, other = crowd(2)
    heading = trace(d, 1, id="heading").model_copy(update={"reply": "Step 2. I say a heading"})
    made = make(
        tmp_path,
        [d],
        traces=[
            trace(d, 3, id="good"), heading, trace(other, id="orphan"),
            trace(d, 1, id="same").model_copy(update={"target": 2}),
            trace(d, 1, id="beyond").model_copy(update={"target": 99}),
        ],
    )  # fmt: skip
    assert load_release(made.path).frame("traces")["id"].to_list() == ["good"]
    reasons = {x["id"]: x["reason"] for x in made.left_out}
    assert "heading" in reasons["heading"] and "tables" in reasons["orphan"]
    assert "not a supporter" in reasons["same"] and "99" in reasons["beyond"]


def test_a_read_only_folder_is_a_clear_error(tmp_path: Path):
    file = tmp_path / "releases"
    file.write_text("a file stands here")
    with pytest.raises(DataError):
        make(file, crowd(2))


def test_a_killed_export_leaves_nothing_that_looks_like_a_release(tmp_path: Path):
    script = (
        "import sys, time; from pathlib import Path; from tests.unit.release.making import *\n"
        "def slowly(ds):\n"
        "    for d in ds:\n"
        "        yield d\n"
        "    print('ready', flush=True); time.sleep(60)\n"
        "make(Path(sys.argv[1]), crowd(5), traces=slowly([trace(d) for d in crowd(5)]))"
    )
    child = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if child.stdout is None or child.stdout.readline() != "ready\n":
        pytest.fail("the child did not come to its trace table")
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    left = [p.name for p in tmp_path.iterdir()]
    assert len(left) == 1 and left[0].startswith(".export-")
    made = make(tmp_path, crowd(5))
    assert [p.name for p in tmp_path.iterdir()] == ["ser-0.1.0"] and made.version == "0.1.0"


def test_photos_travel_inside_the_parquet_and_only_where_there_are_any(tmp_path: Path):
    media = tmp_path / "media"
    media.mkdir()
    (media / "ab.png").write_bytes(PNG)
    photo = Media(
        kind="image", path="ab.png", sha256=hashlib.sha256(PNG).hexdigest(), media_type="image/png", status="ok"
    )
    missing = Media(kind="image", path="no.png", status="no media")
    a, b = crowd(2)
    turns = (*a.turns[:2], a.turns[2].model_copy(update={"media": (photo, missing)}), a.turns[3])
    a = a.model_copy(update={"turns": turns})
    with_photo = make(tmp_path / "r", [a, b], media=media, ratios=(1.0, 0.0, 0.0))
    rows = {r["dialogue_id"]: r["images"] for r in load_release(with_photo.path).frame("traces").to_dicts()}
    assert rows == {a.id: [{"bytes": PNG, "path": "ab.png"}], b.id: []}
    text_only = make(tmp_path / "r", [b], media=media)
    for config in ("traces", "prompts", "dialogues"):
        assert "images" not in load_release(text_only.path).frame(config).columns


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(tmp_path: Path):
    """4,000 dialogues more, whose rows are 120 MB in the three configs, cost their bookkeeping (1 kB each)."""
    script = (
        "import sys, resource; from pathlib import Path; from tests.unit.release.making import *\n"
        "n = int(sys.argv[2])\n"
        "make(Path(sys.argv[1]), essays(n), traces=map(trace, essays(n)))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )

    def peak_kb(count: int) -> int:
        run = [sys.executable, "-c", script, str(tmp_path / str(count)), str(count)]
        return int(subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout)

    assert peak_kb(6000) - peak_kb(2000) < 25_000


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
