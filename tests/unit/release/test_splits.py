"""Splits that do not leak (FIELD_CASES C4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ser_toolkit import load_release
from ser_toolkit.near_duplicates import normalise, opening_key
from ser_toolkit.releases.splits import SPLITS, assign_splits, check_leakage, split_of
from ser_toolkit.schema import Dialogue
from tests.unit.release.making import crowd, dialogue, make, six, trace

RATIOS = (0.8, 0.1, 0.1)
HALVES = (0.4, 0.3, 0.3)


def spread(dialogues: list[Dialogue], suffix: int) -> list[Dialogue]:
    """The same dialogues under other ids, so that they hash elsewhere."""
    return [d.model_copy(update={"id": f"{d.id}.{suffix}", "root_id": f"{d.root_id}.{suffix}"}) for d in dialogues]


def test_c4_three_groups_of_six_dialogues():
    report = assign_splits(six(), RATIOS).report
    assert (report.groups, report.dialogues) == (3, 6)
    assert str(report).startswith("3 groups / 6 dialogues")


@pytest.mark.parametrize("suffix", range(20))
def test_c4_copies_that_remain_are_in_one_split_and_the_others_are_listed(suffix: int):
    dialogues = spread(six(), suffix)
    made = assign_splits(dialogues, HALVES)
    for group in ("o1", "o3"):
        ids = [d.id for d in dialogues if d.id.startswith(group)]
        natural = {split_of(i, HALVES) for i in ids}
        strictest = max(natural, key=SPLITS.index)
        assert {made.splits[i] for i in ids if i in made.splits} == {strictest}
        left = {c.id: c for c in made.copies if c.id in ids}
        assert set(left) == {i for i in ids if split_of(i, HALVES) != strictest}
        assert all(c.like_split == strictest and made.splits[c.like] == strictest for c in left.values())
        assert all(c.split == split_of(c.id, HALVES) and "same opening" in c.reasons for c in left.values())
    assert made.splits[f"o2.{suffix}"] == split_of(f"o2.{suffix}", HALVES)
    assert not check_leakage(dialogues, made.splits).straddling


def test_c4_some_of_those_spreads_do_straddle():
    assert sum(bool(assign_splits(spread(six(), n), HALVES).copies) for n in range(20)) > 10


def test_c4_a_hand_made_bad_split_names_both_groups():
    bad = {"o1a": "train", "o1b": "train", "o1c": "test", "o2": "test", "o3a": "train", "o3b": "validation"}
    report = check_leakage(six(), bad)
    assert [g.ids for g in report.straddling] == [("o1a", "o1b", "o1c"), ("o3a", "o3b")]
    assert "o1c" in str(report) and "o3b" in str(report) and "o2" not in str(report)


def test_a_greeting_alone_ties_nothing_together():
    greeted = [
        dialogue("a", "Hi!", "Hello, how are you?", "Hello, I'm fine. My exam went badly.", "Oh no."),
        dialogue("b", "Hi!", "Hello, how are you?", "My landlord threw me out.", "Oh no."),
        dialogue("c", "hello there, how are you doing today?", "Fine.", "My brother is ill.", "Oh no."),
        dialogue("f", "Fine, what about you?", "Fine.", "I sleep badly these days.", "Oh no."),
        dialogue("g", "I'm good, and you?", "Fine.", "My thesis is going nowhere.", "Oh no."),
        dialogue("h", "Fine, what about you?", "Fine.", "Nobody calls me any more.", "Oh no."),
        dialogue("d", "你好", "你好，请讲。", "我最近总是睡不着。", "多久了？", lang="zh"),
        dialogue("e", "你好", "你好，请讲。", "男朋友和我分手了。", "一定很难过。", lang="zh"),
    ]
    assert assign_splits(greeted, RATIOS).report.groups == 8


def test_a_greeting_before_the_same_words_changes_nothing():
    assert opening_key(dialogue("a", "Hi there! I lost my job.")) == opening_key(dialogue("b", "I lost my job"))


def test_a_short_chinese_opening_counts():
    assert opening_key(dialogue("a", "我失恋了", "嗯", "很久了", lang="zh")) == "我失恋了"


def test_seekers_who_say_nothing_of_their_own_are_compared_by_all_they_say():
    pair = [dialogue("a", "Hi", "Tell me."), dialogue("b", "hi.", "What is it?"), dialogue("c", "Hello", "Yes?")]
    assert assign_splits(pair, RATIOS).report.groups == 2


def test_near_duplicates_with_another_opening_are_one_group():
    long = [
        "I am sorry. Since when has it been like that for you?",
        "Since the merger in spring. They moved my desk into the corridor, and lunch is the worst half hour of my day.",
        "Half an hour can be endless. Is there one person there whom you still trust a little?",
        "Maybe the woman from accounting, but she leaves in June and then I will be quite alone.",
        "Then June frightens you already. What would you like to tell her before she goes?",
    ]
    a = dialogue("a", "Work is cold and strange.", *long)
    b = dialogue("b", "The office is a cold place.", *long)
    report = check_leakage([a, b, *crowd(20)], {"a": "train", "b": "test", **{f"d{n:03}": "train" for n in range(20)}})
    assert [(g.ids, g.reasons) for g in report.straddling] == [(("a", "b"), ("near duplicate",))]
    assert report.groups == 21


def test_a_rewrite_of_a_copy_goes_with_it():
    """b copies a (in test); b's rewrite is worded anew, yet says the same: it may not stay in train."""
    ids = [f"x{n}" for n in range(200)]
    a = next(i for i in ids if split_of(i, HALVES) == "test")
    b = next(i for i in ids if split_of(i, HALVES) == "train")
    made = assign_splits(
        [
            dialogue(a, "I lost my job today.", "Oh."),
            dialogue(b, "I lost my job today!", "How come?"),
            dialogue(f"{b}-r", "They fired me this morning.", "Why?", root_id=b, rewritten_from=b),
        ],
        HALVES,
    )
    assert made.splits == {a: "test"}
    assert {c.id for c in made.copies} == {b, f"{b}-r"}


