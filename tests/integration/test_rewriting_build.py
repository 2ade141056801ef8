"""Whole builds with rewriting on, against a loopback server."""

import json
import random
import sys
from collections import Counter
from pathlib import Path

import pytest

from pipelines import build
from pipelines.annotating import open_round
from pipelines.exporting import export
from pipelines.showing import find, render
from pipelines.stages.rewriting.compare import DIMENSIONS
from pipelines.stages.rewriting.records import Clustering, Draw, Profile, Quality
from pipelines.withdrawing import withdraw
from ser_toolkit import load_release
from ser_toolkit.errors import RemoteError, UsageError
from ser_toolkit.recipe import load_recipe
from ser_toolkit.schema import Dialogue, Failure, Trace, Verdict
from ser_toolkit.store import read_table
from ser_toolkit.workspace import Workspace
from tests.integration.conftest import write_dialogues
from tests.servers.openai_stand_in import StandIn
from tests.unit.annotation.answering import says

REPLIES = Path(__file__).parents[1] / "servers" / "rewrite_replies.py"
COUNT, ROUNDS = 18, 2


@pytest.fixture
def server():
    with StandIn(reply=f"{REPLIES}:build") as running:
        yield running


@pytest.fixture
def made(tmp_path, server):
    """`made(*sets, name="w")`: the build of 18 dialogues in `tmp_path/name`, rewriting on."""
    source = write_dialogues(tmp_path / "in.jsonl", COUNT, rounds=ROUNDS)

    def run(*sets: str, name: str = "w", on: bool = True, source: Path = source):
        common = [f"llm.base_url={server.base_url}", "llm.identity=here", f"rewrite.enabled={on}"]
        sources = [f"messages:{source}"]
        return build(tmp_path / name, sources=sources, model="openai:m", sets=[*common, *sets], quiet=True)

    return run


def rows(home: Path, name: str, record):
    return list(read_table(Workspace(home).table(name), record))


def tables(home: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted((home / "tables").glob("*.parquet"))}


def test_every_dialogue_that_finds_a_personality_is_rewritten_beside_its_source(tmp_path, made):
    result = made()
    home = tmp_path / "w"
    draws, profiles = rows(home, "draws", Draw), {p.id: p for p in rows(home, "profiles", Profile)}
    clusterings = rows(home, "clusters", Clustering)
    assert [(c.role, c.k, c.profiles) for c in clusterings] == [("seeker", 3, COUNT), ("supporter", 3, COUNT)]
    assert [p.k for p in clusterings[0].curve] == list(range(1, 11)), "and no fourth different point"
    cluster = {d.profile_id: d.cluster for d in draws}
    assert all(cluster[d.drawn] == d.cluster and d.drawn != d.profile_id for d in draws if d.drawn)
    alone = {d.dialogue_id for d in draws if d.drawn is None}
    rewrites = rows(home, "rewrites", Dialogue)
    sources = {d.id: d for d in rows(home, "dialogues", Dialogue)}
    assert {r.rewritten_from for r in rewrites} == sources.keys() - alone
    for rewrite in rewrites:
        source = sources[rewrite.rewritten_from]
        assert [t.text for t in rewrite.turns] == [t.text.upper() for t in source.turns]
        given = {s.role: s.attributes["disc_profile"] for s in rewrite.speakers}
        assert given == {d.role: d.drawn for d in draws if d.dialogue_id == source.id}
        assert all(given[s.role] in profiles for s in rewrite.speakers)
    kept = len(rewrites)
    calls = {"filter": COUNT, "reason": COUNT * ROUNDS, "describe": 2 * COUNT, "rewrite": kept * 2 * ROUNDS}
    assert result.calls == sum(calls.values()) + 2 * kept, "and one to compare and one to score each rewrite"
    assert result.failures == {}


def test_the_release_holds_both_in_one_split_and_each_trace_names_its_source(tmp_path, made):
    release = load_release(made().export.made.path)
    dialogues = {d["id"]: d for d in release.frame("dialogues").to_dicts()}
    rewrites = [d for d in dialogues.values() if d["rewritten_from"]]
    assert rewrites and all(d["split"] == dialogues[d["rewritten_from"]]["split"] for d in rewrites)
    assert all(d["root_id"] == d["rewritten_from"] and d["turns"][0]["origin"] == "model:m" for d in rewrites)
    traces = {t["id"]: t for t in release.frame("traces").to_dicts()}
    carried = [t for t in traces.values() if t["rewritten_from"]]
    assert len(carried) == ROUNDS * len(rewrites)
    for trace in carried:
        source = traces[trace["rewritten_from"]]
        assert (trace["completion"], trace["target"]) == (source["completion"], source["target"])
        assert trace["reference"] == source["reference"].upper() and trace["root_id"] == source["dialogue_id"]
        assert trace["prompt"][-1]["content"] == source["prompt"][-1]["content"].upper()


