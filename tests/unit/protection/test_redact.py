"""Placeholders: one for each person, the rest untouched, nothing kept."""

from __future__ import annotations

import logging
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ser_toolkit.protection.redact import Redactor
from ser_toolkit.protection.spans import PLACEHOLDER
from ser_toolkit.schema import Lang
from tests.unit.protection.marked import read_marked

LANGS: tuple[Lang, ...] = ("en", "zh")


def redact(*texts: str, lang: Lang = "en") -> list[str]:
    return Redactor(lang).redact_all(texts)


def test_one_person_has_one_placeholder_throughout():
    assert redact("I'm Sarah Miller.", "SARAH, is Miller your name?", "sarah's dog", "Ms. Miller called.") == [
        "I'm [NAME_1].",
        "[NAME_1], is [NAME_1] your name?",
        "[NAME_1]'s dog",
        "Ms. [NAME_1] called.",
    ]


def test_what_a_later_text_tells_holds_in_an_earlier_one():
    assert redact("I think Xiomara hates me.", "My boss Xiomara yells.")[0] == "I think [NAME_1] hates me."


def test_two_people_who_share_a_name_are_kept_apart():
    first, second, bare = redact("My son Tom Becker is ill.", "My boss Tom Miller is not.", "I saw Tom again.")
    assert (first, second) == ("My son [NAME_1] is ill.", "My boss [NAME_2] is not.")
    assert bare == "I saw [NAME_3] again."


def test_an_ordinary_word_that_is_someones_name_stays_a_word_elsewhere():
    assert redact("My boyfriend Will left.", "Will you help? When Will called, I cried.") == [
        "My boyfriend [NAME_1] left.",
        "Will you help? When [NAME_1] called, I cried.",
    ]


def test_chinese_people():
    texts = ["我叫林雨欣，我男友是李雷。", "雨欣，你好。林雨欣说李雷不好。", "小王和王老师也来了，小王哭了。"]
    assert redact(*texts, lang="zh") == [
        "我叫[NAME_1]，我男友是[NAME_2]。",
        "[NAME_1]，你好。[NAME_1]说[NAME_2]不好。",
        "[NAME_3]和[NAME_4]老师也来了，[NAME_3]哭了。",
    ]


def test_a_number_in_two_spellings_is_one():
    assert redact("Call 415-555-2671.", "It is (415) 555-2671!", "or 415-555-0199") == [
        "Call [PHONE_1].",
        "It is [PHONE_1]!",
        "or [PHONE_2]",
    ]


def test_numbers_of_an_earlier_redaction_are_not_given_again():
    assert redact("[NAME_1] met [NAME_4].", "My name is Tom.") == ["[NAME_1] met [NAME_4].", "My name is [NAME_5]."]


def test_a_field_that_is_private_as_a_whole():
    redactor = Redactor("en")
    redactor.know("quietwolf", "handle")
    redactor.know("jo ann", "name")
    assert redactor.redact_all(["quietwolf", "jo ann", "Jo came."]) == ["[HANDLE_1]", "[NAME_1]", "[NAME_1] came."]


def test_counts_by_kind():
    redactor = Redactor("en")
    redactor.redact_all(["I'm Tom, 415-555-2671.", "Tom again"])
    assert redactor.counts == {"name": 2, "phone": 1}


@pytest.mark.parametrize("lang", LANGS)
def test_redacting_twice_changes_nothing(lang: Lang):
    texts = [text for name in ("pii", "pii2", "pii3") for text, _ in read_marked(name, lang)[0]]
    once = [Redactor(lang).redact(text) for text in texts]
    assert [Redactor(lang).redact(text) for text in once] == once
    together = Redactor(lang).redact_all(texts)
    assert Redactor(lang).redact_all(together) == together


@pytest.mark.parametrize("lang", LANGS)
def test_text_without_anything_private_is_untouched(lang: Lang):
    redactor = Redactor(lang)
    texts = [t for t in read_marked("pii3", lang)[1] if "Chase" not in t]
    assert redactor.redact_all(texts) == texts
    assert not redactor.counts


BITS = st.sampled_from(
    (
        *("I'm Sarah", "Tom Becker", "my brother Will", "415-555-2671", "a.b@example.org", "@quiet.wolf_9"),
        *("22 Elm Street", "我叫王小明", "林雨欣", "小王", "王老师", "13812345678", "微信：wolf_2020"),
        *("[NAME_2]", "[PHONE_1]"),
    )
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(BITS, st.text(max_size=12)), max_size=8), st.sampled_from(LANGS))
def test_redaction_is_idempotent_and_leaves_the_rest(parts: list[str], lang: Lang):
    text = " ".join(parts)
    redactor = Redactor(lang)
    made = redactor.redact(text)
    assert redactor.redact(made) == made
    assert Redactor(lang).redact(made) == made
    at = 0
    for piece in PLACEHOLDER.split(made)[::3]:  # what stands between the placeholders stands in the text, in order
        found = text.find(piece, at)
        assert found >= 0
        at = found + len(piece)


def test_nothing_original_is_held_shown_or_logged(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    redactor = Redactor("en")
    redactor.know("Zebediah Quux", "name")
    redactor.redact_all(["I'm Zebediah Quux, 415-555-2671, zeb.quux@example.org, 22 Quux Street."])
    assert "uux" not in repr(redactor) and "555" not in repr(redactor)
    held = pickle.dumps([getattr(redactor, name) for name in redactor.__slots__])
    for secret in (b"uux", b"ebediah", b"2671", b"example.org"):
        assert secret not in held
    assert caplog.text == ""


def test_an_exception_shows_no_text(monkeypatch: pytest.MonkeyPatch):
    def broken(text: str, lang: str) -> list[object]:
        raise ValueError("broken")

    monkeypatch.setattr("ser_toolkit.protection.redact.find_pii", broken)
    with pytest.raises(ValueError) as caught:
        Redactor("en").redact("I'm Zebediah Quux.")
    assert "Quux" not in str(caught.value) and "Quux" not in repr(caught.value)


def test_lone_surrogates_are_survived():
    assert Redactor("zh").redact("我叫王小明\ud83d。") == "我叫[NAME_1]\ud83d。"


def test_no_table_grows_with_what_is_read():
    from ser_toolkit.protection import names_en, names_zh, tables

    caches = [f for m in (names_en, names_zh, tables) for f in vars(m).values() if hasattr(f, "cache_info")]
    read_marked("pii", "en")
    Redactor("zh").redact_all(
        ["I'm Sarah, 22 Elm Street, at https://x.com/u/me", "我叫王小明，微信：wolf_2020，电话13812345678"]
    )
    sizes = [f.cache_info().currsize for f in caches]
    Redactor("zh").redact_all(["I'm Zebediah Quux, hello Florentina Vex.", "我叫欧阳娜，我男友是武松林。"])
    assert [f.cache_info().currsize for f in caches] == sizes
