import json
from pathlib import Path

import pytest

from pipelines import build
from ser_toolkit import load_release
from ser_toolkit.errors import DataError, TooManyFailures
from ser_toolkit.schema import Dialogue, Failure, Trace, Verdict
from ser_toolkit.store import read_table
from ser_toolkit.workspace import Workspace
from tests.integration.conftest import write_dialogues
from tests.servers.openai_stand_in import StandIn

ROOT = str(Path(__file__).parents[2])


def tables(root: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted((root / "tables").iterdir())}


def test_real_dialogues_become_a_release_that_loads(tmp_path, llm, model_server):
    source = write_dialogues(tmp_path / "in.jsonl", 12)
    result = build(tmp_path / "w", sources=[f"messages:{source}"], quiet=True, **llm)
    assert (result.calls, result.replayed, result.failures) == (12 + 36, 0, {})
    traces = load_release(result.export.made.path).frame("traces")
    assert len(traces) == 36
    row = traces.filter(traces["id"] == "messages-d3-r2").to_dicts()[0]
    assert row["prompt"][-1]["content"].endswith("day 3, part 1.")
    assert row["completion"][0]["content"].startswith("Step 1. Conversation History Analysis")
    assert (row["strategy"], row["sentiment"]) == ("Progressive Questioning", "Negative")


def test_the_same_command_again_makes_no_call_and_gives_the_same_release(tmp_path, llm):
    source = write_dialogues(tmp_path / "in.jsonl", 6)
    first = build(tmp_path / "w", sources=[f"messages:{source}"], quiet=True, **llm)
    before = tables(tmp_path / "w")
    again = build(tmp_path / "w", sources=[f"messages:{source}"], quiet=True, **llm)
    assert (again.calls, again.replayed) == (0, first.calls)
    assert again.export.made.content_hash == first.export.made.content_hash
    assert (again.export.made.path, again.export.made.is_new) == (first.export.made.path, False)
    assert tables(tmp_path / "w") == before


def test_order_and_concurrency_change_nothing(tmp_path, llm):
    source = write_dialogues(tmp_path / "in.jsonl", 9)
    made = []
    for name, concurrency in (("a", 1), ("b", 17)):
        sets = [*llm["sets"], f"llm.concurrency={concurrency}"]
        build(tmp_path / name, sources=[f"messages:{source}"], quiet=True, model=llm["model"], sets=sets)
        made.append({k: v for k, v in tables(tmp_path / name).items() if k != "build.json"})
    assert made[0] == made[1]


def test_a_change_of_the_prompt_or_the_recipe_asks_again_and_nothing_stale_is_served(tmp_path, llm):
    source = write_dialogues(tmp_path / "in.jsonl", 3)
    first = build(tmp_path / "w", sources=[f"messages:{source}"], quiet=True, **llm)
    warmer = [*llm["sets"], "llm.temperature=0.9"]
    second = build(tmp_path / "w", sources=[f"messages:{source}"], quiet=True, model=llm["model"], sets=warmer)
    assert second.calls == first.calls - 3, "the filter is asked at temperature 0 whatever the recipe says"
    override = tmp_path / "w" / "prompts" / "en" / "reason_whole.md"
    override.parent.mkdir(parents=True)
    override.write_text("---\nversion: 7\npurpose: ours\n---\n# user\n{{ history }}\nThink.\n", encoding="utf-8")
    third = build(tmp_path / "w", sources=[f"messages:{source}"], quiet=True, **llm)
    assert third.calls == 9
    trace = next(read_table(Workspace(tmp_path / "w").table("traces"), Trace))
    assert trace.prompt.startswith("reason_whole@7+override:")
    releases = sorted(p.name for p in (tmp_path / "w" / "releases").iterdir())
    assert releases == ["ser-0.1.0", "ser-0.1.1"], "the stand-in answers alike at any temperature: one release for both"


def test_fresh_asks_every_call_again(tmp_path, llm):
    source = write_dialogues(tmp_path / "in.jsonl", 3)
    first = build(tmp_path / "w", sources=[f"messages:{source}"], quiet=True, **llm)
    second = build(tmp_path / "w", sources=[f"messages:{source}"], quiet=True, fresh=True, **llm)
    assert (second.calls, second.replayed) == (first.calls, 0)
    assert second.export.made.content_hash == first.export.made.content_hash


