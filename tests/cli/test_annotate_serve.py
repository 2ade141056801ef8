"""`ser annotate serve` from a build to a release; a command line that is built from the module that is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from pipelines.cli import ROOMS, make_app
from ser_toolkit import load_release
from tests.integration.conftest import REPLIES
from tests.served import answer, launch, stop, wait_for
from tests.servers.openai_stand_in import StandIn


def test_every_module_of_commands_registers_what_the_table_says():
    every = typer.main.get_command(make_app())
    assert set(every.commands) == {c for commands in ROOMS.values() for c in commands}  # type: ignore[attr-defined]
    for commands in ROOMS.values():
        for command in commands:
            alone = typer.main.get_command(make_app(command))
            assert set(alone.commands) == set(commands)  # type: ignore[attr-defined]


def test_a_mistyped_command_meets_all_of_them(ser):
    found = ser("annotat")
    assert found.returncode == 2 and "annotate" in found.stderr


def _build(ser, source: str, limit: int = 4):
    with StandIn(reply=f"{REPLIES}:build") as server:
        sets = ("--set", f"llm.base_url={server.base_url}", "--set", "filter.enforce=false")
        made = ser("build", "-w", "w", "--source", source, "--limit", limit, "--model", "openai:stand-in", *sets)
    assert made.returncode == 0, made.stderr


def test_three_people_label_real_dialogues_on_the_page_and_the_release_has_their_labels(ser, tmp_path, shared_data):
    """From ESConv's dialogues to steps, preferences and judgements, with a later build whose items join the round."""
    source = f"esconv:{next((shared_data / 'esconv').glob('*.json'))}"
    _build(ser, source)
    process, page = launch(tmp_path / "w", "--annotators", "ann,bo,cy")
    try:
        for who in ("ann", "bo", "cy"):
            while view := page.next(who)["view"]:
                steps = [{"label": who != "bo"}, {"label": True}, {"label": False, "critique": "too early"}]
                assert page.ask(who, "POST", "answers", answer(view, steps=steps)).status == 200
        overview = page.ask("owner", "GET", "overview").json
        assert overview["done"] == overview["items"] > 3
        status = json.loads(ser("annotate", "status", "-w", "w", "--json").stdout)
        assert (status["items"], status["done"]) == (overview["items"], overview["done"])
    finally:
        assert stop(process) == 0
    exported = json.loads(ser("export", "-w", "w", "--json").stdout)
    release = load_release(Path(tmp_path / exported["release"]))
    assert release.frame("steps")["labels"].to_list() == [[True, True, False]] * overview["items"]
    assert len(release.frame("judgements")) == overview["items"]

    _build(ser, source, limit=6)
    process, page = launch(tmp_path / "w")
    try:
        wait_for(lambda: page.ask("owner", "GET", "overview").json["items"] > overview["items"])
        assert page.next("ann")["view"] is not None
    finally:
        stop(process)
