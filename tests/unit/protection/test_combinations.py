"""Concepts that stand together: the data are sound, both languages have all, and order does not count."""

import pytest

from ser_toolkit.protection.crisis import find_crisis, highest
from ser_toolkit.protection.crisis_concepts import find_combinations
from ser_toolkit.protection.tables import table
from ser_toolkit.schema import Lang


def test_every_concept_of_a_combination_is_listed_in_both_languages():
    tree = table("crisis_concepts")
    used = set(tree["deniable"].split())
    for lines in tree["combinations"].values():
        for line in filter(None, lines.split("\n")):
            used |= set(line.removeprefix("high: ").replace("!", " ").replace("+", " ").replace("|", " ").split())
    for lang in ("en", "zh"):
        assert used <= set(tree[lang]), used - set(tree[lang])


@pytest.mark.parametrize(
    ("text", "lang", "level"),
    [
        ("I've been stashing the tablets from the hospital.", "en", "high"),
        ("The tablets from the hospital, I've been stashing them.", "en", "high"),
        ("The pharmacy gave me the tablets.", "en", None),
        ("My kids would be better off with me out of the picture.", "en", "high"),
        ("He never hit me.", "en", None),
        ("In the film she hoards pills.", "en", None),
        ("我偷偷把安眠药攒起来。", "zh", "high"),
        ("安眠药我一直偷偷攒着。", "zh", "high"),
        ("没有我，孩子会过得更好。", "zh", "high"),
        ("他从来没打过我。", "zh", None),
    ],
)
def test_levels(text: str, lang: Lang, level: str | None):
    assert highest(s.level for s in find_crisis(text, lang)) == level


def test_what_stands_sentences_apart_is_not_put_together():
    far = "The tablets are here. " + "We talked about the garden and the weather for the whole of the afternoon. " * 4
    assert not [*find_combinations(f"{far} I stashed some money.".lower(), "en")]
