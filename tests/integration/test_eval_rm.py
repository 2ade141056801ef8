"""`ser eval rm` on a release that an LLM judge labelled: a served judge, a model in process, and both side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.evaluating_rm import evaluate_judge
from rm_training.evaluate import read_items
from ser_toolkit import load_release
from ser_toolkit.errors import DataError, TooManyFailures
from ser_toolkit.rewards.unified import ALLOWED
from tests.integration.judged_release import judged_release
from tests.servers.openai_stand_in import StandIn


@pytest.fixture(scope="module")
def releases(tmp_path_factory) -> tuple[Path, Path]:
    return judged_release(tmp_path_factory.mktemp("judged"))


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    with StandIn() as running:
        yield running


@pytest.fixture(scope="module")
def tiny_judge(tmp_path_factory) -> Path:
    """A model of two layers with random weights, as a folder."""
    from tests.judge_models import text_model, tokenizer

    folder = tmp_path_factory.mktemp("models") / "tiny"
    text_model().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def ask(releases, server: StandIn, out: Path, **more):
    server.reset()
    sets = [f"llm.base_url={server.base_url}", "llm.vision=false"]
    return evaluate_judge(releases[0], "openai:judge", split="all", out=out, sets=sets, quiet=True, **more)


def test_a_served_judge_is_measured_and_a_second_run_asks_nothing(releases, server, tmp_path):
    found = ask(releases, server, tmp_path / "out").to_json()
    items = read_items(load_release(releases[0]), "all")
    judge = found["judges"][0]
    assert found["data"]["items"] == len(items) > 30
    scores = {s["key"]: s for s in judge["scores"]}
    for key in ("step1.weighted_f1", "step2.recall_false", "reply.weighted_f1", "reply.accuracy"):
        s = scores[key]
        assert s["missing"] == 0 and s["low"] <= s["value"] <= s["high"]
        assert s["baselines"]["majority"] is not None
    assert set(scores["reply.accuracy"]["baselines"]) == {"majority", "longest", "shortest", "first"}
    assert scores["inconsistency"]["baselines"]["labels"] is not None and scores["position.first"]["p"] is not None
    assert scores["calibration.steps"]["value"] is not None and found["judges"][0]["reliability"]["steps"]
    card = judge["card"]
    assert card["calls"] == server.stats()["calls"] == 5 * len(items) and card["rubric"]["sha256"]
    assert ask(releases, server, tmp_path / "out").judges[0].card["calls"] == 0 == server.stats()["calls"]

    rows = [json.loads(line) for line in (tmp_path / "out" / "answers-a.jsonl").read_text().splitlines()]
    assert [r["id"] for r in rows] == [i.id for i in items]
    assert all(a in allowed for r in rows for a, allowed in zip(r["answers"], ALLOWED, strict=True))
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<script" not in page and "http" not in page.replace("http-equiv", "") and "Run card" in page
    assert json.loads((tmp_path / "out" / "evaluation.json").read_text())["judges"][0]["scores"] == judge["scores"]


def test_rounds_hang_on_the_judges_own_answers_and_the_replies_are_exchanged(releases, server, tmp_path):
    ask(releases, server, tmp_path / "out", limit=3)
    bodies = server.bodies()
    assert {len(b["messages"]) for b in bodies} == {2, 4, 6, 8}
    last = [b["messages"] for b in bodies if len(b["messages"]) == 8]
    assert len(last) == 6 and all("structured_outputs" in b for b in bodies)
    for item in read_items(load_release(releases[0]), "all", 3):
        pair = [m for m in last if m[1]["content"] == item.questions[0]]
        assert {m[-1]["content"] for m in pair} == {item.questions[3], item.exchanged}
        assert pair[0][:7] == pair[1][:7] and item.questions[3] != item.exchanged
        assert sorted(item.questions[3].split()) == sorted(item.exchanged.split())


def test_answers_that_cannot_be_used_are_missing_and_counted(releases, server, tmp_path):
    server.reset(script=["empty"] * 4)  # two items are under way, and each asks once more
    sets = [f"llm.base_url={server.base_url}", "llm.concurrency=1"]
    found = evaluate_judge(
        releases[0], "openai:judge", split="all", limit=6, out=tmp_path / "out", sets=sets, quiet=True
    )
    assert found.judges[0].card["missing"] == dict.fromkeys(("round 1", "round 2", "round 3", "round 4"), 2)
    server.reset(faults={"empty": 1.0})
    with pytest.raises(TooManyFailures, match="not one answer"):
        evaluate_judge(releases[0], "openai:judge", split="all", out=tmp_path / "no", sets=sets, limit=4, quiet=True)


def test_a_release_without_labels_is_refused(releases, server, tmp_path):
    with pytest.raises(DataError, match="no labels"):
        evaluate_judge(releases[1], "openai:judge", out=tmp_path / "out", quiet=True)
    with pytest.raises(DataError, match="no labelled item"):
        evaluate_judge(releases[0], "openai:judge", split="nowhere", out=tmp_path / "out", quiet=True)


@pytest.mark.train
def test_a_model_in_process_beside_a_served_judge(releases, server, tiny_judge, tmp_path):
    server.reset()
    found = evaluate_judge(
        releases[0], str(tiny_judge), against="openai:judge", split="all", limit=12, out=tmp_path / "out", quiet=True,
        sets=[f"llm.base_url={server.base_url}"],
    )  # fmt: skip
    told = found.to_json()
    assert [j["name"] for j in told["judges"]] == ["tiny", "judge"]
    ours = {s["key"]: s for s in told["judges"][0]["scores"]}
    assert all(s["missing"] == 0 for s in ours.values()) and ours["calibration.reply"]["n"] > 0
    theirs = {s["key"]: s for s in told["judges"][1]["scores"]}
    for key, difference in told["differences"].items():
        if difference["value"] is not None:
            assert difference["value"] == pytest.approx(ours[key]["value"] - theirs[key]["value"])
    assert "tiny - judge, paired" in found.render()
    chances = found.judges[0].said[0].chances
    assert all(sum(c.values()) == pytest.approx(1) for c in chances if c)


@pytest.mark.train
def test_a_run_tells_which_kind_of_judge_it_is(releases, tiny_judge, tmp_path):
    """A process judge says nothing of the reply, and a release of the labels trains it."""
    from rm_training.train import train_rm

    sets = ["max_steps=2", "lora=false", "verify=false", "per_device_train_batch_size=2"]
    train_rm(releases[0], str(tiny_judge), tmp_path / "run", kind="prm", sets=sets, quiet=True)
    found = evaluate_judge(
        releases[0], str(tmp_path / "run"), split="all", limit=6, out=tmp_path / "out", quiet=True
    ).to_json()
    judge = found["judges"][0]
    assert judge["card"]["missing"] == {"round 1": 0, "round 2": 0, "round 3": 0, "round 4": 6}
    scores = {s["key"]: s for s in judge["scores"]}
    assert scores["step3.weighted_f1"]["n"] > 0 and scores["reply.accuracy"]["value"] is None
    assert judge["name"] == "run" and judge["reliability"]["reply"] == []
