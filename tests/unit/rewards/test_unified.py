"""UnifiReward over a chat model: four dependent rounds, and the score that they come to."""

import asyncio
import math

import pytest

from ser_toolkit.llm.chat import Image, Reply, Request
from ser_toolkit.llm.meter import UsageMeter
from ser_toolkit.reasoning import render_trace
from ser_toolkit.releases.judging import JUDGE_INSTRUCTIONS, judge_chat, judge_questions, judge_rounds
from ser_toolkit.rewards.base import Completion, Scene
from ser_toolkit.rewards.unified import UnifiedOptions, UnifiedReward, drawn_position
from ser_toolkit.schema import Turn

TURNS = (Turn(speaker="seeker", text="I lost my job and nobody knows."),)
SCENE = Scene("d1-r1", "en", TURNS, reference="That is a hard blow.")
STEPS = ("Job loss, told to nobody.", "Negative, shame.", "Affirmation and Comfort.")
WHOLE = Completion(render_trace(STEPS, "That is heavy to carry.", "en"))
FIRST, SECOND, EQUAL, NEITHER = "First better", "Second better", "Almost equally good", "Neither acceptable"


class Judge:
    """Answers by what a question holds; keeps all that it was asked."""

    identity, model, context_tokens, languages, meter = "t", "judge", None, frozenset(), UsageMeter()

    def __init__(self, answers: dict[str, str], *, vision: bool = False, chances: dict[str, float] | None = None):
        self.answers, self.vision, self.chances = answers, vision, chances
        self.asked: list[Request] = []
        self.under_way = self.most = 0

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        question = request.messages[-1].text
        logprobs = None
        if request.logprobs and self.chances:
            told = [{"token": c.split()[0], "logprob": math.log(self.chances[c])} for c in request.choices]
            logprobs = [{"token": "x", "logprob": 0.0, "top_logprobs": told}]
        return Reply(next((a for mark, a in self.answers.items() if mark in question), "True"), logprobs=logprobs)

    async def aclose(self) -> None: ...


def ours(completion: Completion = WHOLE, scene: Scene = SCENE) -> str:
    """The verdict that prefers the policy's reply."""
    return FIRST if drawn_position(0, scene.id, completion.text) == 1 else SECOND


def theirs(completion: Completion = WHOLE, scene: Scene = SCENE) -> str:
    return SECOND if ours(completion, scene) == FIRST else FIRST


async def score(chat: Judge, *completions: Completion, scene: Scene = SCENE, **options):
    return await UnifiedReward(chat, UnifiedOptions(**options)).score(scene, completions or [WHOLE])


@pytest.mark.parametrize(
    ("answers", "total"),
    [
        ({"Two replies": "ours"}, 3.0),
        ({"Two replies": EQUAL}, 3.0),
        ({"Two replies": "theirs"}, 2.5),
        ({"Two replies": NEITHER, "Step 2": "False"}, 2.0),
        ({"Two replies": NEITHER, "Step 1": "False", "Step 2": "False", "Step 3": "False"}, 1.0),
    ],
)
async def test_the_papers_sum(answers, total):
    named = {"ours": ours(), "theirs": theirs()}
    (found,) = await score(Judge({k: named.get(a, a) for k, a in answers.items()}))
    assert found.total == pytest.approx(total)


async def test_four_dependent_rounds_are_the_chat_that_a_judge_is_trained_on():
    chat = Judge({"Step 2": "false, I fear", "Two replies": EQUAL})
    chat.answers["Step 2"] = "False"
    await score(chat)
    assert [len(r.messages) for r in chat.asked] == [2, 4, 6, 8]
    assert [r.choices for r in chat.asked] == [("True", "False")] * 3 + [(FIRST, SECOND, EQUAL, NEITHER)]
    pair = (
        ("That is heavy to carry.", SCENE.reference)
        if ours() == FIRST
        else (SCENE.reference, "That is heavy to carry.")
    )
    trained = judge_chat(TURNS, STEPS, pair, "en", ("True", "False", "True", EQUAL))
    assert [{"role": m.role, "content": m.text} for m in chat.asked[-1].messages] == trained[:-1]