UNUSABLE_TWICE = """
from collections import Counter
from tests.servers.ser_replies import build as good
asked = Counter()
def reply(body):
    said = body["messages"][-1]["content"]
    for day, answer in (("day 0,", ""), ("day 3,", "and so on " * 2000)):
        if day in said:
            asked[day] += 1
            if asked[day] <= 2:
                return answer
    return good(body)
"""


def test_failures_are_rows_persist_and_are_asked_again_on_request(tmp_path):
    source = write_dialogues(tmp_path / "in.jsonl", 4, rounds=1)
    (tmp_path / "replies.py").write_text(f"import sys\nsys.path.insert(0, {ROOT!r})\n{UNUSABLE_TWICE}")
    with StandIn(reply=f"{tmp_path / 'replies.py'}:reply") as server:
        options = {"sources": [f"messages:{source}"], "quiet": True, "model": "openai:m"}
        sets = [f"llm.base_url={server.base_url}", "filter.enabled=false", "failures.max_share=0.5"]
        first = build(tmp_path / "w", sets=sets, **options)
        assert (first.calls, first.failures) == (6, {"empty_reply": 1, "truncated": 1})
        failed = list(read_table(Workspace(tmp_path / "w").table("failures"), Failure))
        assert {f.record_id for f in failed} == {"messages-d0-r1", "messages-d3-r1"}
        assert all(f.request_key and f.stage == "reason" for f in failed)
        again = build(tmp_path / "w", sets=sets, **options)
        assert (again.calls, again.failures) == (0, first.failures), "a failure is as repeatable as a success"
        mended = build(tmp_path / "w", sets=sets, retry_failures=True, **options)
        assert (mended.calls, mended.failures) == (2, {})
        assert sum(mended.export.made.rows["traces"].values()) == 4


def test_too_many_failures_end_with_7_and_keep_the_work(tmp_path, llm, model_server):
    source = write_dialogues(tmp_path / "in.jsonl", 4, rounds=1)
    model_server.reset(faults={"empty": 1.0})
    sets = [*llm["sets"], "filter.enabled=false"]
    with pytest.raises(TooManyFailures, match="reason: 4 of 4 failed") as caught:
        build(tmp_path / "w", sources=[f"messages:{source}"], quiet=True, model=llm["model"], sets=sets)
    assert caught.value.exit_code == 7
    assert len(list(read_table(Workspace(tmp_path / "w").table("failures"), Failure))) == 4
    assert not (tmp_path / "w" / "releases").exists()


def test_an_enforced_filter_drops_and_says_so(tmp_path, model_server):
    source = write_dialogues(tmp_path / "in.jsonl", 10)
    replies = tmp_path / "replies.py"
    replies.write_text(
        f"import json, sys\nsys.path.insert(0, {ROOT!r})\n"
        "from tests.servers.ser_replies import build as good\n"
        "def reply(body):\n"
        "    if 'day 4' in str(body['messages']) and body.get('response_format'):\n"
        "        return json.dumps({'verdict': False, 'failed': ['incoherent'], 'reason': 'no sense'})\n"
        "    return good(body)\n"
    )
    with StandIn(reply=f"{replies}:reply") as server:
        for enforce, kept in ((True, 9), (False, 10)):
            home = Workspace(tmp_path / f"w{enforce}")
            sets = [f"llm.base_url={server.base_url}", f"filter.enforce={enforce}"]
            result = build(home.root, sources=[f"messages:{source}"], quiet=True, model="openai:m", sets=sets)
            verdicts = {v.record_id: v for v in read_table(home.table("verdicts"), Verdict)}
            assert (verdicts["messages-d4"].keep, verdicts["messages-d4"].failed) == (False, ("incoherent",))
            assert len(list(read_table(home.table("dialogues"), Dialogue))) == kept
            assert any("said no to 1 of 10" in n for n in result.notes)


def test_strict_stops_at_the_first_bad_record(tmp_path, llm):
    source = write_dialogues(tmp_path / "in.jsonl", 3)
    source.write_text(source.read_text() + "{broken\n")
    with pytest.raises(DataError, match=r"in\.jsonl line 4"):
        build(tmp_path / "w", sources=[f"messages:{source}"], strict=True, quiet=True, **llm)
    sets = [*llm["sets"], "failures.max_share=0.3"]
    result = build(tmp_path / "w", sources=[f"messages:{source}"], quiet=True, model=llm["model"], sets=sets)
    assert sum(result.failures.values()) == 1


