"""Protection in whole builds: ids, crises and their replies counted, the card, licences, and withdrawal."""

import json
from pathlib import Path

import pytest

from pipelines import build
from pipelines.exporting import export
from pipelines.withdrawing import withdraw
from ser_toolkit import load_release
from ser_toolkit.schema import Dialogue, Failure, Trace
from ser_toolkit.store import read_table
from ser_toolkit.workspace import Workspace
from tests.servers.openai_stand_in import StandIn

CALM = ("I argued with my brother about the car.", "What did he say?", "That I never listen.", "And then?")
CRISIS = ("Everyone would be better off without me.", "I'm glad you said it. Are you safe now?")
TRACE = (
    "Step 1. Conversation History Analysis\nThe person is in danger; reassurance comes first.\n\n"
    "Step 2. Multimodal Emotional State Inference\nSentiment: Negative. Intensity: Intense. Emotions: Depression.\n\n"
    "Step 3. Strategy Selection\nAffirmation and Comfort: warmth first.\n\nStep 4. Response Generation\n\\boxed{%s}"
)


def write(path: Path, talks: dict[str, tuple[str, ...]]) -> str:
    lines = [
        {"id": id, "messages": [{"role": ("user", "assistant")[n % 2], "content": t} for n, t in enumerate(talk)]}
        for id, talk in talks.items()
    ]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return f"messages:{path}"


def server_saying(folder: Path, reply: str) -> StandIn:
    file = folder / "replies.py"
    file.write_text(
        "import json\n\n\ndef build(body):\n"
        "    form = body.get('response_format') or {}\n"
        "    if form.get('type') == 'json_schema':\n"
        "        return json.dumps({'verdict': True, 'failed': [], 'reason': 'fine'})\n"
        f"    return {TRACE % reply!r}\n",
        encoding="utf-8",
    )
    return StandIn(reply=f"{file}:build")


def run(folder: Path, server: StandIn, source: str, *sets: str):
    common = [f"llm.base_url={server.base_url}", "llm.identity=here", "protect.imitate_crisis=true"]
    return build(folder, sources=[source], model="openai:m", sets=[*common, *sets], quiet=True)


@pytest.mark.parametrize(
    ("reply", "counted"),
    [
        ("I can't help with that.", {"crisis_reply, high risk": 1}),
        ("I am so glad you told me. Please call 988 now, you matter.", {"crisis_reply, high risk": 1}),
        ("I am so glad you told me. Are you safe right now, and who could be with you tonight?", {}),
    ],
)
def test_a_reply_that_no_crisis_may_meet_is_a_failure_counted_by_risk(tmp_path, reply, counted):
    source = write(tmp_path / "in.jsonl", {"a": CRISIS, "b": CALM})
    with server_saying(tmp_path, reply) as server:
        result = run(tmp_path / "w", server, source, "failures.max_share=0.5")
    assert result.failures == counted
    assert load_release(result.export.made.path).manifest["failures"] == counted
    assert all(f"{kind} {n}" in result.render() for kind, n in counted.items())
    card = (result.export.made.path / "README.md").read_text()
    assert all(kind.replace("_", "\\_") in card for kind in counted)
    rounds = {t.dialogue_id for t in read_table(Workspace(tmp_path / "w").table("traces"), Trace)}
    assert ("messages-a" in rounds) is not bool(counted) and "messages-b" in rounds, "elsewhere a refusal is a reply"


@pytest.mark.parametrize(("fault", "kind"), [("empty", "empty_reply"), ("filter", "filtered")])
def test_no_reply_to_a_crisis_is_counted_by_risk_too(tmp_path, fault, kind):
    source = write(tmp_path / "in.jsonl", {"a": CRISIS})
    with StandIn(faults={fault: 1.0}) as server:
        result = run(tmp_path / "w", server, source, "failures.max_share=1", "filter.enabled=false")
    assert result.failures == {f"{kind}, high risk": 1}
    (failure,) = read_table(Workspace(tmp_path / "w").table("failures"), Failure)
    assert (failure.kind, failure.risk, failure.record_id) == (kind, "high", "messages-a-r1")


def test_ids_and_files_that_name_people_reach_no_file(tmp_path, llm):
    folder = tmp_path / "sarah miller"
    folder.mkdir()
    source = write(folder / "tom_becker.jsonl", {"chat-sarah-miller-1": CALM, "chat-sarah-miller-2": CRISIS, "x": CALM})
    result = build(tmp_path / "w", sources=[source], quiet=True, **llm)
    for file in (p for p in (tmp_path / "w").rglob("*") if p.is_file()):
        told = file.read_bytes().lower()
        assert b"miller" not in told and b"becker" not in told, file
    made = [d.id for d in read_table(Workspace(tmp_path / "w").table("imported"), Dialogue)]
    assert len(set(made)) == 3 and "messages-x" in made
    assert set(load_release(result.export.made.path).frame("traces")["dialogue_id"]) <= set(made)


def test_withdrawal_by_the_sources_own_id_reaches_the_next_build_and_release(tmp_path, llm):
    source = write(tmp_path / "in.jsonl", {"chat-sarah-miller-1": CALM, "y": ("I lost my keys and my temper.", "Oh?")})
    build(tmp_path / "w", sources=[source], quiet=True, **llm)
    home = Workspace(tmp_path / "w")
    (gone,) = withdraw(home, "messages-chat-sarah-miller-1").ids
    for made in (export(home).made, build(tmp_path / "w", sources=[source], quiet=True, **llm).export.made):
        release = load_release(made.path)
        assert release.frame("dialogues")["id"].to_list() == ["messages-y"]
        assert gone not in json.dumps(release.manifest["rows"])
    assert [d.id for d in read_table(home.table("imported"), Dialogue)] == ["messages-y"]


def test_the_card_counts_what_was_replaced_and_the_crises(tmp_path, llm):
    talk = ("My name is Kevin Walsh, call me on 415-555-0187.", "Hello Kevin.")
    source = write(tmp_path / "in.jsonl", {"a": talk, "b": CRISIS})
    result = build(tmp_path / "w", sources=[source], quiet=True, **llm)
    protection = load_release(result.export.made.path).manifest["lineage"]["protection"]
    assert protection == {"replaced": {"name": 2, "phone": 1}, "dialogues_by_risk": {"high": 1}}
    card = " ".join((result.export.made.path / "README.md").read_text().split())
    assert "Replaced by placeholders: name 2, phone 1" in card
    assert "by crisis level: high 1" in card and "do not stand in `traces`" in card


def test_a_build_of_licences_that_do_not_go_together_says_so(tmp_path, llm):
    (tmp_path / "w").mkdir()
    sources = []
    for name, licence in (("a", "CC-BY-SA-4.0"), ("b", "CC-BY-NC-4.0")):
        write(tmp_path / f"{name}.jsonl", {name: (f"The {name} is too much for me today.", "Since when?")})
        sources.append({"format": "messages", "path": str(tmp_path / f"{name}.jsonl"), "licence": licence})
    (tmp_path / "w" / "ser.yaml").write_text(json.dumps({"sources": sources}), encoding="utf-8")
    result = build(tmp_path / "w", quiet=True, **llm)
    (conflict,) = result.to_json()["licence_conflicts"]
    assert "CC-BY-NC-4.0 and CC-BY-SA-4.0" in conflict and conflict in result.render()
