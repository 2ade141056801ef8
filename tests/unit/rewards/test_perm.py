"""PERM's judges: what is asked, in which order, and what becomes of answers that cannot be read."""

import asyncio
import json

import pytest

from ser_toolkit.llm.chat import Reply, Request
from ser_toolkit.llm.meter import UsageMeter
from ser_toolkit.reasoning import render_trace
from ser_toolkit.rewards.base import Completion, RewardFunction, Scene
from ser_toolkit.rewards.perm import ASPECTS, PermOptions, PermReward
from ser_toolkit.schema import Turn

SCENE = Scene("d1-r1", "en", (Turn(speaker="seeker", text="I lost my job and nobody knows."),), persona="a baker")
WHOLE = Completion(
    render_trace(("Job loss, told to nobody.", "Negative, shame.", "Affirmation."), "That is heavy to carry.", "en"),
    tokens=900,
)
BYSTANDER = json.dumps({"reason": "x", **dict.fromkeys(ASPECTS, 14)})


class Judge:
    """Answers by what the prompt asks about; notes each request and how many were under way at once."""

    identity, model, vision, context_tokens, languages, meter = "t", "judge", False, None, frozenset(), UsageMeter()

    def __init__(self, **answers: list[str]) -> None:
        self.answers, self.asked, self.under_way, self.most = answers, [], 0, 0

    async def complete(self, request: Request) -> Reply:
        name = next(n for n, marks in MARKS.items() if any(m in request.messages[-1].text for m in marks))
        self.asked.append((name, request))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        given = self.answers[name]
        return Reply(given.pop(0) if len(given) > 1 else given[0])

    async def aclose(self) -> None: ...


MARKS = {
    "resonation": ("thought before speaking", "开口前的思考"),
    "expression": ("show that understanding", "把理解表达得"),
    "reception": ("in the place of the person", "站在求助者的位置"),
    "bystander": ("bystander without a stake", "旁观者"),
}
"""Words of each rubric, in either language."""


def level(score: int) -> list[str]:
    return [json.dumps({"reason": "because", "score": score})]


def judge(**other: list[str]) -> Judge:
    return Judge(
        **{"resonation": level(5), "expression": level(4), "reception": level(3), "bystander": [BYSTANDER]} | other
    )


async def test_the_papers_sum():
    chat = judge()
    reward = PermReward(chat)
    assert isinstance(reward, RewardFunction)
    (found,) = await reward.score(SCENE, [WHOLE])
    assert found.components["empathy"] == pytest.approx(0.765957, abs=1e-6)
    assert found.total == pytest.approx(0.765957 - 0.15 - 0.132, abs=1e-6)


async def test_all_calls_of_a_group_run_at_once_behind_one_prefix():
    chat = judge()
    await PermReward(chat).score(SCENE, [WHOLE, Completion("That hurts.")])
    assert chat.most == len(chat.asked) == 7  # no analysis in the second: resonation is absent, and not asked
    texts = [r.messages[-1].text for _, r in chat.asked]
    shared = texts[0][: next(i for i, letters in enumerate(zip(*texts, strict=False)) if len(set(letters)) > 1)]
    assert "I lost my job and nobody knows." in shared
    assert len({r.messages[0].text for _, r in chat.asked}) == 1


async def test_resonation_reads_the_thought_and_the_others_the_reply():
    chat = judge()
    await PermReward(chat).score(SCENE, [WHOLE])
    for name, request in chat.asked:
        text = request.messages[-1].text
        assert ("told to nobody" in text) == (name == "resonation") != ("heavy to carry" in text)


async def test_an_absent_part_scores_zero():
    (found,) = await PermReward(judge()).score(SCENE, [Completion("That hurts.")])
    assert found.components["resonation"] == 0 == found.components["empathy"]
    assert found.total == pytest.approx(-0.15)


async def test_words_instead_of_json_are_read_and_nonsense_is_asked_once_more_then_missing():
    chat = judge(expression=["I would say **Score:** 4"], reception=["hm", "Score: 3"], resonation=["hm", "well"])
    (found,) = await PermReward(chat, PermOptions(length=False)).score(SCENE, [WHOLE])
    assert (found.components["expression"], found.components["reception"]) == (4, 3)
    assert found.components["resonation"] is None and found.total is None and "resonation" in found.notes[0]
    asked = [name for name, _ in chat.asked]
    assert asked.count("resonation") == asked.count("reception") == 2 and asked.count("expression") == 1


async def test_a_score_outside_the_scale_is_no_score():
    (found,) = await PermReward(judge(expression=level(7))).score(SCENE, [WHOLE])
    assert found.components["expression"] is None and found.total is None


async def test_chinese_scenes_are_asked_in_chinese():
    chat = judge()
    scene = Scene("z", "zh", (Turn(speaker="seeker", text="我失业了。"),))
    (found,) = await PermReward(chat).score(scene, [Completion("听起来很难。")])
    assert found.components["expression"] == 4
