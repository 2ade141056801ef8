"""CPsyCoun: lines with a speaker's prefix, and lines without."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.sources.cpsycoun import FORMAT
from ser_toolkit.schema import Dialogue, Failure

TEXT = """\
来访者（林女士）：我最近总是睡不好。

心理咨询师：可以说说睡前你在想什么吗？
您可以试试：
1. 写下三件担心的事。
（一周后）

来访者: 写了，好一些。
（后续反馈：睡眠有所改善。）
"""


def test_lines_without_a_prefix_go_on_with_the_turn_before(importing):
    (dialogue,) = importing(FORMAT, {"case_1.txt": TEXT})
    assert isinstance(dialogue, Dialogue) and dialogue.lang == "zh"
    assert [(turn.speaker, turn.text) for turn in dialogue.turns] == [
        ("seeker", "我最近总是睡不好。"),
        ("supporter", "可以说说睡前你在想什么吗？\n您可以试试：\n1. 写下三件担心的事。\n（一周后）"),
        ("seeker", "写了，好一些。\n（后续反馈：睡眠有所改善。）"),
    ]
    assert dialogue.turns[0].raw == "来访者（林女士）：我最近总是睡不好。" and dialogue.flags == ()
    assert dialogue.speakers[0].role == "seeker" and dialogue.speakers[0].attributes == {"name": "林女士"}
    assert (dialogue.source.file, dialogue.source.position, dialogue.source.licence) == ("case_1.txt", "", "CC-BY-4.0")


def test_a_couple_is_two_speakers_in_the_role_of_the_seeker(importing):
    text = "来访者（甲先生）：她不听。\n来访者（乙女士）：他不说。\n说了也没用。\n心理咨询师：你们都在这里。"
    (dialogue,) = importing(FORMAT, {"case_1.txt": text})
    assert [speaker.attributes["name"] for speaker in dialogue.speakers] == ["甲先生", "乙女士"]
    assert [turn.speaker for turn in dialogue.turns] == ["seeker", "seeker", "supporter"]
    assert dialogue.turns[1].raw == "来访者（乙女士）：他不说。\n说了也没用。"
    assert dialogue.flags == ("several_seekers",)


def test_what_stands_before_the_first_turn_is_the_situation(importing):
    (dialogue,) = importing(FORMAT, {"case_1.txt": "（第二次咨询）\n" + TEXT})
    assert dialogue.situation == "（第二次咨询）" and len(dialogue.turns) == 3


def test_json_lists_of_such_texts_beside_text_files(importing):
    other = "来访者：工作很累。\n心理咨询师：累在哪里？"
    results = importing(FORMAT, {"a.txt": TEXT, "b.json": [other, 7, "没有说话人的一段话。"]})
    assert [type(r) for r in results] == [Dialogue, Dialogue, Failure, Failure]
    assert [turn.text for turn in results[1].turns] == ["工作很累。", "累在哪里？"]
    assert [(r.kind, r.file, r.position) for r in results[2:]] == [
        ("malformed", "b.json", "record 2"),
        ("malformed", "b.json", "record 3"),
    ]


def test_one_sided_and_unknown_prefixes(importing):
    results = importing(
        FORMAT,
        {
            "a.txt": "来访者：在吗？\n来访者：有人吗？",
            "b.txt": "来访者：我很难过。\n班主任：别哭。\n心理咨询师：班主任这样说？",
        },
    )
    assert isinstance(results[0], Failure) and results[0].kind == "one_sided"
    # "班主任" is no speaker of this corpus: his line is quoted by the seeker's turn.
    assert results[1].turns[0].text == "我很难过。\n班主任：别哭。"
    (told,) = importing(FORMAT, {"c.txt": "来访者：我很难过。\n班主任：别哭。"}, roles={"班主任": "supporter"})
    assert [turn.speaker for turn in told.turns] == ["seeker", "supporter"]


SAID = st.text("我你他累好说家，。？ab1", min_size=1, max_size=20).filter(str.strip)


@given(st.lists(SAID, min_size=2, max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_turns_written_as_lines_are_read_back(importing, texts):
    prefixes = ("来访者", "心理咨询师")
    lines = [f"{prefixes[i % 2]}：{text}" for i, text in enumerate(texts)]
    (dialogue,) = importing(FORMAT, {"a.txt": "\n\n".join(lines)})
    assert [turn.text for turn in dialogue.turns] == [text.strip() for text in texts]
