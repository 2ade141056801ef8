"""Patterns told apart by the letters that they need: none that matches is ever missed."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ser_toolkit.protection.crisis import _plain, _rules
from ser_toolkit.protection.crisis_concepts import SIZES, _concepts, _prefilter
from ser_toolkit.protection.prefilter import Prefilter, grams_of, needed
from ser_toolkit.schema import Lang
from tests.unit.protection.marked import read_crisis

LANGS: tuple[Lang, ...] = ("en", "zh")
PATTERNS = {
    "word": r"\bkill(?:ing|ed)?\b",
    "both": r"(?:him|them) (?:\w+ )?(?:bleed|burn)",
    "maybe": r"(?:very )?sad",
    "classes": r"[a-z]+\d",
    "ahead": r"(?=.*river)i .*",
    "not": r"die(?! laughing)",
    "set": r"[xyz]oo",
}


def test_what_a_pattern_needs():
    assert needed(PATTERNS["word"]) == [{"kill"}]
    assert {"him", "them"} in needed(PATTERNS["both"]) and {"bleed", "burn"} in needed(PATTERNS["both"])
    assert needed(PATTERNS["classes"]) == []


@given(
    st.text(st.sampled_from("abdefhiklmnorstuvxyz 1'"), max_size=40)
    | st.sampled_from(["make them bleed", "zoo", "die laughing"])
)
def test_no_match_is_missed(text: str):
    made = Prefilter(PATTERNS.items(), (5, 3))
    found = {key for key, pattern in PATTERNS.items() if re.search(pattern, text)}
    assert found <= made.possible(grams_of(text, (5, 3)))


@pytest.mark.parametrize("lang", LANGS)
def test_no_rule_and_no_concept_is_missed_on_the_sets(lang: Lang):
    rules, concepts, prefilter = _rules(lang), _concepts(lang), _prefilter(lang)
    risk, none = read_crisis(lang)
    for text in map(_plain, [*risk, *none]):
        grams = grams_of(text, SIZES[lang])
        assert rules.may_find(text, grams) == any(rule.pattern.search(text) for rule in rules.rules), text
        assert {name for name, words in concepts.items() if words.search(text)} <= prefilter.possible(grams), text
