"""The recipe's section on synthesis: what is typed wrong is told with its place and its cure."""

import pytest

from ser_toolkit.errors import UsageError
from ser_toolkit.recipe import load_recipe


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("  mix: {problem: {work: 0.7, family: 0.5}}\n", r"line 3: synthesize\.mix\.problem: the shares sum to 1\.2"),
        ("  mix: {problem: {work: -0.1}}\n", r"synthesize\.mix\.problem: each share is a number from 0 to 1"),
        ("  mix: {problem: {work: much}}\n", r"synthesize\.mix\.problem\.work: must be a number"),
        ("  mix: {emotion: {Gloom: 1}}\n", r"synthesize\.mix\.emotion: unknown: Gloom; known: Joy, Trust"),
        ("  mix: {lang: {fr: 1}}\n", r"synthesize\.mix\.lang: unknown: fr; known: en, zh"),
        ("  mix: {problem: {a b: 0.1, A-b: 0.1}}\n", r"synthesize\.mix\.problem: a word stands there twice"),
        ("  mix: {problems: {work: 1}}\n", r"line 3: unknown key 'synthesize\.mix\.problems'"),
        ("  mode: chat\n", r"synthesize\.mode: must be one of: turns, whole"),
        ("  near: 0.2\n", r"synthesize\.near: must be greater than or equal to 0\.5"),
        ("  stock_phrases: {fr: x.txt}\n", r"synthesize\.stock_phrases\.fr"),
    ],
)
def test_a_wrong_section_is_told_with_its_line(tmp_path, text, says):
    (tmp_path / "ser.yaml").write_text(f"synthesize:\n  count: 5\n{text}", encoding="utf-8")
    with pytest.raises(UsageError, match=says) as caught:
        load_recipe(tmp_path)
    assert caught.value.hint


def test_a_mix_needs_a_count(tmp_path):
    with pytest.raises(UsageError, match=r"set synthesize\.count"):
        load_recipe(tmp_path, ["synthesize.mix.problem.work=0.5"])
    made = load_recipe(tmp_path, ["synthesize.mix.problem.work=0.5", "synthesize.count=10"]).synthesize
    assert dict(made.mix.dimensions()) == {"problem": {"work": 0.5}}


def test_words_of_the_taxonomy_are_read_in_any_case(tmp_path):
    sets = ["synthesize.count=4", "synthesize.mix={emotion: {anxiety: 0.5}, intensity: {INTENSE: 1}, lang: {ZH: 1}}"]
    mix = load_recipe(tmp_path, sets).synthesize.mix
    assert (mix.emotion, mix.intensity, mix.lang) == ({"Anxiety": 0.5}, {"Intense": 1}, {"zh": 1})
