"""Profiles and role cards, as scenarios."""

import pytest

from pipelines.sources.profiles import ESC_EVAL, ESC_JUDGE, SAGE
from ser_toolkit.schema import Failure, Scenario

PROFILE = {
    "id": "p-1",
    "player": "* 姓名：林可\n* 年龄：27岁",
    "scene": "## 背景\n林可刚换了工作。\n- 隐藏主题相关：想被理解。\n####隐藏主题:\n***你希望对方用心倾听",
    "main_cha": "被动型",
    "cha_group": ["内向", "谨慎"],
    "task": "你希望对方用心倾听",
    "first_talk": "最近有点累。",
}
CARD = {
    "id": 11,
    "base": "Age: 30\nGender: Female\nOccupation: Nurse\nProblem: Night shifts leave her no time for friends.",
    "res": "工作学习",
    "source": "hand-written",
    "base_biaozhu": "年龄：30\n性别：女\n职业：护士\n问题：夜班太多。",
    "language": "english",
}
PERSONA = {
    "role": "**persona:**\n- 41-year-old baker.\n**ongoing challenge:**\n- a shop that may close.",
    "pid": "b-7",
    "life_events": "1. took over the shop.",
    "challenge": "Fear of losing the shop",
    "behavioral_traits": "- Reserved.",
    "final_persona": "a baker who fears for his shop.",
}


def test_a_sage_profile_keeps_its_hidden_theme_apart(importing):
    (scenario,) = importing(SAGE, {"profiles.jsonl": [PROFILE]})
    assert isinstance(scenario, Scenario) and (scenario.id, scenario.lang) == ("sage-p-1", "zh")
    assert scenario.situation == "## 背景\n林可刚换了工作。\n- 隐藏主题相关：想被理解。"
    assert scenario.hidden_intention == "你希望对方用心倾听" and scenario.opening == "最近有点累。"
    assert scenario.speakers[0].role == "seeker" and scenario.speakers[0].persona.startswith("* 姓名：林可")
    assert scenario.meta == {"main_cha": "被动型", "cha_group": ["内向", "谨慎"]}
    assert scenario.source.licence == "MIT"


def test_an_rlver_profile_with_a_topic_and_a_theme_of_its_own(importing):
    other = {**PROFILE, "topic": "工作", "task": "你想要建议", "scene": "背景。\n隐藏主题：想被夸奖"}
    (scenario,) = importing(SAGE, {"profiles.jsonl": [other]})
    assert (scenario.situation, scenario.hidden_intention) == ("背景。", "你想要建议")
    assert scenario.meta["topic"] == "工作" and scenario.meta["hidden_theme"] == "想被夸奖"


def test_cards_of_both_languages_in_one_folder(importing):
    chinese = {**CARD, "id": 12, "base": CARD["base_biaozhu"], "language": "chinese"}
    english, other = importing(ESC_EVAL, {"card_en.json": [CARD], "card_zh.json": [chinese]})
    assert (english.id, english.lang, other.id, other.lang) == ("esc-eval-11", "en", "esc-eval-12", "zh")
    assert english.situation == "Night shifts leave her no time for friends." and other.situation == "夜班太多。"
    assert english.speakers[0].persona == "Age: 30\nGender: Female\nOccupation: Nurse"
    assert english.problem == "工作学习" and english.meta["base_biaozhu"] == CARD["base_biaozhu"]


def test_a_persona_of_esc_judge_in_json_lines_under_a_json_name(importing):
    text = '{"role": "a", "pid": "1", "challenge": "c"}\n{"role": "b", "pid": "2", "challenge": "d"}\n'
    assert [s.id for s in importing(ESC_JUDGE, {"roles.json": text})] == ["esc-judge-1", "esc-judge-2"]
    (scenario,) = importing(ESC_JUDGE, {"one.jsonl": [PERSONA]}, lang="en")
    assert scenario.speakers[0].persona == PERSONA["role"] and scenario.situation == PERSONA["challenge"]
    assert scenario.meta.keys() == {"final_persona", "life_events", "behavioral_traits"}


@pytest.mark.parametrize(
    ("format", "record", "kind"),
    [
        (SAGE, {**PROFILE, "player": None}, "malformed"),
        (SAGE, {key: PROFILE[key] for key in ("id", "player")}, "malformed"),
        (SAGE, {**PROFILE, "player": " ", "scene": "\n"}, "empty"),
        (ESC_EVAL, {**CARD, "language": "klingon"}, "malformed"),
        (ESC_EVAL, {"id": 1}, "malformed"),
        (ESC_JUDGE, {**PERSONA, "challenge": ["x"]}, "malformed"),
        (ESC_JUDGE, "a baker", "malformed"),
    ],
)
def test_a_bad_card_is_a_failure(importing, format, record, kind):
    (failure,) = importing(format, {"cards.json": [record]})
    assert isinstance(failure, Failure) and failure.kind == kind and failure.position == "record 1"
