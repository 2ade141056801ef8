"""The composed reward: its order, what is absent and what is missing, redundancy by group, and that nothing waits."""

import asyncio
import time
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ser_toolkit.errors import RecordError, RemoteError, UsageError
from ser_toolkit.reasoning import render_trace
from ser_toolkit.rewards.base import Completion, RewardBreakdown, Scene
from ser_toolkit.rewards.composition import Component, Composer, Group, RewardRecipe, Rollout
from ser_toolkit.rewards.embeddings import CachedEmbedder
from ser_toolkit.rewards.redundancy import tau
from ser_toolkit.rewards.rules import EmotionReward, FunctionReward, load_function
from ser_toolkit.schema import Turn

SCENE = Scene("d1", "en", (Turn(speaker="seeker", text="I lost my job."),), reference="That is hard.")
BARE = Scene("d2", "en", ())


def whole(reply: str) -> str:
    return render_trace(("Job loss.", "Negative.", "Affirmation."), reply, "en")


@dataclass
class Fixed:
    """Scores by a completion's reply; an exception is raised, a number of seconds in `slow` waited for."""

    scores: dict[str, float | None]
    slow: float = 0.0
    error: Exception | None = None
    asked: list[int] = field(default_factory=list)

    async def score(self, scene, completions):
        self.asked.append(len(completions))
        await asyncio.sleep(self.slow)
        if self.error:
            raise self.error
        return [RewardBreakdown(self.scores.get(c.reply), {"inner": self.scores.get(c.reply)}) for c in completions]


class Words:
    """An embedder that counts: a dimension a word."""

    name = "words"

    def __init__(self, vocabulary="a b c d e f i lost my job."):
        self.vocabulary = vocabulary.split()
        self.seen: list[list[str]] = []

    def embed(self, texts):
        self.seen.append(list(texts))
        return np.array([[t.lower().split().count(w) for w in self.vocabulary] for t in texts], dtype=float)


def run(composer: Composer, *groups: Group):
    scored = asyncio.run(composer.judge(groups))
    return scored, composer.weigh(scored)


def values(composer: Composer, *replies: str, scene=SCENE, tokens=None):
    _, rewards = run(composer, Group(scene, tuple(Completion(whole(r), tokens) for r in replies)))
    return [r.value for r in rewards[0]]


def test_the_order_format_components_weights_then_length():
    recipe = RewardRecipe.model_validate({"format": 1.0, "length": {"penalty": 0.001, "free": 768}})
    composer = Composer(recipe, [Component("judge", Fixed({"a": 0.5}), 2.0), Component("seen", Fixed({"a": 9.0}), 0.0)])
    scored, rewards = run(composer, Group(SCENE, (Completion(whole("a"), 900), Completion("a", 10))))
    assert rewards[0][0].value == pytest.approx(1.0 + 2 * 0.5 - 0.132)
    assert scored[0][0].parts == {"format": 1.0, "judge": 0.5, "seen": 9.0}  # weight 0: logged, not counted
    assert scored[0][0].details["judge/inner"] == 0.5
    assert rewards[0][1].value == pytest.approx(0.0 + 1.0)  # no steps: the format's point is absent, and that is 0


def test_length_is_not_scaled_by_redundancy():
    recipe = {"redundancy": {"kind": "peer"}, "length": {"penalty": 0.1, "free": 0}}
    composer = Composer(RewardRecipe.model_validate(recipe), [Component("j", Fixed({"a b": 3.0}))], Words())
    free = recipe | {"length": {"penalty": 0.0}}
    plain = Composer(RewardRecipe.model_validate(free), [Component("j", Fixed({"a b": 3.0}))], Words())
    got, without = values(composer, "a b", "a b", tokens=5), values(plain, "a b", "a b", tokens=5)
    assert got == pytest.approx([w - 0.5 for w in without])


def test_missing_is_none_and_not_zero_and_names_its_trouble():
    for judge in (Fixed({"b": 1.0}), Fixed({}, error=RecordError("timeout", "gone"))):
        composer = Composer(RewardRecipe(format=1.0), [Component("j", judge, alone=True)])
        scored, rewards = run(composer, Group(SCENE, (Completion(whole("a")), Completion(whole("b")))))
        assert rewards[0][0].value is None and scored[0][0].parts["j"] is None
        assert scored[0][0].parts["format"] == 1.0
    assert scored[0][0].notes == ("j: timeout: gone",)


def test_what_fails_for_every_request_ends_the_step():
    composer = Composer(
        RewardRecipe(), [Component("j", Fixed({}, error=RemoteError("no key"))), Component("k", Fixed({}))]
    )
    with pytest.raises(RemoteError, match="no key"):
        values(composer, "a")