async def test_a_group_is_judged_at_once():
    chat = Judge({"Two replies": EQUAL})
    group = [Completion(render_trace((f"Case {n}.", *STEPS[1:]), f"Reply {n}.", "en")) for n in range(4)]
    found = await score(chat, *group)
    assert chat.most == 4 and len(chat.asked) == 16
    assert [b.total for b in found] == [3.0] * 4


async def test_absent_parts_score_zero_and_present_ones_are_judged():
    chat = Judge({"Two replies": EQUAL})
    (found,) = await score(chat, Completion("Step 2. Emotions\nNegative, sadness.\n\nStep 4. Reply\nI hear you."))
    assert found.components == {"step1": 0, "step2": 1, "step3": 0, "preference": 1, "format": 0}
    assert found.total == pytest.approx(1.0)
    assert "The conversation so far" in chat.asked[0].messages[1].text and len(chat.asked) == 2


async def test_an_unreadable_answer_is_asked_again_then_missing():
    chat = Judge({"Step 2": "hm"})
    (found,) = await score(chat)
    assert found.components["step1"] == 1 and found.components["step2"] is None
    assert found.components["preference"] is None and found.total is None
    assert "unreadable" in found.notes[0] and len(chat.asked) == 3


async def test_the_reply_stands_first_for_half_and_both_orders_are_averaged():
    drawn = [drawn_position(0, "d", str(n)) for n in range(400)]
    assert 160 < drawn.count(1) < 240
    chat = Judge({"Two replies": FIRST})
    (found,) = await score(chat, position="both")
    assert found.components["preference"] == 0.5 and len(chat.asked) == 5
    last, beside = (r.messages[-1].text for r in chat.asked[-2:])
    assert last.index("heavy to carry") != beside.index("heavy to carry") and last != beside


async def test_soft_scores_are_expected_ones():
    chat = Judge(
        {"Two replies": EQUAL}, chances={"True": 0.8, "False": 0.2, FIRST: 0.4, SECOND: 0.3, EQUAL: 0.2, NEITHER: 0.1}
    )
    (found,) = await score(chat, soft=True)
    assert found.components["step1"] == pytest.approx(0.8)
    assert found.components["preference"] == pytest.approx((0.4 if ours() == FIRST else 0.3) + 0.2)
    (found,) = await score(Judge({"Two replies": EQUAL}), soft=True)
    assert found.total is None and "log-probabilities" in found.notes[0]


async def test_no_reference_is_missing_and_the_reference_itself_is_as_good():
    bare = Scene("d", "en", TURNS)
    (found,) = await score(Judge({}), scene=bare)
    assert found.total is None and "no reference" in found.notes[0] and found.components["step1"] == 1
    (found,) = await score(Judge({}), Completion(render_trace(STEPS, "That is a hard blow.", "en")))
    assert found.total == pytest.approx(3.0)


async def test_the_photo_stands_with_the_first_question():
    scene = Scene("d", "en", TURNS, reference="Oh.", images=(Image(b"face", "image/png"),))
    chat = Judge({"Two replies": EQUAL}, vision=True)
    await score(chat, scene=scene)
    assert [[len(m.images) for m in r.messages] for r in chat.asked][-1] == [0, 1, 0, 0, 0, 0, 0, 0]
    blind = Judge({"Two replies": EQUAL})
    await score(blind, scene=scene)
    assert not any(m.images for r in blind.asked for m in r.messages)


async def test_a_long_history_is_cut_at_turn_borders_and_never_a_step():
    turns = tuple(
        Turn(speaker="seeker" if n % 2 == 0 else "supporter", text=f"turn{n} " + "word " * 200) for n in range(9)
    )
    chat = Judge({"Two replies": EQUAL})
    chat.context_tokens = 2000
    await score(chat, scene=Scene("d", "en", turns, reference="Oh."))
    first = chat.asked[0].messages[1].text
    assert "turn8" in first and "turn0" not in first and STEPS[0] in first


def test_rounds_without_absent_parts_are_the_questions():
    assert [q for _, q in judge_rounds(TURNS, STEPS, ("a", "b"), "en")] == judge_questions(
        TURNS, STEPS, ("a", "b"), "en"
    )
    assert judge_rounds(TURNS, (None, "", None), None, "zh") == []
    assert JUDGE_INSTRUCTIONS.keys() == {"en", "zh"}