def test_what_came_of_it_stands_in_manifest_and_card(tmp_path, made):
    result = made()
    manifest = load_release(result.export.made.path).manifest
    told = manifest["lineage"]["rewriting"]
    quality = rows(tmp_path / "w", "rewrite_quality", Quality)
    assert told["quality"] == {
        "scored": len(quality),
        "scale": [0, 3],
        "mean": dict(zip(DIMENSIONS, (3.0, 2.0, 3.0, 1.0), strict=True)),
    }
    assert told["kept"] == told["rewritten"] == len(quality) == told["verdicts"]["judged"]
    assert told["traces"] == ROUNDS * told["kept"] and told["verdicts"]["rejected"] == 0
    curve = told["clusters"][0]["curve"]
    assert curve[0]["sse"] > curve[1]["sse"] > curve[2]["sse"] == curve[9]["sse"] == 0 and curve[9]["k"] == 10
    card = (result.export.made.path / "README.md").read_text(encoding="utf-8")
    assert f"{told['kept']} of the dialogues are rewrites" in card
    assert "semantic consistency 3.0 of 3" in card and "3 clusters" in card


def test_again_no_call_the_same_tables_and_the_same_release(tmp_path, made):
    first = made()
    before = tables(tmp_path / "w")
    again = made()
    assert (again.calls, again.replayed) == (0, first.calls)
    assert again.export.made.content_hash == first.export.made.content_hash
    assert tables(tmp_path / "w") == before


def test_order_and_concurrency_change_nothing(tmp_path, made):
    made("llm.concurrency=1", name="a")
    made("llm.concurrency=17", name="b")
    assert tables(tmp_path / "a") == tables(tmp_path / "b")


def label(home: Path) -> None:
    """Two people answer every item, both alike, by its trace; what they see has nothing of the rewriting."""
    with open_round(Workspace(home), load_recipe(home), ["ada", "ben"]) as ledger:
        traces = {t.id for t in rows(home, "traces", Trace)}
        assert {i.trace_id for i in ledger.state.items.values()} == traces
        for person in ("ada", "ben"):
            while (task := ledger.next_task(person)) is not None:
                draw = random.Random(ledger.item(task.item_id).trace_id)
                better = draw.choice(("generated", "reference", "almost_equal", "neither"))
                ledger.accept(says(task, "".join(draw.choices("ttf", k=3)), better, ledger=ledger))


def test_rewriting_before_or_after_annotation_gives_the_same_release(tmp_path, made):
    made(name="before")
    label(tmp_path / "before")
    before = export(Workspace(tmp_path / "before")).made
    plain = made(name="after", on=False)
    label(tmp_path / "after")
    after = made(name="after").export.made
    assert after.content_hash == before.content_hash != plain.export.made.content_hash
    assert tables(tmp_path / "after") == tables(tmp_path / "before")
    release = load_release(after.path)
    for config in ("steps", "preferences", "judgements"):
        labelled = {r["id"]: r for r in release.frame(config).to_dicts()}
        carried = [r for r in labelled.values() if r["rewritten_from"]]
        assert carried, config
        for row in carried:
            source = labelled[row["rewritten_from"]]
            same = {"labels", "votes", "split", "chosen_is_generated", "loss_rounds"} & row.keys()
            assert {k: row[k] for k in same} == {k: source[k] for k in same}
    pair = next(r for r in release.frame("preferences").to_dicts() if r["rewritten_from"] and r["chosen_is_generated"])
    assert pair["rejected"][0]["content"].isupper(), "the reference is the rewritten one, the generated reply as judged"
    assert not pair["chosen"][0]["content"].isupper()


def test_without_rewriting_nothing_of_it_stays_behind(tmp_path, made):
    plain = made(on=False)
    before = tables(tmp_path / "w")
    made()
    assert made(on=False).export.made.content_hash == plain.export.made.content_hash
    assert tables(tmp_path / "w") == before


def test_without_personality_nobody_is_described(tmp_path, made, server):
    made()
    result = made("rewrite.personality=false", "rewrite.quality=false")
    assert not any((tmp_path / "w" / "tables" / f"{n}.parquet").exists() for n in ("profiles", "clusters", "draws"))
    rewrites = rows(tmp_path / "w", "rewrites", Dialogue)
    assert len(rewrites) == COUNT and all(r.speakers == () for r in rewrites)
    told = load_release(result.export.made.path).manifest["lineage"]["rewriting"]
    assert (told["personality"], told["clusters"], told["quality"]["mean"]) == (False, [], {})
    sent = [b for b in server.bodies() if "Retell this line in other words" in str(b["messages"])]
    assert len(sent) == COUNT * 2 * ROUNDS and not any("character" in b["messages"][-1]["content"] for b in sent)


