"""Chinese throughout: a build of CPsyCoun against a server that answers in Chinese, and with a model that cannot."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines import build
from pipelines.showing import find, render
from ser_toolkit import load_release
from ser_toolkit.history import estimate_tokens
from ser_toolkit.schema import Dialogue, Trace
from ser_toolkit.store import read_table
from ser_toolkit.workspace import Workspace
from tests.servers.openai_stand_in import StandIn

REPLIES = Path(__file__).parents[1] / "servers" / "chinese_replies.py"
HAN = re.compile(r"[\u4e00-\u9fff]")
LATIN = re.compile(r"[A-Za-z]{4,}")
KEYS = {
    "JSON",
    "verdict",
    "true",
    "false",
    "failed",
    "reason",
    "dialogue",
    "incoherent",
    "machine",
    "written",
    "boxed",
    "NAME",
}
"""What a Chinese prompt holds in Latin letters: the names of JSON fields, the box, placeholders."""
CASES = {
    "case_1.txt": (
        "来访者：我叫林雨欣，最近总是睡不好，一到半夜就醒。\n\n心理咨询师：半夜醒来的时候，你会想些什么？\n\n"
        "来访者：想工作上的事，怕出错被领导骂。\n心理咨询师：听起来你对自己要求很高。\n"
        "来访者：是啊，我妈从小就这么要求我。\n心理咨询师：如果这次真的出错了，你担心会怎样？\n"
    ),
    "case_2.txt": (
        "来访者：我和男朋友异地两年了，最近他消息回得越来越少。\n心理咨询师：这种变化是什么时候开始的？\n"
        "来访者：他换了工作以后。我不敢问，怕显得不懂事。\n心理咨询师：不问的时候，你心里是什么感觉？\n"
    ),
    "case_3.txt": (
        "来访者：孩子上了初中就不跟我说话了。\n心理咨询师：以前你们会聊些什么？\n"
        "来访者：什么都聊。现在一进门就关房间。\n心理咨询师：那扇门关上的时候，你是什么心情？\n"
    ),
    "case_4.txt": (
        "来访者：孩子上了初中，就不跟我说话了！\n心理咨询师：以前你们会聊些什么？\n"
        "来访者：什么都聊，现在一进门就关房间。\n心理咨询师：那扇门关上的时候，你是什么心情？\n"
    ),
}


@pytest.fixture
def server() -> Iterator[StandIn]:
    with StandIn(reply=f"{REPLIES}:build") as running:
        yield running


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    folder = tmp_path / "cases"
    folder.mkdir()
    for name, text in CASES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def chinese(home: Path, server: StandIn, source: Path, *sets: str):
    common = [f"llm.base_url={server.base_url}", "llm.identity=here"]
    return build(home, sources=[f"cpsycoun:{source}"], model="openai:m", sets=[*common, *sets], quiet=True)


def test_chinese_dialogues_give_chinese_traces_and_every_prompt_is_chinese(tmp_path, server, cases):
    result = chinese(tmp_path / "w", server, cases)
    assert result.failures == {}
    traces = list(read_table(Workspace(tmp_path / "w").table("traces"), Trace))
    assert len(traces) == 9 and {t.lang for t in traces} == {"zh"}
    for trace in traces:
        assert (trace.strategy, trace.stage) == ("Progressive Questioning", "Exploration")
        assert (trace.sentiment, trace.intensity, trace.emotions) == ("Negative", "Moderate", ("Anxiety", "Sadness"))
        assert all(HAN.search(s.text) and HAN.search(s.title) for s in trace.steps) and HAN.search(trace.reply)
    for message in (m for body in server.bodies() for m in body["messages"]):
        assert HAN.search(message["content"]) and set(LATIN.findall(message["content"])) <= KEYS, message
    rows = load_release(result.export.made.path).frame("traces").to_dicts()
    for row in rows:
        assert HAN.search(row["prompt"][0]["content"]) and set(LATIN.findall(str(row["prompt"]))) - {
            "role",
            "content",
        } <= KEYS | {"user", "assistant", "system"}
        assert row["completion"][0]["content"].startswith("步骤1")
    said = json.dumps(server.bodies(), ensure_ascii=False)
    assert "林雨欣" not in said and "[NAME_1]" in said


def test_near_duplicates_are_found_in_chinese_though_no_space_stands_between_words(tmp_path, server, cases):
    made = chinese(tmp_path / "w", server, cases).export.made
    manifest = load_release(made.path).manifest
    assert manifest["groups"]["dialogues"] == 4 and manifest["groups"]["groups"] == 3, "two differ in punctuation alone"
    assert manifest["languages"] == {"zh": sum(sum(c.values()) for c in [manifest["rows"]["dialogues"]])}


def test_a_history_is_cut_by_what_chinese_characters_cost(tmp_path, server, cases):
    long = "".join(
        f"来访者：第{n}天，我还是一样睡不着，想了很多很多事情。\n心理咨询师：嗯，你说。\n" for n in range(60)
    )
    (cases / "case_9.txt").write_text(long, encoding="utf-8")
    for file in cases.glob("case_[1-4].txt"):
        file.unlink()
    assert estimate_tokens("第一天我还是一样睡不着") > len("第一天我还是一样睡不着"), "a budget of words would be none"
    result = chinese(tmp_path / "w", server, cases)
    assert result.failures == {}
    (dialogue,) = read_table(Workspace(tmp_path / "w").table("imported"), Dialogue)
    assert len(dialogue.turns) == 120


def test_show_reads_well(tmp_path, server, cases):
    chinese(tmp_path / "w", server, cases)
    home = Workspace(tmp_path / "w")
    id = next(d.id for d in read_table(home.table("imported"), Dialogue) if d.source.file == "case_1.txt")
    text = render(find(home, id))
    assert "[NAME_1]" in text and "最近总是睡不好，一到半夜就醒" in text.replace("\n", "").replace("  ", "")
    assert "\\u" not in text and "求助者的核心困扰还没有说完" in text
    assert max(sum(2 if HAN.match(c) else 1 for c in line) for line in text.splitlines()) <= 140


def test_the_real_corpus(tmp_path, server, shared_data):
    result = chinese(tmp_path / "w", server, shared_data / "cpsycoun", "failures.max_share=0.1")
    traces = list(read_table(Workspace(tmp_path / "w").table("traces"), Trace))
    assert len(traces) >= 100 and {t.lang for t in traces} == {"zh"} and all(HAN.search(t.reply) for t in traces)
    assert sum(result.failures.values()) <= 0.1 * len(traces)


@pytest.mark.slow
@pytest.mark.xdist_group("embedded")
def test_the_embedded_model_completes_and_says_that_it_writes_english_only(tmp_path, cases):
    for file in list(cases.glob("*.txt"))[1:]:
        file.unlink()
    sets = ["sample.rounds=1", "filter.enabled=false", "failures.max_share=1"]
    result = build(tmp_path / "w", sources=[f"cpsycoun:{cases}"], sets=sets, quiet=True)
    traces = list(read_table(Workspace(tmp_path / "w").table("traces"), Trace))
    assert load_release(result.export.made.path).manifest["languages"] == {"zh": 1}
    assert traces or result.failures
    assert any("writes en only: its zh traces are of no use" in n for n in result.notes) is bool(traces)