def test_slow_rewards_do_not_wait_for_one_another_and_one_past_its_time_is_missing():
    recipe = RewardRecipe(timeout_s=1.0)
    parts = [Component(n, Fixed({"a": 1.0}, slow=0.3), alone=True) for n in ("x", "y", "z")]
    began = time.monotonic()
    groups = [Group(SCENE, tuple(Completion(whole("a")) for _ in range(4)))] * 3
    _, rewards = run(Composer(recipe, parts), *groups)
    assert time.monotonic() - began < 0.9 and rewards[0][0].value == 3.0
    late = Composer(RewardRecipe(timeout_s=0.05), [Component("late", Fixed({"a": 1.0}, slow=5.0))])
    scored, rewards = run(late, Group(SCENE, (Completion(whole("a")),)))
    assert rewards[0][0].value is None and "timeout" in scored[0][0].notes[0]


def test_a_judge_that_takes_groups_is_asked_once_a_group():
    judge, single = Fixed({"a": 1.0}), Fixed({"a": 1.0})
    values(Composer(RewardRecipe(), [Component("g", judge), Component("s", single, alone=True)]), "a", "a")
    assert judge.asked == [2] and single.asked == [1, 1]


def test_redundancy_is_equations_3_to_5():
    composer = Composer(
        RewardRecipe.model_validate({"redundancy": {"kind": "peer"}}),
        [Component("j", Fixed({"i job.": 3.0, "a b": 3.0}))],
        Words(),
    )
    _, rewards = run(composer, Group(SCENE, (Completion(whole("i job.")), Completion(whole("a b")))))
    first, second = rewards[0]
    s_hi = 2 / np.sqrt(2 * 4)  # two words of the history's four
    assert (first.tau, first.s_hi, first.s_in) == pytest.approx((tau(2), s_hi, 0.0))
    assert first.value == pytest.approx(3 / (1 + tau(2) * s_hi)) and second.value == pytest.approx(3.0)


def test_a_group_of_one_an_empty_history_and_an_empty_reply_are_like_nothing():
    recipe = RewardRecipe.model_validate({"redundancy": {"kind": "peer"}})
    composer = Composer(recipe, [Component("j", Fixed({"a": 2.0, "": 1.0}))], Words())
    assert values(composer, "a", scene=BARE) == pytest.approx([2.0])
    _, rewards = run(composer, Group(BARE, (Completion("Step 1. x\nStep 4. "), Completion("Step 1. x\nStep 4. "))))
    assert [r.value for r in rewards[0]] == pytest.approx([1.0, 1.0])


def test_a_negative_reward_is_lowered_and_a_missing_one_stays_missing():
    recipe = RewardRecipe.model_validate({"redundancy": {"kind": "peer", "beta": -100}})
    composer = Composer(recipe, [Component("j", Fixed({"a": -1.0, "a a": 1.0}))], Words())
    assert values(composer, "a", "a a", "a b", scene=BARE)[2] is None
    low, high, _ = values(composer, "a", "a a", "a b", scene=BARE)
    assert low < -1 and 0 < high < 1


def test_the_mean_length_is_the_groups_or_the_batchs():
    groups = [Group(SCENE, (Completion(whole("a")),) * 2), Group(SCENE, (Completion(whole("a b c d e f")),) * 2)]
    for over, lengths in (("group", (1, 6)), ("batch", (3.5, 3.5))):
        recipe = RewardRecipe.model_validate({"redundancy": {"kind": "peer", "over": over}})
        _, rewards = run(Composer(recipe, [Component("j", Fixed({}))], Words()), *groups)
        assert [g[0].tau for g in rewards] == pytest.approx([tau(n) for n in lengths])


def test_chinese_is_measured_in_characters():
    recipe = RewardRecipe.model_validate({"redundancy": {"kind": "peer"}})
    scene = Scene("z", "zh", ())
    _, rewards = run(Composer(recipe, [Component("j", Fixed({}))], Words()), Group(scene, (Completion("慢慢 说吧"),)))
    assert rewards[0][0].tau == pytest.approx(tau(4))


def test_history_may_be_the_supporters_alone_and_the_whole_output_may_be_compared():
    scene = Scene("s", "en", (Turn(speaker="seeker", text="a"), Turn(speaker="supporter", text="b")))
    judge = [Component("j", Fixed({"a": 1.0}))]
    for history, expected in (("all", 0.5), ("supporter", 0.0)):
        recipe = RewardRecipe.model_validate({"redundancy": {"kind": "peer", "history": history}})
        _, rewards = run(Composer(recipe, judge, Words()), Group(scene, (Completion(whole("a")),)))
        assert rewards[0][0].s_hi == pytest.approx(expected)
    words = Words()
    recipe = RewardRecipe.model_validate({"redundancy": {"kind": "peer", "output": "whole"}})
    run(Composer(recipe, judge, words), Group(scene, (Completion(whole("a")),)))
    assert whole("a") in words.seen[0]