def test_limit_counts_per_source_and_ids_are_unique_across_sources(tmp_path, llm):
    one = write_dialogues(tmp_path / "one.jsonl", 5)
    two = write_dialogues(tmp_path / "two.jsonl", 5, first=4)
    sets = [*llm["sets"], "failures.max_share=0.2"]
    options = {"sources": [f"messages:{one}", f"messages:{two}"], "quiet": True, "model": llm["model"], "sets": sets}
    assert build(tmp_path / "w", limit=2, **options).failures == {}
    assert len(list(read_table(Workspace(tmp_path / "w").table("imported"), Dialogue))) == 4
    assert build(tmp_path / "w", **options).failures == {"duplicate_id": 1}


def test_only_the_drawn_rounds_may_be_kept_as_history(tmp_path, llm):
    source = write_dialogues(tmp_path / "in.jsonl", 2, rounds=8)
    sets = [*llm["sets"], "sample.keep=history", "sample.rounds=2"]
    build(tmp_path / "w", sources=[f"messages:{source}"], quiet=True, model=llm["model"], sets=sets)
    for dialogue in read_table(Workspace(tmp_path / "w").table("dialogues"), Dialogue):
        assert len(dialogue.turns) == 4 and "only_drawn_rounds" in dialogue.flags


def test_no_key_reaches_any_file(tmp_path, llm, monkeypatch, capfd):
    monkeypatch.setenv("OUR_SECRET", "sk-very-secret-123")
    source = write_dialogues(tmp_path / "in.jsonl", 2)
    sets = [*llm["sets"], "llm.api_key_env=OUR_SECRET"]
    build(tmp_path / "w", sources=[f"messages:{source}"], model=llm["model"], sets=sets)
    out = capfd.readouterr()
    assert "sk-very" not in out.out + out.err
    for file in (tmp_path / "w").rglob("*"):
        assert not file.is_file() or b"sk-very-secret" not in file.read_bytes(), file
    manifest = json.loads(next((tmp_path / "w" / "releases").glob("*/manifest.json")).read_text())
    assert "127.0.0.1" not in json.dumps(manifest), "addresses stay out of what is shared"
    assert str(tmp_path) not in json.dumps(manifest)


def test_private_data_leaves_before_anything_is_written_and_crisis_is_marked(tmp_path, llm, model_server):
    talks = [
        [
            ("user", "Hi, I'm Kevin Walsh, call me at 212-555-0187 tonight."),
            ("assistant", "I will, Kevin. What happened?"),
        ],
        [
            ("user", "Everyone would be better off without me."),
            ("assistant", "I'm glad you said it. Are you safe now?"),
        ],
    ]
    source = tmp_path / "in.jsonl"
    lines = [
        {"id": f"d{n}", "messages": [{"role": role, "content": text} for role, text in talk]}
        for n, talk in enumerate(talks)
    ]
    source.write_text("\n".join(json.dumps(line) for line in [*lines, {"id": "d2", "messages": "Kevin Walsh"}]))
    sets = [*llm["sets"], "failures.max_share=0.5"]
    options = {"sources": [f"messages:{source}"], "quiet": True, "model": llm["model"]}
    result = build(tmp_path / "w", sets=sets, **options)
    sent = json.dumps(model_server.bodies())
    assert "[NAME_1]" in sent and "better off without me" in sent, "the filter still judges it"
    for file in [p for p in (tmp_path / "w").rglob("*") if p.is_file()]:
        assert b"Kevin" not in file.read_bytes() and b"0187" not in file.read_bytes(), file
    assert "Kevin" not in sent and "0187" not in sent
    release = load_release(result.export.made.path)
    dialogues = {d["id"]: d for d in release.frame("dialogues").to_dicts()}
    assert dialogues["messages-d1"]["risk"] and dialogues["messages-d1"]["turns"][0]["risk"]["category"] == "self_harm"
    assert release.frame("traces")["dialogue_id"].to_list() == ["messages-d0"], "no supporter is imitated in a crisis"
    assert any("1 dialogues with crisis content" in n for n in result.notes)
    imitated = build(tmp_path / "w", sets=[*sets, "protect.imitate_crisis=true"], **options)
    assert load_release(imitated.export.made.path).frame("traces").height == 2
    model_server.reset(faults={"filter": 1.0})
    more = ["failures.max_share=1", "protect.imitate_crisis=true", "filter.enabled=false"]
    withheld = build(tmp_path / "w2", sets=[*llm["sets"], *more], **options)
    by_risk = load_release(withheld.export.made.path).manifest["failures"]
    assert by_risk == {"malformed": 1, "filtered": 1, "filtered, high risk": 1}, "C6: withheld replies count by risk"
