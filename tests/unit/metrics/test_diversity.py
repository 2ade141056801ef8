import math
from itertools import combinations, pairwise

import numpy as np
import polars as pl
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from ser_toolkit.metrics.diversity import distinct_n, draw, embedding_diversity, self_bleu
from ser_toolkit.metrics.units import count_units, split_units

WORDS = st.sampled_from(["a", "b", "c", "d", "so", "it", "我", "很"])
TEXTS = st.lists(st.lists(WORDS, max_size=9), min_size=1, max_size=12)


def test_a_unit_is_a_word_or_a_chinese_character():
    texts = pl.Series("t", ["I don't know, 3 times!", "我很难过，ok？", "Ｎo　ＷＡＹ", "  ...  ", "naïve café"])
    assert split_units(texts).to_list() == [
        ["i", "don't", "know", "3", "times"],
        ["我", "很", "难", "过", "ok"],
        ["no", "way"],
        [],
        ["naïve", "café"],
    ]
    assert texts.to_frame().select(count_units("t"))["t"].to_list() == [5, 5, 2, 0, 2]


def test_distinct_n_by_hand():
    units = pl.Series([["a", "b", "a", "b"], ["a", "b", "c"]])
    assert distinct_n(units) == {1: 3 / 7, 2: 3 / 5, 3: 3 / 3}
    assert distinct_n(pl.Series([["a"], ["b"]])) == {1: 1.0, 2: None, 3: None}, (
        "no text has two units: missing, not zero"
    )
    assert distinct_n(pl.Series([[], []], dtype=pl.List(pl.String))) == {1: None, 2: None, 3: None}


@given(TEXTS)
def test_distinct_n_is_what_counting_gives(texts):
    found = distinct_n(pl.Series(texts, dtype=pl.List(pl.String)), (1, 2, 3))
    for n in (1, 2, 3):
        grams = [tuple(t[i : i + n]) for t in texts for i in range(len(t) - n + 1)]
        assert found[n] == (len(set(grams)) / len(grams) if grams else None)


@given(st.lists(st.lists(WORDS, min_size=1, max_size=9), min_size=2, max_size=8))
def test_self_bleu_is_sacrebleu_of_each_text_with_all_others(texts):
    bleu = sacrebleu.BLEU(smooth_method="floor", smooth_value=0.1, effective_order=True, tokenize="none")
    scores = [
        bleu.sentence_score(" ".join(t), [" ".join(o) for j, o in enumerate(texts) if j != i]).score / 100
        for i, t in enumerate(texts)
    ]
    assert self_bleu(texts) == pytest.approx(sum(scores) / len(scores), abs=1e-9)


def test_self_bleu_of_one_text_is_missing_and_of_equal_texts_is_one():
    assert self_bleu([["a", "b"], []]) is None
    assert self_bleu([["a", "b", "c", "d", "e"]] * 3) == pytest.approx(1.0)


def test_embedding_diversity_is_the_mean_distance_of_all_pairs():
    vectors = np.random.default_rng(1).normal(size=(12, 5))
    pairs = combinations(vectors, 2)
    distances = [1 - float(a @ b) / math.sqrt(float(a @ a) * float(b @ b)) for a, b in pairs]
    assert embedding_diversity(vectors) == pytest.approx(sum(distances) / len(distances))
    assert embedding_diversity(np.array([[1.0, 0.0], [0.0, 0.0]])) is None, "a zero vector has no direction"


@given(st.integers(0, 60), st.integers(1, 60), st.integers(0, 5))
def test_a_draw_is_of_its_size_ascending_and_hangs_on_the_seed_alone(count, size, seed):
    drawn = draw(count, size, seed)
    assert len(drawn) == min(count, size) and all(a < b for a, b in pairwise(drawn))
    assert set(drawn) <= set(range(count)) and drawn == draw(count, size, seed)