def test_dra_divides_by_the_groups_density():
    recipe = RewardRecipe.model_validate({"redundancy": {"kind": "dra"}})
    composer = Composer(recipe, [Component("j", Fixed({"a": 1.0, "b": 1.0}))], Words())
    assert values(composer, "a", "a", "b") == pytest.approx([0.5, 0.5, 1.0])


replies = st.lists(st.sampled_from(["a", "b", "a b", "c d", "a c e"]), min_size=1, max_size=6)


@given(replies, st.randoms())
def test_permuting_a_group_permutes_its_rewards_and_duplicates_are_equal(said, random):
    scores = {"a": 1.0, "b": -0.5, "a b": 3.0, "c d": None, "a c e": 0.25}
    recipe = RewardRecipe.model_validate({"redundancy": {"kind": "peer"}})
    composer = Composer(recipe, [Component("j", Fixed(scores))], Words())
    straight = values(composer, *said)
    order = list(range(len(said)))
    random.shuffle(order)
    again = values(composer, *(said[i] for i in order))
    for place, i in enumerate(order):
        assert again[place] == (None if straight[i] is None else pytest.approx(straight[i]))
    for i, one in enumerate(said):
        same = straight[said.index(one)]
        assert straight[i] == (None if same is None else pytest.approx(same))


def test_nothing_to_reward_no_embedder_and_two_of_a_name_are_refused():
    with pytest.raises(UsageError, match="nothing is rewarded"):
        Composer(RewardRecipe(), [Component("j", Fixed({}), 0.0)])
    with pytest.raises(UsageError, match="embeddings"):
        Composer(RewardRecipe.model_validate({"format": 1, "redundancy": {"kind": "peer"}}))
    with pytest.raises(UsageError, match="one name"):
        Composer(RewardRecipe(), [Component("j", Fixed({})), Component("j", Fixed({}))])


def test_the_simulated_seekers_emotion_is_a_share_and_missing_where_nobody_was_simulated():
    composer = Composer(RewardRecipe(), [Component("emotion", EmotionReward())])
    group = Group(SCENE, (Rollout("x", emotion=70.0), Rollout("x", emotion=0.0), Completion("x")))
    _, rewards = run(composer, group)
    assert [r.value for r in rewards[0]] == [0.7, 0.0, None]


def test_a_function_is_handed_what_it_names(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "def brief(reply, reference, lang='x'):\n    return reply != reference and lang == 'en'\n"
        "async def later(tokens):\n    return None if tokens is None else tokens / 10\n"
        "def odd(nonsense):\n    return 1\n"
        "def broken(reply):\n    return 1 / 0\n"
        "def endless(reply):\n    return float('nan')\n"
    )
    parts = [Component(n, load_function(f"{file}:{n}"), 1.0) for n in ("brief", "later")]
    assert values(Composer(RewardRecipe(), parts), "a", tokens=5) == [1.5]
    assert values(Composer(RewardRecipe(), parts), "a") == [None]
    endless = Composer(RewardRecipe(), [Component("e", load_function(f"{file}:endless"))])
    assert values(endless, "a") == [None]
    for name, why in (("odd", "nonsense"), ("nobody", "it has: brief, broken")):
        with pytest.raises(UsageError) as wrong:
            load_function(f"{file}:{name}")
        assert why in str(wrong.value)
    with pytest.raises(UsageError, match="broken failed on d1: ZeroDivisionError"):
        values(Composer(RewardRecipe(), [Component("b", load_function(f"{file}:broken"))]), "a")
    with pytest.raises(UsageError, match="no such file"):
        load_function("nowhere.py:f")


def test_slow_functions_run_side_by_side():
    def slow(reply):
        time.sleep(0.2)
        return 1.0

    began = time.monotonic()
    values(Composer(RewardRecipe(), [Component("slow", FunctionReward(slow, "slow"))]), *["a"] * 12)
    assert time.monotonic() - began < 1.0


def test_a_cached_embedder_asks_for_each_text_once_and_forgets_the_oldest():
    words = Words()
    cached = CachedEmbedder(words, size=2)
    first = cached.embed(["a", "b", "a"])
    assert first.shape == (3, len(words.vocabulary)) and (first[0] == first[2]).all()
    cached.embed(["b", "c"])
    cached.embed(["b"])
    cached.embed(["a"])
    assert words.seen == [["a", "b"], ["c"], ["a"]]
