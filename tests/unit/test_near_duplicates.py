"""Texts that repeat one another are found one by one, as they are found all at once when splits are made."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ser_toolkit.near_duplicates import Repeats, opening_of, sketch
from ser_toolkit.releases.splits import check_leakage
from ser_toolkit.schema import Dialogue, Source, Turn

WORDS = """
moon river stone tired evening mother letter garden sorry alone winter promise hurry window silence bread
"""


def text(seed, words=60):
    return " ".join(random.Random(seed).choices(WORDS.split(), k=words))


def changed(text, share, seed=0):
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS.split()) if draw.random() < share else w for w in text.split())


def dialogue(id, opening, rest):
    turns = (Turn(speaker="seeker", text=opening), Turn(speaker="supporter", text=rest))
    return Dialogue(id=id, root_id=id, lang="en", source=Source(format="x"), turns=turns)


def test_a_copy_is_known_by_its_words_or_its_opening():
    seen = Repeats()
    assert seen.take("a", text(1), "one") is None
    assert seen.take("b", text(2), "two") is None
    near = seen.take("c", changed(text(1), 0.02), "three")
    assert near is not None and (near.id, near.reason) == ("a", "near duplicate")
    same = seen.take("d", text(4), "two")
    assert same is not None and (same.id, same.reason) == ("b", "same opening")
    assert seen.take("e", text(4), "four") is None, "what was rejected is not remembered"
    assert seen.take("f", text(5), "") is None and seen.take("g", text(6), "") is None, "no opening is nobody's"


def test_punctuation_spacing_width_and_case_do_not_count_in_either_language():
    seen = Repeats()
    assert seen.take("a", "孩子上了初中，就不跟我说话了！以前什么都聊。", "") is None
    assert seen.take("b", "孩子上了初中就不跟我说话了 以前什么都聊", "") is not None
    assert seen.take("c", "Hello?! I lost  my JOB, last week.", "") is None
    assert seen.take("d", "hello i lost my job last week", "") is not None
    assert opening_of(["Hi there!", "I lost my job."]) == opening_of(["I lost my job"])


@pytest.mark.parametrize("near", [0.6, 0.8])
def test_hardly_a_pair_above_the_threshold_is_missed_and_none_below_is_taken(near):
    missed = wrong = above = 0
    for seed in range(120):
        one, other = text(seed), changed(text(seed), random.Random(seed).choice((0.02, 0.05, 0.1, 0.3)), seed)
        a, b = sketch(one, "a"), sketch(other, "b")
        alike = sum(x == y for x, y in zip(a, b, strict=True)) / len(a)
        seen = Repeats(near)
        seen.take("a", one, "")
        found = seen.take("b", other, "") is not None
        above += alike >= near
        missed += alike >= near and not found
        wrong += alike < near and found
    assert above > 20 and wrong == 0 and missed <= 0.02 * above


@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from((0.0, 0.01, 0.5))), max_size=14))
def test_what_is_taken_in_holds_no_group_that_splits_would_find(made):
    seen = Repeats()
    kept = []
    for n, (seed, share) in enumerate(made):
        one = dialogue(f"d{n}", f"Opening {seed if share == 0 else n} of it all.", changed(text(seed, 80), share, n))
        if seen.take_dialogue(one) is None:
            kept.append(one)
    splits = {d.id: ("train", "test")[n % 2] for n, d in enumerate(kept)}
    report = check_leakage(kept, splits)
    assert report.groups == report.dialogues == len(kept)


def test_it_is_quick():
    seen = Repeats()
    began = time.process_time()
    for n in range(1500):
        seen.take(f"d{n}", text(n, 80), f"opening {n}")
    assert time.process_time() - began < 8, "about 1.5 ms for each, though all are alike somewhat"
