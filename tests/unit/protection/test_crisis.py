"""Crisis content: recall on hand-written messages with the precision beside it, levels, denials, idioms, fiction."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ser_toolkit.protection.crisis import find_crisis, highest
from ser_toolkit.schema import RISK_LEVELS, Lang
from tests.unit.protection.marked import SETS, read_crisis

LANGS: tuple[Lang, ...] = ("en", "zh")


@pytest.mark.parametrize("lang", LANGS)
def test_recall_and_precision(lang: Lang):
    risk, none = read_crisis(lang)
    assert len(risk) >= 300 and len(none) >= 300
    missed = [m for m in risk if not find_crisis(m, lang)]
    false = [m for m in none if find_crisis(m, lang)]
    recall = 1 - len(missed) / len(risk)
    precision = (len(risk) - len(missed)) / (len(risk) - len(missed) + len(false))
    assert recall >= 0.98, missed
    assert precision >= 0.98, false


@pytest.mark.parametrize("lang", LANGS)
def test_categories_and_the_gravest_level(lang: Lang):
    tree = tomllib.loads((SETS / f"crisis_{lang}.toml").read_text(encoding="utf-8"))
    for category in ("self_harm", "abuse", "danger_to_others"):
        right = [m for m in tree[category] if category in {s.category for s in find_crisis(m, lang)}]
        assert len(right) >= 0.95 * len(tree[category]), category
    levels = {m: highest(s.level for s in find_crisis(m, lang)) for m in tree["imminent"]}
    assert set(levels.values()) == {"imminent"}, levels


@pytest.mark.parametrize(
    ("message", "lang", "level"),
    [
        ("I'm not suicidal.", "en", None),
        ("I would never hurt myself.", "en", None),
        ("I have no thoughts of suicide.", "en", None),
        ("My therapist asked if I was suicidal and I said no.", "en", None),
        ("I'm not suicidal, but I don't want to be here anymore.", "en", "high"),
        ("I don't want to live.", "en", "high"),
        ("I can't go on like this.", "en", "concern"),
        ("I tried to kill myself when I was fifteen.", "en", "concern"),
        ("I'm dying to see it, this homework is killing me.", "en", None),
        ('In the film he says "I want to die" and jumps.', "en", None),
        ("I watched that film and now I want to kill myself.", "en", "high"),
        ("[NAME_1] hits me when he drinks.", "en", "high"),
        ("我没有想过自杀。", "zh", None),
        ("我不是不难过，但我不想死。", "zh", None),
        ("笑死我了，累死了。", "zh", None),
        ("我不敢自杀，但每天都在想。", "zh", "high"),
        ("高中的时候我割过腕。", "zh", "concern"),
        ("看完那部电影，我也想自杀。", "zh", "high"),
        ("", "en", None),
    ],
)
def test_levels(message: str, lang: Lang, level: str | None):
    assert highest(s.level for s in find_crisis(message, lang)) == level


def test_highest():
    assert highest(["concern", None, "imminent", "high"]) == "imminent"
    assert highest([]) is None and highest([None]) is None
    assert RISK_LEVELS == ("concern", "high", "imminent")


def test_chinese_is_read_in_a_text_called_english():
    assert find_crisis("I feel bad. 我不想活了。", "en")


@given(st.text(max_size=200), st.sampled_from(LANGS))
def test_spans_are_in_order_and_inside_the_text(text: str, lang: Lang):
    at = 0
    for span in find_crisis(text, lang):
        assert at <= span.start < span.end <= len(text)
        at = span.end


@given(st.lists(st.sampled_from(["I want to die", "he hits me", "the film", "not", "but", "我想死", '"', ".", "haha"])))
def test_no_mixture_makes_it_fail(parts: list[str]):
    find_crisis(" ".join(parts), "en")
