"""From dialogues to labelled release: judged by an LLM over a loopback server, by people, moved, adjudicated."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import datasets
import pytest

from annotation.ledger import Ledger
from annotation.rounds import RoundState
from pipelines import build
from pipelines.annotating import judge, open_round
from pipelines.exporting import export
from pipelines.withdrawing import withdraw
from ser_toolkit import load_release
from ser_toolkit.errors import RemoteError, TooManyFailures
from ser_toolkit.recipe import load_recipe
from ser_toolkit.releases.labels import drawn_position
from ser_toolkit.schema import Trace
from ser_toolkit.store import read_table
from ser_toolkit.workspace import Workspace
from tests.integration.conftest import write_dialogues
from tests.servers.openai_stand_in import StandIn
from tests.unit.annotation.answering import at_random, says

REPLIES = Path(__file__).parents[1] / "servers" / "judge_replies.py"
ALL = ("steps", "preferences", "judgements")


@pytest.fixture
def server() -> Iterator[StandIn]:
    with StandIn(reply=f"{REPLIES}:reply") as running:
        yield running


@pytest.fixture
def llm(server: StandIn) -> dict:
    return {"model": "openai:stand-in", "sets": [f"llm.base_url={server.base_url}"]}


@pytest.fixture
def home(tmp_path: Path, llm: dict) -> Workspace:
    """A finished build of 24 dialogues, 48 traces."""
    write_dialogues(tmp_path / "in.jsonl", 24, rounds=2)
    return build_again(tmp_path, llm)


def build_again(folder: Path, llm: dict) -> Workspace:
    """Words drawn at random may sound like a crisis: these are none."""
    sets = [*llm["sets"], "protect.enabled=false"]
    build(folder / "w", sources=[f"messages:{folder / 'in.jsonl'}"], quiet=True, model=llm["model"], sets=sets)
    return Workspace(folder / "w")


def judged(home: Workspace, llm: dict, **more) -> dict:
    return judge(home.root, quiet=True, **{**llm, **more}).to_json()


def use(home: Workspace, sources: str) -> list[str]:
    return [f"annotate.sources={sources}"]


def test_a_release_judged_by_an_llm_loads(home, llm, server):
    first = judged(home, llm)
    assert first["items"] == 48 and first["failures"] == 0 and first["answers"] == first["calls"] > 96
    again = judged(home, llm)
    assert (again["answers"], again["calls"]) == (0, 0), "nothing is asked twice"

    exported = export(home)
    plain = exported.made
    assert not set(ALL) & set(plain.rows), "an LLM's votes are used only where the recipe says so"
    assert "source llm are not used" in exported.labels and exported.labels in exported.render()

    made = export(home, sets=use(home, "[llm]")).made
    assert set(ALL) <= set(made.rows) and made.path != plain.path
    assert export(home, sets=use(home, "[llm]")).made.path == made.path, "the same labels give the same release"
    with Ledger(home.root / "annotation.sqlite") as ledger:
        truth = wanted_labels(ledger.state)
    traces = {t.id: t for t in read_table(home.table("traces"), Trace)}
    steps, preferences, judgements = (loaded(made.path, name) for name in ALL)
    assert {r["id"] for r in steps} == {t for t, label in truth.items() if None not in label[:3]}
    for row in steps:
        assert tuple(row["labels"]) == truth[row["id"]][:3] and len(row["completions"]) == 3
        assert row["completions"] == [s.text for s in traces[row["id"]].steps] and "Seeker: " in row["prompt"]
        assert (row["label_source"], row["votes"] >= 2, row["licence"]) == ("llm", True, row["licence"])
    assert {r["id"] for r in preferences} == {t for t, x in truth.items() if x[3] in ("generated", "reference")}
    for row in preferences:
        trace = traces[row["id"]]
        pair = [row["chosen"][0]["content"], row["rejected"][0]["content"]]
        assert pair == [trace.reply, trace.reference][:: 1 if truth[row["id"]][3] == "generated" else -1]
        assert row["chosen_is_generated"] == (truth[row["id"]][3] == "generated")
        assert row["prompt"][-1]["role"] == "user" and row["prompt"][0]["role"] != "system"
    for row in judgements:
        check_judgement(row, truth[row["id"]], traces[row["id"]])
    assert {r["id"] for r in judgements} == {t for t, x in truth.items() if set(x) != {None}}
    assert {v for r in judgements if (v := r["verdict"])} >= {"first_better", "second_better", "neither"}

    card, manifest = (made.path / "README.md").read_text(), load_release(made.path).manifest
    told = manifest["annotation"]
    assert told["judges"] == ["stand-in#1", "stand-in#2", "stand-in#3"] and told["people"] == 0
    assert "| step1 | " in card and f"({told['agreement']['step1'][0]['low']:.2f} to" in card
    assert sum(told["labels"]["reply"].values()) + told["undecided"]["reply"] == 48


def loaded(release: Path, config: str) -> list[dict]:
    splits = datasets.load_dataset(str(release), config)
    return [row for split in splits.values() for row in split]


def wanted_labels(state: RoundState) -> dict[str, tuple]:
    """trace -> (step 1, 2, 3, better) by plain counting."""
    found = {}
    for item, info in state.items.items():
        answers = [a for a in state.answers[item].values() if a.steps and not a.is_surplus]
        rows = [[a.steps[n].label for a in answers] for n in range(3)] + [[a.better for a in answers]]
        tops = [Counter(r).most_common(1)[0] for r in rows]
        found[info.trace_id] = tuple(label if 2 * n > len(answers) else None for label, n in tops)
    return found


def check_judgement(row: dict, truth: tuple, trace: Trace) -> None:
    roles = [m["role"] for m in row["messages"]]
    assert roles == ["system", *["user", "assistant"] * 4]
    answers = [m["content"] for m in row["messages"] if m["role"] == "assistant"]
    assert row["loss_rounds"] == [x is not None for x in truth]
    assert answers[:3] == ["" if x is None else str(x) for x in truth[:3]]
    assert row["generated_position"] == drawn_position(trace.id)
    last = row["messages"][-2]["content"]
    assert (last.index(trace.reply) < last.index(trace.reference)) == (row["generated_position"] == 1)
    words = {"first_better": "First better", "second_better": "Second better", "neither": "Neither acceptable",
             "almost_equal": "Almost equally good", None: ""}  # fmt: skip
    assert answers[3] == words[row["verdict"]]
    if truth[3] in ("generated", "reference"):
        assert row["verdict"] == (
            "first_better" if (truth[3] == "generated") == (row["generated_position"] == 1) else "second_better"
        )
    else:
        assert row["verdict"] == truth[3]
    for number, step in enumerate(trace.steps):
        assert step.text in row["messages"][1 + 2 * number]["content"]


def test_what_the_judge_is_sent_is_blinded(home, llm, server):
    """Nothing that leaves for the model names a trace, a model, or which reply is the generated one."""
    server.reset()
    judged(home, llm)
    traces = list(read_table(home.table("traces"), Trace))
    first = Counter()
    for entry in server.received():
        text = json.dumps(entry["body"]["messages"], ensure_ascii=False)
        assert not any(word in text for word in ("messages-d", "stand-in", "generated", "corpus"))
        said = str(entry["body"]["messages"][-1]["content"])
        trace = next(t for t in traces if t.reply in said)
        first[said.index(trace.reply) < said.index(trace.reference)] += 1
    assert min(first[True], first[False]) > sum(first.values()) / 4


def test_a_judge_that_cannot_answer_leaves_the_item_to_the_next_and_is_counted(home, llm, server):
    """Each bad reply comes twice (asked once more), then that vote is missing, never a default."""
    server.reset(script=["half", "half"] + ["empty"] * 2)
    result = judged(home, llm | {"sets": [*llm["sets"], "llm.concurrency=1", "failures.max_share=0.5"]})
    assert 1 <= result["failures"] <= 4 and set(result["failure_kinds"]) <= {"schema", "truncated", "empty_reply"}
    with Ledger(home.root / "annotation.sqlite") as ledger:
        answers = [a for t in ledger.state.answers.values() for a in t.values()]
        assert sum(a.skip == "failed" for a in answers) == result["failures"]
        assert all(len(ledger.state.votes(i, ("llm",))) >= 2 for i in ledger.state.items)
    again = judged(home, llm)
    assert (again["failures"], again["calls"]) == (0, 0)


def test_a_server_that_always_fails_ends_with_7_and_more_seats_ask_again(home, llm, server):
    server.reset(faults={"empty": 1.0})
    with pytest.raises(TooManyFailures, match="more than failures") as caught:
        judged(home, llm)
    assert "--seats" in caught.value.hint
    server.reset()
    assert judged(home, llm)["answers"] == 0
    assert judged(home, llm, seats=5)["answers"] == 96


def test_a_server_that_is_away_ends_with_4_and_loses_nothing(home, llm):
    away = ["llm.base_url=http://127.0.0.1:9/v1", "llm.max_retries=0"]
    with pytest.raises(RemoteError):
        judge(home.root, model="openai:stand-in", sets=away, quiet=True)
    assert judged(home, llm)["answers"] >= 96


def test_people_answer_and_the_owner_decides(home, llm):
    with open_round(home, load_recipe(home.root), ["ada", "ben", "cem"]) as ledger:
        draw = random.Random(7)
        for who in ("ada", "ben", "cem", "ada", "ben", "cem"):
            while (task := ledger.next_task(who)) is not None:
                ledger.accept(at_random(task, draw))
        assert all(len(ledger.state.votes(i, ("person",))) in (2, 3) for i in ledger.state.items)
    made = export(home).made
    assert set(ALL) <= set(made.rows)
    told = load_release(made.path).manifest["annotation"]
    assert (told["people"], told["judges"], told["done"]) == (3, [], 48)
    text = (made.path / "README.md").read_text() + (made.path / "manifest.json").read_text()
    assert '"ada"' not in text, "people are counted, never named"

    gone = next(iter(read_table(home.table("traces"), Trace)))
    result = withdraw(home, gone.dialogue_id)
    assert result.items == 2
    after = export(home).made
    for config in ALL:
        assert gone.dialogue_id not in set(load_release(after.path).frame(config)["dialogue_id"])


def test_labels_of_a_text_that_was_written_anew_are_stale(home, llm, server, tmp_path):
    with open_round(home, load_recipe(home.root), ["ada", "ben"]) as ledger:
        for who in ("ada", "ben"):
            while (task := ledger.next_task(who)) is not None:
                ledger.accept(says(task, ledger=ledger))
    assert sum(export(home).made.rows["steps"].values()) == 48
    own = home.prompts / "en" / "reason_whole.md"
    own.parent.mkdir(parents=True)
    own.write_text("---\nversion: 9\npurpose: ours\n---\n# user\n{{ history }}\nThink anew.\n", encoding="utf-8")
    build_again(tmp_path, llm)
    made = export(home).made
    assert "steps" not in made.rows
    with open_round(home, load_recipe(home.root)) as ledger:
        assert len(ledger.state.items) == 96, "what was written anew is to be judged anew"


def test_a_rewrite_has_its_sources_labels(home, llm):
    """Labels are joined on export by `rewritten_from`; the rewritten dialogue is no item of its own."""
    from ser_toolkit.schema import Dialogue
    from ser_toolkit.store import write_table

    with open_round(home, load_recipe(home.root), ["ada", "ben"]) as ledger:
        for who in ("ada", "ben"):
            while (task := ledger.next_task(who)) is not None:
                ledger.accept(says(task, "ttf", "reference", ledger=ledger))
    source = next(iter(read_table(home.table("dialogues"), Dialogue)))
    trace = next(t for t in read_table(home.table("traces"), Trace) if t.dialogue_id == source.id)
    turns = tuple(t.model_copy(update={"text": "Now, " + t.text}) for t in source.turns)
    rewritten = source.model_copy(update={"id": f"{source.id}-w", "rewritten_from": source.id, "turns": turns})
    moved = {"id": f"{trace.id}-w", "dialogue_id": rewritten.id, "rewritten_from": trace.id, "reference": "Now, so."}
    write_table(home.table("rewrites"), Dialogue, [rewritten])
    write_table(home.table("rewrite_traces"), Trace, [trace.model_copy(update=moved)])
    frame = load_release(export(home).made.path).frame("judgements")
    both = {r["id"]: r for r in frame.to_dicts() if r["id"] in (trace.id, f"{trace.id}-w")}
    assert both[f"{trace.id}-w"]["labels"] == both[trace.id]["labels"] == [True, True, False]
    assert both[f"{trace.id}-w"]["rewritten_from"] == trace.id
    assert "Now, so." in both[f"{trace.id}-w"]["messages"][-2]["content"]
    assert {r["split"] for r in both.values()} == {both[trace.id]["split"]}
    with open_round(home, load_recipe(home.root)) as ledger:
        assert len(ledger.state.items) == 48
