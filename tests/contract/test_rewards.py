"""What every reward keeps, whoever brings it: found by name, one answer a completion, absent apart from missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from ser_toolkit import registry
from ser_toolkit.errors import UsageError
from ser_toolkit.llm.chat import Reply, Request
from ser_toolkit.llm.meter import UsageMeter
from ser_toolkit.llm.openai_wire import Dialect, encode, form_for
from ser_toolkit.reasoning import render_trace
from ser_toolkit.rewards.base import Completion, RewardFunction, Scene
from ser_toolkit.rewards.open import open_reward
from ser_toolkit.schema import Turn
from tests.servers.openai_stand_in import hash_reply

SCENE = Scene("d1-r1", "en", (Turn(speaker="seeker", text="I lost my job."),), reference="That is a hard blow.")
SCENE_ZH = Scene("d2-r1", "zh", (Turn(speaker="seeker", text="我失业了。"),), reference="这一定很难。")
STEPS = ("Job loss.", "Negative, sadness.", "Affirmation and Comfort.")
GROUP = [
    Completion(render_trace(STEPS, "That is heavy to carry.", "en"), tokens=60),
    Completion("What happened?", tokens=3),
    Completion(render_trace(("The job.", *STEPS[1:]), "How long were you there?", "en"), tokens=70),
    Completion("", tokens=0),
]


class HashChat:
    """A judge whose answer hangs on the request alone."""

    identity, model, vision, context_tokens, languages = "t", "judge", False, None, frozenset()

    def __init__(self) -> None:
        self.meter = UsageMeter()

    async def complete(self, request: Request) -> Reply:
        body = orjson.loads(encode(request, "m", form_for(request, Dialect(images=False))))
        return Reply(hash_reply(body))

    async def aclose(self) -> None: ...


class Mute(HashChat):
    """A judge that says nothing of use."""

    async def complete(self, request: Request) -> Reply:
        return Reply("well, you know how it is")


def served(name: str) -> Callable[[], RewardFunction]:
    return lambda: open_reward(name, HashChat())


def in_process() -> RewardFunction:
    from rm_training.score import LocalUnifiedReward
    from ser_toolkit.training.models import Loaded
    from tests.judge_models import text_model, tokenizer

    return LocalUnifiedReward(Loaded(text_model(), tokenizer(), False, "test", "test"))


MAKERS: dict[str, Callable[..., Any]] = {
    "unified": served("unified"),
    "perm": served("perm"),
    "unified-local": in_process,
}
"""Reward -> how this suite opens it."""


@pytest.fixture(params=sorted(MAKERS), scope="module")
def reward(request) -> RewardFunction:
    return MAKERS[request.param]()


def test_every_reward_that_is_registered_goes_through_this_suite():
    assert set(registry.names("rewards")) == set(MAKERS)


async def test_it_answers_once_a_completion_in_their_order(reward):
    assert isinstance(reward, RewardFunction)
    there = await reward.score(SCENE, GROUP)
    back = await reward.score(SCENE, GROUP[::-1])
    assert [b.total for b in there] == pytest.approx([b.total for b in back[::-1]], abs=1e-5)
    assert len(there) == len(GROUP)
    assert await reward.score(SCENE, []) == []


async def test_a_score_does_not_hang_on_the_others_of_the_group(reward):
    together = await reward.score(SCENE, GROUP)
    for completion, found in zip(GROUP, together, strict=True):
        (alone,) = await reward.score(SCENE, [completion])
        assert alone.total == pytest.approx(found.total, abs=1e-5)
        assert alone.components == pytest.approx(found.components, abs=1e-5)


async def test_what_the_policy_did_not_write_is_absent_and_not_missing(reward):
    bare, empty = (await reward.score(SCENE, GROUP))[1], (await reward.score(SCENE, GROUP))[3]
    assert bare.total is not None and empty.total is not None
    assert 0 in bare.components.values()
    assert all(v is not None and v <= 0 for v in empty.components.values())
    assert not empty.notes


async def test_a_chinese_scene_is_judged_too(reward):
    written = render_trace(("失业。", "消极，悲伤。", "肯定与安慰。"), "听起来很难受。", "zh")
    (found,) = await reward.score(SCENE_ZH, [Completion(written, tokens=40)])
    assert found.total is not None


@pytest.mark.parametrize("name", ["unified", "perm"])
async def test_a_judge_that_cannot_be_read_leaves_the_score_missing_and_says_why(name):
    whole, *_, empty = await open_reward(name, Mute()).score(SCENE, GROUP)
    assert whole.total is None and whole.notes
    assert empty.total is not None


@pytest.mark.parametrize("name", ["unified", "perm"])
def test_a_wrong_option_or_a_missing_judge_is_a_usage_error(name):
    with pytest.raises(UsageError, match="loudness"):
        open_reward(name, HashChat(), loudness=3)
    with pytest.raises(UsageError, match="no model"):
        open_reward(name)
    with pytest.raises(UsageError, match="takes no argument"):
        open_reward(f"{name}:somewhere", HashChat())


def test_an_unknown_name_lists_the_known():
    with pytest.raises(UsageError, match="unified"):
        open_reward("kindness", HashChat())