def test_unlike_dialogues_all_stay_and_the_shares_are_kept():
    made = assign_splits(crowd(600), RATIOS)
    assert not made.copies and made.report.groups == 600
    counts = {s: list(made.splits.values()).count(s) for s in SPLITS}
    assert abs(counts["train"] - 480) < 40 and abs(counts["test"] - 60) < 30


def test_order_changes_nothing():
    forward, backward = assign_splits(crowd(50), RATIOS), assign_splits(crowd(50)[::-1], RATIOS)
    assert forward.splits == backward.splits


def test_hash_values_are_fixed_for_ever():
    """Written down once: a change here would move rows of releases that people have trained on."""
    known = {
        "train": ["esconv-0", "esconv-1", "esconv-2"],
        "validation": ["esconv-12", "esconv-16", "esconv-20"],
        "test": ["esconv-5", "esconv-37", "esconv-58"],
    }
    assert all(split_of(i, RATIOS) == split for split, ids in known.items() for i in ids)


@given(st.text(min_size=1, max_size=40), st.integers(0, 10), st.integers(0, 10))
def test_one_root_one_split_and_zero_shares_stay_empty(root: str, a: int, b: int):
    total = a + b or 1
    ratios = (a / total if a + b else 1.0, b / total, 0.0)
    assert split_of(root, ratios) == split_of(root, ratios)
    assert split_of(root, ratios) != "test"
    assert split_of(root, (0.0, 0.0, 1.0)) == "test"


@given(st.text("abcXYZ019 我你心情,.!?", max_size=40), st.sampled_from(" ,.!…，。！～-\n"))
def test_spacing_punctuation_case_and_width_do_not_count(text: str, sign: str):
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)
    assert normalise(sign.join(text)) == normalise(text) == normalise(wide) == normalise(text.upper())


SHARES = st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 8)).filter(any)
WORDS = ("my boss shouts", "I cannot sleep", "the flat is empty", "she moved out", "我很累", "睡不着")


@st.composite
def families(draw: st.DrawFn) -> list[Dialogue]:
    """Dialogues, some of which say the same as others, each with rewrites and rewrites of rewrites, in any order."""
    made: list[Dialogue] = []
    for n in range(draw(st.integers(1, 5))):
        root = dialogue(
            f"{draw(st.text('abz09', max_size=6))}-{n}", f"Day {draw(st.sampled_from(WORDS))}.", "Since when?"
        )
        made.append(root)
        for k in range(draw(st.integers(0, 3))):
            parent = draw(st.sampled_from([d for d in made if d.root_id == root.id]))
            said = f"{draw(st.sampled_from(WORDS))}, told anew {k} in {root.id}"
            made.append(dialogue(f"{root.id}-r{k}", said, "Oh?", root_id=root.id, rewritten_from=parent.id))
    return draw(st.permutations(made))


@given(families(), SHARES)
def test_a_family_is_never_split_whatever_the_shares(made: list[Dialogue], shares: tuple[int, int, int]):
    """A dialogue, its rewrites and theirs stand in one split, or are left out and listed; so do copies of it."""
    train, validation, test = (s / sum(shares) for s in shares)
    ratios = (train, validation, test)
    given = assign_splits(made, ratios)
    assert given.splits.keys() | {c.id for c in given.copies} == {d.id for d in made}
    assert not given.splits.keys() & {c.id for c in given.copies}
    assert not check_leakage(made, given.splits).straddling
    for family in {d.root_id for d in made}:
        ids = {d.id for d in made if d.root_id == family}
        assert {given.splits.get(i) for i in ids} in ({split_of(family, ratios)}, {None}), "whole, or not at all"
    for id, split in given.splits.items():
        assert shares[SPLITS.index(split)], f"{id} in a split without a share"


@pytest.mark.parametrize("ratios", [RATIOS, HALVES])
def test_traces_of_a_family_stand_where_it_stands(tmp_path, ratios):
    """The same of what a release holds: each trace beside its dialogue, a rewritten one beside its source."""
    made = []
    for root in crowd(20):
        rewritten = dialogue(f"{root.id}-r", f"Told anew: {root.turns[2].text}", "Oh?", root_id=root.id)
        made += [root, rewritten.model_copy(update={"rewritten_from": root.id})]
    source = {d.id: trace(d).id for d in made}
    traces = [trace(d).model_copy(update={"rewritten_from": source.get(d.rewritten_from or "")}) for d in made]
    release = load_release(make(tmp_path, made, traces=traces, ratios=ratios).path)
    where = {d["id"]: d["split"] for d in release.frame("dialogues").to_dicts()}
    found = {t["id"]: t for t in release.frame("traces").to_dicts()}
    assert len(found) == len(where) == 40 and len(set(where.values())) == 3
    for row in found.values():
        assert row["split"] == where[row["dialogue_id"]] == where[row["dialogue_id"].removesuffix("-r")]
        if row["rewritten_from"]:
            assert row["split"] == found[row["rewritten_from"]]["split"]
