"""Sparse Gaussian sampling of rounds (METHOD 1.3)."""

import math
from collections import Counter
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.stages.sample import Round, draw_rounds, drawn_rounds, keep_drawn, rounds_of, weights
from ser_toolkit.recipe import Recipe, Sample
from ser_toolkit.schema import Dialogue, Source, Turn


def dialogue(speakers: str, id: str = "d") -> Dialogue:
    """ "sp" is a seeker's turn, then a supporter's; each text is its index."""
    turns = tuple(Turn(speaker="seeker" if s == "s" else "supporter", text=str(i)) for i, s in enumerate(speakers))
    return Dialogue(id=id, root_id=id, lang="en", source=Source(format="x"), turns=turns)


@pytest.mark.parametrize(
    ("speakers", "rounds"),
    [
        ("spsp", [Round(1, 0, 1, 2, "1"), Round(2, 2, 3, 4, "3")]),
        ("sspp", [Round(1, 0, 2, 4, "2\n3")]),
        ("psp", [Round(1, 1, 2, 3, "2")]),
        ("pspsss", [Round(1, 1, 2, 3, "2")]),
        ("pp", []),
        ("ss", []),
        ("s", []),
    ],
)
def test_a_round_is_a_seekers_block_and_the_answer_to_it(speakers, rounds):
    assert rounds_of(dialogue(speakers)) == rounds


@given(st.text("sp", min_size=1, max_size=30))
def test_every_round_answers_a_seeker(speakers):
    talk = dialogue(speakers)
    rounds = rounds_of(talk)
    assert [r.number for r in rounds] == list(range(1, len(rounds) + 1))
    for r in rounds:
        assert talk.turns[r.target].speaker == "supporter" and talk.turns[r.target - 1].speaker == "seeker"
        assert all(t.speaker == "supporter" for t in talk.turns[r.target : r.end])
        assert r.reference == "\n".join(t.text for t in talk.turns[r.target : r.end])


def test_weights_are_the_papers_gaussian():
    assert weights(4) == pytest.approx([math.exp(-0.5), 1.0, math.exp(-0.5), math.exp(-2.0)])
    assert weights(1) == pytest.approx([math.exp(-2.0)])
    assert weights(0) == () and draw_rounds(0, 3, 1) == []


@given(st.integers(0, 40), st.integers(1, 8), st.integers(0, 2**31 - 1))
def test_draws_are_unique_ordered_and_repeatable(n_rounds, n_draw, seed):
    drawn = draw_rounds(n_rounds, n_draw, seed)
    assert len(drawn) == min(n_rounds, n_draw) == len(set(drawn))
    assert drawn == sorted(drawn) and set(drawn) <= set(range(1, n_rounds + 1))
    assert drawn == draw_rounds(n_rounds, n_draw, seed)


def chance_in(n_rounds: int, n_draw: int) -> list[float]:
    """The exact chance of each round to be among the drawn: all orders of drawing without replacement, summed."""
    mu, sigma = n_rounds / 2, n_rounds / 4
    w = [math.exp(-((i - mu) ** 2) / (2 * sigma**2)) for i in range(1, n_rounds + 1)]
    chances = [0.0] * n_rounds
    for order in permutations(range(n_rounds), n_draw):
        p, left = 1.0, sum(w)
        for i in order:
            p *= w[i] / left
            left -= w[i]
        for i in order:
            chances[i] += p
    return chances


@pytest.mark.parametrize(("n_rounds", "n_draw"), [(6, 1), (8, 3)])
def test_rounds_are_drawn_as_often_as_stated(n_rounds, n_draw):
    draws = 8000
    counts = Counter(r for seed in range(draws) for r in draw_rounds(n_rounds, n_draw, seed))
    for number, p in enumerate(chance_in(n_rounds, n_draw), 1):
        deviation = math.sqrt(p * (1 - p) / draws)
        assert abs(counts[number] / draws - p) < 4 * deviation


def test_the_draw_hangs_on_the_dialogue_and_the_recipes_seed():
    def numbers(id: str, seed: int) -> tuple[int, ...]:
        return tuple(r.number for r in drawn_rounds(dialogue("sp" * 30, id), Recipe(seed=seed)))

    assert numbers("a", 0) == numbers("a", 0) and len(numbers("a", 0)) == 3
    assert len({numbers(f"d{i}", 0) for i in range(20)}) > 10
    assert len({numbers("a", seed) for seed in range(20)}) > 10


def test_the_drawn_rounds_may_be_the_only_history():
    talk = dialogue("p" + "sp" * 9)
    recipe = Recipe(sample=Sample(rounds=2, keep="history"))
    first, second = drawn_rounds(talk, recipe)
    kept = keep_drawn(talk, recipe)
    assert kept.turns == talk.turns[first.start : first.end] + talk.turns[second.start : second.end]
    assert [r.reference for r in rounds_of(kept)] == [first.reference, second.reference]
    assert "only_drawn_rounds" in kept.flags