FUSSY = """
import json, sys
sys.path.insert(0, {root!r})
from tests.servers.rewrite_replies import build as good, properties_of
def reply(body):
    asked, said = properties_of(body), str(body["messages"])
    if "Rewritten conversation" in said and "verdict" in asked and "DAY 4," in said:
        return json.dumps({{"verdict": False, "failed": ["semantic_deviation"], "reason": "another meaning"}})
    if "line" in asked and "day 7, part 0" in body["messages"][-1]["content"]:
        return json.dumps({{"line": "Supporter: it is me"}})
    if "semantic_consistency" in asked and "DAY 9," in said:
        return "I would rather not say."
    return good(body)
"""


def test_the_comparison_drops_and_what_fails_is_a_row(tmp_path, made):
    script = tmp_path / "replies.py"
    script.write_text(FUSSY.format(root=str(REPLIES.parents[2])))
    with StandIn(reply=f"{script}:reply") as server:
        sets = [f"llm.base_url={server.base_url}", "failures.max_share=0.2", "rewrite.personality=false"]
        result = made(*sets)
        home = tmp_path / "w"
        kept = {r.rewritten_from for r in rows(home, "rewrites", Dialogue)}
        assert kept == {f"messages-d{n}" for n in range(COUNT)} - {"messages-d4", "messages-d7"}
        assert result.failures == {"rewrite": 1, "schema": 1}
        failed = {f.stage: f for f in rows(home, "failures", Failure)}
        assert "role tags" in failed["rewrite"].reason and failed["rewrite"].record_id == "messages-d7"
        assert failed["quality"].record_id.startswith("messages-d9-rw-"), "no score is no zero, and the rewrite stays"
        assert len(rows(home, "rewrite_quality", Quality)) == len(kept) - 1
        told = load_release(result.export.made.path).manifest["lineage"]["rewriting"]
        assert told["verdicts"] == {"judged": 17, "rejected": 1, "enforced": 17, "rejected: semantic_deviation": 1}
        assert any("no to 1 of 17 rewrites (left out)" in n for n in result.notes)
        lenient = made(*sets, "rewrite.enforce=false")
        assert lenient.calls == 1, "one rewrite more is scored; a score that could not be read stays so"
        assert "messages-d4" in {r.rewritten_from for r in rows(home, "rewrites", Dialogue)}


def test_what_descriptions_say_counts_for_the_clusters_where_the_recipe_asks_for_it(tmp_path, made, server):
    sets = ("rewrite.embed=openai:words", f"rewrite.embed_server.base_url={server.base_url}", "rewrite.k_range=[2, 4]")
    result = made(*sets)
    profiles = rows(tmp_path / "w", "profiles", Profile)
    assert len(profiles) == 2 * COUNT
    assert all(abs(sum(x * x for x in p.embedding) - 1) < 1e-4 for p in profiles)
    sent = [b["input"] for b in server.bodies() if "input" in b]
    assert sorted(text for (text,) in sent) == sorted({_described(p) for p in profiles}), "each of them once"
    told = load_release(result.export.made.path).manifest
    assert told["lineage"]["rewriting"]["features"] == ["scores", "embeddings of words"]
    assert "127.0.0.1" not in json.dumps(told)
    before = tables(tmp_path / "w")
    again = made(*sets)
    assert again.calls == 0 and tables(tmp_path / "w") == before
    assert server.stats()["embedded"] == len(sent)
    plain = made("rewrite.k_range=[2, 4]", name="plain")
    assert load_release(plain.export.made.path).manifest["lineage"]["rewriting"]["features"] == ["scores"]
    assert not any(p.embedding for p in rows(tmp_path / "plain", "profiles", Profile))


def _described(profile: Profile) -> str:
    return "\n".join(f"{t.dimension}: {t.analysis}" for t in profile.traits)


