"""`ser eval perm`: PERM's judges over a release's traces; missing scores are counted, and nothing is paid twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.evaluating_perm import evaluate_perm
from ser_toolkit.errors import TooManyFailures, UsageError
from tests.servers.openai_stand_in import StandIn
from tests.unit.release.making import crowd, make


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    return make(tmp_path_factory.mktemp("rel"), crowd(12)).path


def test_every_trace_is_judged_four_times_and_a_second_run_asks_nothing(release, tmp_path):
    with StandIn() as server:
        sets = [f"llm.base_url={server.base_url}"]
        found = evaluate_perm(release, model="openai:judge", out=tmp_path / "out", sets=sets, quiet=True)
        assert server.stats()["calls"] == 48 == found.card["calls"]
        again = evaluate_perm(release, model="openai:judge", out=tmp_path / "out", sets=sets, quiet=True)
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
    assert "12 traces" in found.render() and found.to_json()["scores"]["total"]["missing"] == 0


def test_missing_scores_are_counted_and_never_zero(release, tmp_path):
    with StandIn(faults={"empty": 0.3}) as server:
        sets = [f"llm.base_url={server.base_url}"]
        found = evaluate_perm(release, model="openai:judge", out=tmp_path / "out", sets=sets, quiet=True).to_json()
    total = found["scores"]["total"]
    assert 0 < total["missing"] == 12 - total["n"] and total["value"] is not None
    rows = [json.loads(line) for line in (tmp_path / "out" / "scores.jsonl").read_text().splitlines()]
    missing = [r for r in rows if r["total"] is None]
    assert len(missing) == total["missing"] and all(r["notes"] for r in missing)


def test_a_judge_of_no_use_and_an_unknown_split(release, tmp_path):
    with StandIn(faults={"empty": 1.0}) as server:
        sets = [f"llm.base_url={server.base_url}"]
        with pytest.raises(TooManyFailures, match="no trace"):
            evaluate_perm(release, model="openai:judge", out=tmp_path / "out", sets=sets, quiet=True, limit=3)
    with pytest.raises(UsageError, match="nowhere"):
        evaluate_perm(release, model="openai:judge", out=tmp_path / "out", split="nowhere", quiet=True)
