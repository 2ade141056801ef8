"""`ser eval reward`: rewards over a release's traces or one's own groups; missing is counted, nothing is paid twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.evaluating_reward import evaluate_reward
from ser_toolkit import load_release
from ser_toolkit.errors import DataError, TooManyFailures, UsageError
from tests.servers.openai_stand_in import StandIn
from tests.unit.release.making import crowd, make


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    return make(tmp_path_factory.mktemp("rel"), crowd(12)).path


def test_every_trace_is_judged_four_times_and_a_second_run_asks_nothing(release, tmp_path):
    with StandIn() as server:
        sets = [f"llm.base_url={server.base_url}"]
        found = evaluate_reward(release, "perm", model="openai:judge", out=tmp_path / "out", sets=sets, quiet=True)
        assert server.stats()["calls"] == 48 == found.card["calls"]
        again = evaluate_reward(release, "perm", model="openai:judge", out=tmp_path / "out", sets=sets, quiet=True)
        assert server.stats()["calls"] == 48 and again.scores == found.scores
        asked = json.dumps(server.bodies()[0])
    assert "A hard week." in asked
    for name, (low, high) in {
        "resonation": (1, 5),
        "reception": (1, 5),
        "bystander": (0, 100),
        "empathy": (0, 1),
    }.items():
        v = found.scores[name]
        assert low <= v.low <= v.value <= v.high <= high and v.n == 12
    assert sum(found.levels["expression"].values()) == 12
    rows = [json.loads(line) for line in (tmp_path / "out" / "scores.jsonl").read_text().splitlines()]
    assert len({r["id"] for r in rows}) == 12
    for row in rows:
        parts = row["components"]
        assert row["total"] == pytest.approx(parts["empathy"] + parts["bystander_term"])
    assert "12 completions" in found.render() and found.to_json()["scores"]["total"]["missing"] == 0


def test_missing_scores_are_counted_and_never_zero(release, tmp_path):
    with StandIn(faults={"empty": 0.3}) as server:
        sets = [f"llm.base_url={server.base_url}"]
        found = evaluate_reward(
            release, "perm", model="openai:judge", out=tmp_path / "out", sets=sets, quiet=True
        ).to_json()
    total = found["scores"]["total"]
    assert 0 < total["missing"] == 12 - total["n"] and total["value"] is not None
    rows = [json.loads(line) for line in (tmp_path / "out" / "scores.jsonl").read_text().splitlines()]
    missing = [r for r in rows if r["total"] is None]
    assert len(missing) == total["missing"] and all(r["notes"] for r in missing)


def test_a_judge_of_no_use_and_an_unknown_split(release, tmp_path):
    with StandIn(faults={"empty": 1.0}) as server:
        sets = [f"llm.base_url={server.base_url}"]
        with pytest.raises(TooManyFailures, match="nothing got a total"):
            evaluate_reward(release, "perm", model="openai:judge", out=tmp_path / "out", sets=sets, quiet=True, limit=3)
    with pytest.raises(UsageError, match="nowhere"):
        evaluate_reward(release, "perm", model="openai:judge", out=tmp_path / "out", split="nowhere", quiet=True)


def test_groups_of_ones_own_by_unifireward(release, tmp_path):
    prompts = load_release(release).frame("prompts")["id"].to_list()[:3]
    groups = [{"id": p, "completions": ["That is hard.", f"Who else knows, {p}?"]} for p in prompts]
    file = tmp_path / "groups.jsonl"
    file.write_text("".join(json.dumps(g) + "\n" for g in groups))
    with StandIn() as server:
        sets = [f"llm.base_url={server.base_url}"]
        more = {"model": "openai:judge", "sets": sets, "quiet": True, "completions": file}
        found = evaluate_reward(release, "unified", out=tmp_path / "out", options={"position": "both"}, **more)
        with pytest.raises(UsageError, match="loudness"):
            evaluate_reward(release, "unified", out=tmp_path / "no", options={"loudness": 2}, **more)
    assert found.data["completions"] == 6 and found.to_json()["scores"]["total"]["scale"] == "0 to 3"
    assert found.scores["step1"].value == 0 and found.levels["step1"] == {0.0: 6}, "no step was written"
    rows = [json.loads(line) for line in (tmp_path / "out" / "scores.jsonl").read_text().splitlines()]
    assert [(r["id"], r["place"]) for r in rows] == [(p, n) for p in prompts for n in (0, 1)]
    assert all(r["total"] == 0.5 * r["components"]["preference"] for r in rows)
    file.write_text('{"id": "nobody", "completions": ["x"]}\n')
    with pytest.raises(DataError, match=r"line 1.*nobody"):
        evaluate_reward(release, "unified", out=tmp_path / "no", **more)


@pytest.mark.train
def test_a_judge_in_process_needs_no_chat_model(release, tmp_path):
    from tests.judge_models import text_model, tokenizer

    text_model().save_pretrained(tmp_path / "judge")
    tokenizer().save_pretrained(tmp_path / "judge")
    reward = f"unified-local:{tmp_path / 'judge'}"
    found = evaluate_reward(release, reward, limit=3, out=tmp_path / "out", quiet=True)
    assert found.scores["total"].n == 3 and found.scores["format"].value == 1
    assert not (tmp_path / "out" / "journal.sqlite").exists()
