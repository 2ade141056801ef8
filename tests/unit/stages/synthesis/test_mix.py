"""Scenarios drawn to a target mix: within a tenth of every share where that can be had, told where it cannot."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pipelines.stages.synthesis.mix import cell_of, plan_draws
from pipelines.stages.synthesis.mix_notes import shortfalls
from pipelines.stages.synthesis.mix_program import is_met, whole_numbers
from ser_toolkit.recipe_synthesis import Mix, Synthesize
from tests.synthesis_samples import labelled

PROBLEMS, EMOTIONS, INTENSITIES = ("work", "family", "health"), ("Anxiety", "Sadness", "Anger"), ("Mild", "Intense")
CELLS = st.tuples(st.sampled_from(PROBLEMS), st.sampled_from(EMOTIONS), st.sampled_from(INTENSITIES))
SEEDS = st.lists(CELLS, min_size=1, max_size=12)
FEW = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def scenarios(cells, lang="en"):
    return [labelled(f"s{n}", lang, *cell) for n, cell in enumerate(cells)]


def shares_of(plan):
    return {d: dict(counts) for d, counts in plan.shares().items()}


def missed(plan, wanted):
    """The named shares that the plan does not meet."""
    made = plan.shares()
    named = [(d, w, share) for d, shares in wanted.mix.dimensions() for w, share in shares.items()]
    return [(d, w) for d, w, share in named if not is_met(made[d][w], share, plan.count)]


def notes(plan, wanted):
    made = Counter({(d, w): n for d, counts in plan.shares().items() for w, n in counts.items()})
    return list(shortfalls(plan, wanted, made, plan.count))


@FEW
@given(SEEDS, st.data())
def test_a_mix_that_the_scenarios_can_give_is_met_to_a_tenth(cells, data):
    """Any numbers of dialogues from the scenarios make shares; asked for those shares, they are met."""
    times = data.draw(st.lists(st.integers(0, 30), min_size=len(cells), max_size=len(cells)))
    total = sum(times)
    assume(total)
    mix = {}
    for n, dimension in enumerate(("problem", "emotion", "intensity")):
        counts = Counter()
        for cell, number in zip(cells, times, strict=True):
            counts[cell[n]] += number
        named = data.draw(st.sets(st.sampled_from(sorted(counts))))
        mix[dimension] = {word: counts[word] / total for word in named}
    wanted = Synthesize(count=total, per_scenario=max(times), mix=Mix(**mix), invent=False)
    plan = plan_draws(scenarios(cells), wanted, 0)
    assert len(plan.draws) == plan.count == total
    assert missed(plan, wanted) == [] and notes(plan, wanted) == []
    assert max(Counter(d.scenario.id for d in plan.draws).values()) <= max(times)


@st.composite
def any_mix(draw):
    mix = {}
    for dimension, words in (("problem", (*PROBLEMS, "grief")), ("emotion", EMOTIONS), ("intensity", INTENSITIES)):
        named = draw(st.lists(st.sampled_from(words), unique=True))
        weights = [draw(st.integers(0, 20)) for _ in named]
        rest = draw(st.integers(0, 10))
        whole = sum(weights) + rest
        mix[dimension] = {w: n / whole for w, n in zip(named, weights, strict=True)} if whole else {}
    return Mix(**mix)


@FEW
@given(st.lists(CELLS, max_size=8), any_mix(), st.integers(1, 120), st.integers(1, 4), st.booleans())
def test_any_target_over_any_scenarios_is_met_or_told(cells, mix, count, per_scenario, invent):
    wanted = Synthesize(count=count, per_scenario=per_scenario, mix=mix, invent=invent)
    plan = plan_draws(scenarios(cells), wanted, 7)
    said = notes(plan, wanted)
    assert plan.count == (count if invent else min(count, per_scenario * len(cells)))
    assert any("synthesize.count" in n for n in said) is (plan.count < count)
    off = missed(plan, wanted) if plan.count else []
    for dimension, word in off:
        assert any(f"for {dimension} {word!r}:" in n for n in said)
    assert len([n for n in said if "mix is not met" in n]) == len(off)
    if invent:  # whatever is missing can be written: only whole numbers stand in the way
        for dimension, word in off:
            share = getattr(mix, dimension)[word]
            assert abs(plan.shares()[dimension][word] - share * count) <= 1
            assert any(f"{word!r}" in n and "too few dialogues" in n for n in said)
    assert all(n <= per_scenario for n in Counter(d.scenario.id for d in plan.draws).values())
    assert len({d.dialogue_id for d in plan.draws}) == len(plan.draws)
    assert plan == plan_draws(scenarios(cells), wanted, 7)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=9), st.integers(1, 400))
def test_whole_numbers_sum_up_and_are_off_by_less_than_one(weights, total):
    shares = {str(n): w / sum(weights) for n, w in enumerate(weights)}
    made = whole_numbers(shares, total)
    assert sum(made.values()) == total
    assert all(abs(made[word] - share * total) < 1 for word, share in shares.items())


def test_a_share_that_rounding_down_would_miss_comes_first():
    made = whole_numbers({"a": 4.6 / 200, "b": 95.7 / 200, "c": 99.7 / 200}, 200)
    assert made["a"] == 5 and sum(made.values()) == 200


def test_without_a_count_each_scenario_is_played_so_often():
    found = scenarios([("work", "Anxiety", "Mild"), ("family", "Anger", "Intense")])
    plan = plan_draws(found, Synthesize(per_scenario=2), 0)
    assert [d.dialogue_id for d in plan.draws] == ["syn-s0", "syn-s0--2", "syn-s1", "syn-s1--2"]
    assert (plan.invented, plan.count) == ((), 4)


def test_a_count_without_a_mix_goes_round_the_scenarios_then_invents():
    found = scenarios([("work", "Anxiety", "Mild")] * 3)
    plan = plan_draws(found, Synthesize(count=5, per_scenario=2), 0)
    assert sorted(Counter(d.scenario.id for d in plan.draws).values()) == [1, 2, 2]
    assert [d.number for d in plan.draws] == [1, 1, 1, 2, 2], "each scenario first once"
    assert plan_draws(found, Synthesize(count=8, per_scenario=2), 0).invented == ({}, {})


def test_scenarios_are_taken_before_others_are_invented_and_evenly():
    found = scenarios([("work", "Anxiety", "Mild"), ("work", "Anger", "Mild"), ("family", "Sadness", "Mild")])
    wanted = Synthesize(count=10, per_scenario=1, mix=Mix(problem={"work": 0.2, "family": 0.8}))
    plan = plan_draws(found, wanted, 0)
    assert len(plan.draws) == 3 and list(plan.invented) == [{"problem": "family"}] * 7
    wanted = Synthesize(count=40, per_scenario=50, mix=Mix(problem={"work": 0.5, "family": 0.5}))
    plan = plan_draws(found, wanted, 0)
    assert Counter(d.scenario.id for d in plan.draws) == {"s0": 10, "s1": 10, "s2": 20} and plan.invented == ()


def test_words_are_compared_without_case_and_hyphens_and_unnamed_ones_are_a_rest():
    mix = Mix(problem={"Job-loss": 0.5}, emotion={"anxiety": 1}, lang={"zh": 0.5})
    assert mix.emotion == {"Anxiety": 1}
    assert cell_of(labelled("a", "zh", "job loss", "Anxiety"), mix) == ("Job-loss", "Anxiety", "zh")
    assert cell_of(labelled("b", "en", "exam"), mix) == (None, None, None)


def test_what_the_scenarios_lack_is_told_with_the_cure():
    found = scenarios([("work", "Anxiety", "Mild"), ("work", "Anger", "Mild")])
    wanted = Synthesize(count=20, per_scenario=10, mix=Mix(problem={"work": 0.5, "family": 0.5}), invent=False)
    said = notes(plan_draws(found, wanted, 0), wanted)
    assert any("'family': 0 of 20 dialogues (0.0%, asked 50.0%)" in n and "synthesize.invent" in n for n in said)
    wanted = wanted.model_copy(update={"count": 30})
    assert "asks for 30 dialogues, the scenarios give 20" in notes(plan_draws(found, wanted, 0), wanted)[0]


def test_a_large_mix_of_five_dimensions_is_quick():
    import random
    import time

    draw = random.Random(3)
    words = {
        "problem": [f"p{n}" for n in range(10)], "emotion": ["Anxiety", "Sadness", "Anger", "Fear", "Shame"],
        "intensity": ["Mild", "Moderate", "Intense"], "culture": ["a", "b", "c", "d"], "lang": ["en", "zh"],
    }  # fmt: skip
    found = [
        labelled(f"s{n}", **{d: draw.choice(w) for d, w in words.items()})  # type: ignore[arg-type]
        for n in range(300)
    ]
    mix = {}
    for dimension, known in words.items():
        weights = [draw.random() + 0.05 for _ in known]
        mix[dimension] = {w: x / sum(weights) for w, x in zip(known, weights, strict=True)}
    wanted = Synthesize(count=2000, per_scenario=20, mix=Mix(**mix))
    began = time.process_time()
    plan = plan_draws(found, wanted, 0)
    assert time.process_time() - began < 20
    assert plan.count == 2000 and missed(plan, wanted) == [] and len(plan.draws) >= 1700


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_share_too_small_for_the_count_is_told_as_such(count):
    wanted = Synthesize(count=count, mix=Mix(emotion={"Shame": 0.04, "Anger": 0.96}))
    said = notes(plan_draws([], wanted, 0), wanted)
    assert any("'Shame'" in n and "too few dialogues for so small a share" in n for n in said)
