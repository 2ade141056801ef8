"""What is found in hand-marked sentences, how much of it, and how much beside it."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ser_toolkit.protection.identifiers import has_iban_check, has_luhn, is_date
from ser_toolkit.protection.pii import find_pii
from ser_toolkit.schema import Lang
from tests.unit.protection.marked import is_covered, is_right, read_marked

LANGS: tuple[Lang, ...] = ("en", "zh")
SETS = ("pii", "pii2", "pii3")


def measured(lang: Lang) -> dict[str, float]:
    """Recall of names, of all else, of all; precision over all texts, those without anything private included."""
    found = {True: 0, False: 0}
    all_ = {True: 0, False: 0}
    right = wrong = 0
    for name in SETS:
        texts, none = read_marked(name, lang)
        for text, gold in texts:
            spans = find_pii(text, lang)
            for g in gold:
                all_[g.kind == "name"] += 1
                found[g.kind == "name"] += is_covered(g, spans)
            right += sum(is_right(s, gold) for s in spans)
            wrong += sum(not is_right(s, gold) for s in spans)
        wrong += sum(len(find_pii(text, lang)) for text in none)
    return {
        "names": found[True] / all_[True],
        "others": found[False] / all_[False],
        "all": sum(found.values()) / sum(all_.values()),
        "precision": right / (right + wrong),
    }


def test_recall_and_precision_in_english():
    m = measured("en")
    assert m["names"] >= 0.97, m
    assert m["others"] >= 0.98, m
    assert m["all"] >= 0.95, m
    assert m["precision"] >= 0.97, m


def test_recall_and_precision_in_chinese():
    m = measured("zh")
    assert m["names"] >= 0.90, m
    assert m["others"] >= 0.98, m
    assert m["all"] >= 0.95, m
    assert m["precision"] >= 0.97, m


@pytest.mark.parametrize("lang", LANGS)
def test_the_sets_are_large_enough_to_mean_something(lang: Lang):
    sets = [read_marked(name, lang) for name in SETS]
    assert sum(len(gold) for texts, _ in sets for _, gold in texts) >= 160
    assert sum(len(none) for _, none in sets) >= 150


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("My name is Tom Becker.", ["name"]),
        ("I'm sarah, call 415-555-2671 or write s.b@example.org", ["name", "phone", "email"]),
        ("Ring 988, or in the UK 116 123.", []),
        ("微信号：xiaoyu_0618，电话13812345678", ["handle", "phone"]),
        ("我叫王小明，住在北京市朝阳区建国路88号院2号楼1203室", ["name", "address"]),
        ("请拨打12356，紧急时打110。", []),
        ("[NAME_1] told [NAME_2] to call [PHONE_1].", []),
        ("", []),
    ],
)
def test_kinds_in_order(text: str, kinds: list[str]):
    lang: Lang = "zh" if any("\u4e00" <= c <= "\u9fff" for c in text) else "en"
    assert [s.kind for s in find_pii(text, lang)] == kinds


@pytest.mark.parametrize(
    "text",
    [
        "Will you help me? May I ask? Grace is a virtue, hope too.",
        "I read Freud and watched Harry Potter with Taylor Swift playing.",
        "In April I flew from Austin to Florence, then to Sydney.",
        "God, my Mom and my Dad are divorced.",
    ],
)
def test_words_places_months_and_public_names_stay(text: str):
    assert find_pii(text, "en") == []


def test_a_public_name_is_private_where_someone_says_it_is_theirs():
    text = "My name is Taylor Swift, believe it or not."
    assert [text[s.start : s.end] for s in find_pii(text, "en")] == ["Taylor Swift"]


def test_identity_numbers_are_found_whatever_their_check_digit():
    for number in ("11010519491231002X", "110105194912310021"):
        assert [s.kind for s in find_pii(f"身份证{number}", "zh")] == ["id"]


def test_checks():
    assert has_luhn("4111 1111 1111 1111") and not has_luhn("4111 1111 1111 1112") and not has_luhn("4111")
    assert has_iban_check("DE89 3704 0044 0532 0130 00") and not has_iban_check("DE88 3704 0044 0532 0130 00")
    assert is_date("2021-03-14") and is_date("2005-2006") and not is_date("415-555-2671")


@given(st.text(max_size=200), st.sampled_from(LANGS))
def test_spans_are_in_order_and_inside_the_text(text: str, lang: Lang):
    at = 0
    for span in find_pii(text, lang):
        assert at <= span.start < span.end <= len(text)
        at = span.end


@given(st.text(string.ascii_letters + string.digits + " .,@-+()#/:'\n", max_size=120))
def test_no_ascii_text_makes_it_fail(text: str):
    find_pii(text, "en")