def test_a_model_of_embeddings_that_cannot_be_had_is_told_before_anything_is_paid(made, server, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    for spec, why in (("words", "openai:MODEL or local:MODEL"), ("local:m", "needs sentence-transformers")):
        with pytest.raises(UsageError, match=rf"rewrite\.embed {spec}.*{why}"):
            made(f"rewrite.embed={spec}")
    assert server.stats().get("calls", 0) == 0
    with pytest.raises(RemoteError, match="no-such-model does not answer"):
        made("rewrite.embed=openai:no-such-model", "rewrite.embed_server.base_url=http://127.0.0.1:9/v1",
             "rewrite.embed_server.max_retries=0")  # fmt: skip


def test_who_is_alone_in_a_cluster_is_left_out_with_a_reason(tmp_path, made, server):
    source = write_dialogues(tmp_path / "two.jsonl", 2, rounds=1)
    result = made("rewrite.k_range=[2, 2]", source=source)
    draws = rows(tmp_path / "w", "draws", Draw)
    alone = {d.dialogue_id for d in draws if d.drawn is None}
    assert alone, "two different descriptions in two clusters"
    assert len(rows(tmp_path / "w", "rewrites", Dialogue)) == 2 - len(alone)
    assert any(f"{len(alone)} dialogues are not rewritten: a speaker's cluster" in n for n in result.notes)
    one = made("rewrite.k_range=[1, 1]", source=source)
    assert len(rows(tmp_path / "w", "rewrites", Dialogue)) == 2 and not any("not rewritten" in n for n in one.notes)


def test_chinese_stays_chinese_and_a_crisis_is_not_rewritten(tmp_path, made, server):
    source = tmp_path / "zh.jsonl"
    talks = [
        ["最近总是睡不着，工作压力很大。", "听起来很辛苦，压力主要来自哪里？"],
        ["我和室友吵架了，不知道怎么开口。", "吵架之后心里一定不好受，发生了什么？"],
        ["我不想活了。", "谢谢你告诉我，你现在安全吗？"],
    ]
    lines = [
        {
            "id": f"z{n}",
            "messages": [{"role": r, "content": t} for r, t in zip(("user", "assistant"), talk, strict=True)],
        }
        for n, talk in enumerate(talks)
    ]
    source.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines), encoding="utf-8")
    result = made("rewrite.k_range=[1, 1]", source=source)
    rewrites = rows(tmp_path / "w", "rewrites", Dialogue)
    assert {r.rewritten_from for r in rewrites} == {"messages-z0", "messages-z1"}
    assert rewrites[0].turns[0].text == talks[0][0] + "，真的。"
    assert any("1 dialogues are not rewritten: crisis content" in n for n in result.notes)
    asked = [b for b in server.bodies() if "的下一句：" in str(b["messages"])]
    assert len(asked) == 4 and all("你逐句改写" in b["messages"][0]["content"] for b in asked)


def test_a_withdrawal_reaches_rewrites_and_personalities_that_were_lent(tmp_path, made):
    made()
    home = Workspace(tmp_path / "w")
    draws = rows(home.root, "draws", Draw)
    lender = Counter(d.drawn.rpartition("-")[0] for d in draws if d.drawn).most_common(1)[0][0]
    borrowers = {d.dialogue_id for d in draws if d.drawn and d.drawn.rpartition("-")[0] == lender}
    rewrites = {r.rewritten_from: r.id for r in rows(home.root, "rewrites", Dialogue)}
    gone = {rewrites[b] for b in {lender, *borrowers} if b in rewrites}
    assert gone <= set(withdraw(home, lender).ids)
    for name in ("rewritten", "rewrites"):
        assert not gone & {r.id for r in rows(home.root, name, Dialogue)}
    assert not gone & {t.dialogue_id for t in rows(home.root, "rewrite_traces", Trace)}
    assert not gone & {v.record_id for v in rows(home.root, "rewrite_verdicts", Verdict)}
    assert lender not in {p.dialogue_id for p in rows(home.root, "profiles", Profile)}
    left = load_release(export(home).made.path).frame("dialogues")["id"].to_list()
    assert lender not in left and not gone & set(left)
    again = load_release(made().export.made.path)
    ids = set(again.frame("dialogues")["id"])
    new = {r.rewritten_from for r in rows(home.root, "rewrites", Dialogue)}
    assert new & borrowers and {r.id for r in rows(home.root, "rewrites", Dialogue)} <= ids, "others' personalities now"


def test_show_tells_the_rewrite_its_scores_and_the_descriptions(tmp_path, made):
    made()
    rewrite = rows(tmp_path / "w", "rewrites", Dialogue)[0]
    home = Workspace(tmp_path / "w")
    text = render(find(home, rewrite.rewritten_from))
    assert f"profile {rewrite.rewritten_from}-seeker" in text and "Dominance" in text
    assert f"rewritten from {rewrite.rewritten_from}" in text
    assert "quality of" in render(find(home, rewrite.id)) and "role consistency 3/3" in render(find(home, rewrite.id))
