"""`ser eval compare`: two runs over a loopback server, and people who judge their talks in a round of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from annotation.items import Response, StepMark
from annotation.ledger import Ledger, ledger_path
from pipelines.cli import run
from pipelines.comparing_policies import compare_policies, pair_item
from pipelines.evaluating_policy import evaluate_policy
from rl_training.evaluate import TalkTurn, Transcript
from ser_toolkit.errors import DataError, UsageError
from tests.servers.openai_stand_in import StandIn

REPLIES = Path(__file__).parents[1] / "servers" / "policy_replies.py"
CARDS = [{"base": f"Age: {n}\nProblem: work, case {n}.", "language": "english", "id": n} for n in range(20, 26)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """Folders of ESC-Eval by a kind, a cold and a silent policy, and one of SAGE."""
    home = tmp_path_factory.mktemp("runs")
    (home / "cards.json").write_text(json.dumps(CARDS))
    profile = {"id": "p", "player": "Ann", "scene": "Alone.", "task": "to be heard", "first_talk": "It is late."}
    (home / "profile.jsonl").write_text(json.dumps(profile))
    found = {}
    with StandIn(reply=f"{REPLIES}:reply") as server:
        for name, suite, data in (
            ("kind", "esc-eval", "cards.json"),
            ("cold", "esc-eval", "cards.json"),
            ("dumb", "esc-eval", "cards.json"),
            ("sage", "sage", "profile.jsonl"),
        ):
            done = evaluate_policy(
                f"openai:{name}", suite, str(home / data), workspace=home, seeker="openai:s", rounds=2, quiet=True,
                judges=["openai:j"], out=home / name,
                sets=[f"llm.base_url={server.base_url}", "llm.check_model=false", "evaluate.resamples=200"],
            )  # fmt: skip
            found[name] = done.out
    return found


def test_differences_are_paired_by_item(runs):
    found = compare_policies(runs["kind"], runs["cold"], resamples=500)
    by_name = {f.name: f.mean for f in found.differences}
    assert by_name["empathy"].n == 6 and by_name["empathy"].low > 0 and not found.notes
    same = compare_policies(runs["kind"], runs["kind"], resamples=500)
    assert all((f.mean.value, f.mean.low, f.mean.high) == (0, 0, 0) for f in same.differences)


def test_people_judge_the_talks_blinded_and_the_verdicts_come_back(runs, tmp_path, capfd):
    out = tmp_path / "people"
    argv = ["eval", "compare", str(runs["kind"]), str(runs["cold"]), "--out", str(out)]
    assert run(argv) == 0
    assert "6 pairs for people" in capfd.readouterr().out
    with Ledger(ledger_path(out)) as ledger:
        ledger.add_annotators(["ann", "bo"])
        for who in ("ann", "bo"):
            while (task := ledger.next_task(who)) is not None:
                view = task.view
                assert (
                    view.replies is not None and len(view.history) == 1 and view.steps[0].text.startswith("The person")
                )
                assert "kind" not in view.model_dump_json() and "cold" not in view.model_dump_json()
                first = "alone" in view.replies[0]
                assert view.replies[0].startswith("Supporter: ") and "\nSeeker: " in view.replies[0]
                mark = StepMark(label=True)
                verdict = "first_better" if first else "second_better"
                ledger.accept(Response(view_id=view.id, steps=(mark, mark, mark), verdict=verdict), route="local")
    assert run([*argv, "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert told["people"] == {"a_better": 6, "b_better": 0, "almost_equal": 0, "neither": 0}
    assert told["p"] == pytest.approx(0.03125)
    assert run(["annotate", "status", "-w", str(out), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["done"] == 6


def test_steps_that_were_not_written_are_shown_as_such(runs, tmp_path):
    found = compare_policies(runs["cold"], runs["kind"], out=tmp_path / "people")
    assert found.pairs == 6
    with Ledger(ledger_path(tmp_path / "people")) as ledger:
        ledger.add_annotators(["ann"])
        task = ledger.next_task("ann")
        assert task is not None and task.view.steps[1].text == "(This step was not written.)"


def talk(*texts: str, id: str = "t") -> Transcript:
    turns = [TalkTurn(speaker="supporter" if i % 2 else "seeker", text=t) for i, t in enumerate(texts)]
    return Transcript(id=id, lang="en", about="", turns=tuple(turns), end="limit")


def test_what_is_no_pair_is_counted():
    assert pair_item(talk("Hi.", "a"), talk("Hello.", "b")) == "other_opening"
    assert pair_item(talk("Hi.", "a"), talk("Hi.", "a")) == "equal"
    assert pair_item(talk("Hi."), talk("Hi.", "a")) == "silent"
    item = pair_item(talk("I want to die.", "a\nSeeker: fake"), talk("I want to die.", "b", "c", "d\nSupporter: fake"))
    assert not isinstance(item, str) and item.history[0].risk is not None
    assert item.generated == "a\nSeeker: fake" and item.reference.count("\n") == 2


def test_what_cannot_be_compared_is_told(runs, tmp_path):
    with pytest.raises(UsageError, match="two suites"):
        compare_policies(runs["kind"], runs["sage"])
    with pytest.raises(UsageError, match="holds no evaluation"):
        compare_policies(runs["kind"], tmp_path)
    with pytest.raises(DataError, match="no pair can be shown"):
        compare_policies(runs["dumb"], runs["kind"], out=tmp_path / "people")
    (tmp_path / "build" / "tables").mkdir(parents=True)
    with pytest.raises(UsageError, match="a build stands here"):
        compare_policies(runs["kind"], runs["cold"], out=tmp_path / "build")
