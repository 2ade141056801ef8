"""The fast ways say what the plain four rounds say, whatever was assumed; and a group gets its rewards in process."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from rm_training import speculation
from rm_training.rounds import ChatEncoder
from rm_training.score import LocalUnifiedReward
from rm_training.speculation import judge_together
from rm_training.verdicts import Judged, judge_plainly
from ser_toolkit.errors import UsageError
from ser_toolkit.llm.chat import Image
from ser_toolkit.reasoning import render_trace
from ser_toolkit.releases.judging import JUDGE_INSTRUCTIONS, judge_questions
from ser_toolkit.rewards.base import Completion, Scene
from ser_toolkit.rewards.open import open_reward
from ser_toolkit.rewards.unified import UnifiedOptions, drawn_position
from ser_toolkit.training.layout import tree_of
from ser_toolkit.training.models import Loaded
from ser_toolkit.training.sharing import reason_against
from tests.judge_models import judge_chat, picture, processor, text_model, tokenizer, turns, vision_model

pytestmark = pytest.mark.train


def same(left: Sequence[Judged], right: Sequence[Judged]) -> None:
    for one, other in zip(left, right, strict=True):
        assert one.trouble == other.trouble and one.verdicts == other.verdicts
        for a, b in zip(one.rounds, other.rounds, strict=True):
            assert a == pytest.approx(b, abs=1e-5)


def counted(model: Any) -> tuple[Any, list[int]]:
    """A copy of the model, and the tokens of each pass that it makes (but for the one probe of a new model)."""
    model, passes = copy.deepcopy(model), []
    assert reason_against(model, 4000, {}) == ""
    model.register_forward_pre_hook(lambda _, a, kw: passes.append(kw["input_ids"].numel()), with_kwargs=True)
    return model, passes


@pytest.mark.parametrize("images", [(), (picture(),)])
@pytest.mark.parametrize("history", [1, 9])
def test_speculation_equals_the_plain_rounds(images: tuple[Any, ...], history: int) -> None:
    model, words = (vision_model(), processor()) if images else (text_model(), tokenizer())
    chats = [judge_chat(n, images=images, history=history) for n in range(5)]
    plain = judge_plainly(model, words, chats)
    firsts = [j.verdicts[:3] for j in plain]
    assert images or (len(set(firsts)) > 1 and any("False" in f[:2] for f in firsts))  # some assumptions are wrong
    same(judge_together(model, words, chats), plain)
    same(judge_together(model, words, chats, batch_size=4), plain)


@pytest.mark.parametrize(("leaning", "expected"), [("True", 2), ("False", 5)])
def test_every_assumption_right_or_every_one_wrong(
    leaning: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trunk once, then a pass a wrong assumption; or, where nothing is assumed, a pass a round."""
    model, passes = counted(text_model())
    bias = torch.zeros(len(tokenizer()))
    bias[tokenizer()(f"{leaning}<|im_end|>")["input_ids"]] = 99.0
    model.lm_head.register_forward_hook(lambda _, args, logits: logits + bias)
    chats = [judge_chat(n, history=5) for n in range(3)]
    plain = judge_plainly(model, tokenizer(), chats)
    assert {v for j in plain for v in j.verdicts[:3]} == {leaning}
    for ahead, wanted in ((1 << 30, expected), (0, 5)):
        monkeypatch.setattr(speculation, "AHEAD", {"cpu": ahead, "cuda": 0})
        passes.clear()
        same(judge_together(model, tokenizer(), chats), plain)
        assert len(passes) == wanted


def test_no_round_is_read_twice_and_a_pair_shares_its_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chats in both orders of their replies, some steps False; the verdicts are those of the plain rounds."""
    model, passes = counted(text_model())
    there = [judge_chat(n) for n in range(3)]
    turned = [replace(c, questions=(*c.questions[:3], f"Turned. {c.questions[3]}")) for c in there]
    plain = judge_plainly(model, tokenizer(), [*there, *turned])
    assert any("False" in j.verdicts[:2] for j in plain)
    for ahead in (0, 1 << 30):
        monkeypatch.setattr(speculation, "AHEAD", {"cpu": ahead, "cuda": 0})
        passes.clear()
        same(judge_together(model, tokenizer(), [*there, *turned]), plain)
        if not ahead:
            encoded = [ChatEncoder(tokenizer()).encode(c) for c in (*there, *turned)]
            once = len(tree_of([e.asked[0] for e in encoded]).tokens)
            once += sum(len(a) for e in encoded[:3] for a in e.asked[1:3]) + sum(len(e.asked[3]) for e in encoded)
            assert sum(passes) < 1.3 * once, "the answers, and some padding"


def test_the_history_and_the_photo_are_computed_once_for_the_group() -> None:
    model, passes = counted(vision_model())
    seen: list[int] = []
    model.model.vision_model.register_forward_hook(lambda m, a, kw, out: seen.append(len(out[0])), with_kwargs=True)
    chats = [judge_chat(n, images=(picture(),), history=40) for n in range(4)]
    judge_together(model, processor(), chats)
    assert seen == [1]
    trunk, *rest = passes
    assert trunk > 600 and all(p < 4 * 450 for p in rest)


def test_chats_of_several_scenes_stand_in_one_call() -> None:
    chats = [judge_chat(n, images=(picture(s),) * k) for n, (s, k) in enumerate(((10, 1), (240, 1), (10, 0), (10, 2)))]
    same(judge_together(vision_model(), processor(), chats), judge_plainly(vision_model(), processor(), chats))
    mixed = [judge_chat(n, history=1 + n) for n in range(5)]
    same(judge_together(text_model(), tokenizer(), mixed), judge_plainly(text_model(), tokenizer(), mixed))


def test_a_model_that_sharing_does_not_fit_gets_the_same_verdicts() -> None:
    model = text_model("bloom", n_layer=2, n_head=4, initializer_range=0.3)
    chats = [judge_chat(n) for n in range(3)]
    same(judge_together(model, tokenizer(), chats), judge_plainly(model, tokenizer(), chats))


def loaded(*, sees: bool = False) -> Loaded:
    model, words = (vision_model(), processor()) if sees else (text_model(), tokenizer())
    return Loaded(model, words, sees, "test", "test")


SCENE = Scene("s1", "en", turns(5), reference="That sounds hard.")
STEPS = ("She sleeps badly.", "Negative, mild anxiety.", "Affirmation and Comfort.")
WHOLE = render_trace(STEPS, "I am here with you.", "en")


def by_hand(scene: Scene, steps: Sequence[str], reply: str, position: int) -> Judged:
    pair = (reply, scene.reference) if position == 1 else (scene.reference, reply)
    from rm_training.rounds import JudgeChat

    chat = JudgeChat(JUDGE_INSTRUCTIONS["en"], tuple(judge_questions(scene.turns, steps, pair, "en")))
    return judge_plainly(text_model(), tokenizer(), [chat])[0]


async def test_hard_and_soft_scores_are_those_of_the_plain_rounds() -> None:
    position = drawn_position(0, SCENE.id, WHOLE)
    judged = by_hand(SCENE, STEPS, "I am here with you.", position)
    better = ("First better", "Second better")[position - 1]
    (hard,) = await LocalUnifiedReward(loaded()).score(SCENE, [Completion(WHOLE)])
    assert [hard.components[f"step{n}"] for n in (1, 2, 3)] == [float(v == "True") for v in judged.verdicts[:3]]
    assert hard.components["preference"] == float(judged.verdicts[3] in (better, "Almost equally good"))
    (soft,) = await LocalUnifiedReward(loaded(), UnifiedOptions(soft=True)).score(SCENE, [Completion(WHOLE)])
    assert [soft.components[f"step{n}"] for n in (1, 2, 3)] == pytest.approx(
        [r["True"] for r in judged.rounds[:3]], abs=1e-5
    )
    wanted = judged.rounds[3][better] + judged.rounds[3]["Almost equally good"]
    assert soft.components["preference"] == pytest.approx(wanted, abs=1e-5)
    assert soft.total == pytest.approx(0.5 * sum(r["True"] for r in judged.rounds[:3]) + 0.5 * wanted + 1, abs=1e-5)


async def test_both_orders_are_averaged() -> None:
    both = LocalUnifiedReward(loaded(), UnifiedOptions(soft=True, position="both"))
    (found,) = await both.score(SCENE, [Completion(WHOLE)])
    worths = []
    for position, better in ((1, "First better"), (2, "Second better")):
        last = by_hand(SCENE, STEPS, "I am here with you.", position).rounds[3]
        worths.append(last[better] + last["Almost equally good"])
    assert found.components["preference"] == pytest.approx(sum(worths) / 2, abs=1e-5)


async def test_absent_parts_are_zero_and_what_cannot_be_judged_is_missing() -> None:
    partial = WHOLE.replace("Step 2", "Thought").replace(STEPS[1], "")
    nan = copy.deepcopy(text_model())
    nan.lm_head.weight.data[:] = float("nan")
    bare, without = await LocalUnifiedReward(loaded()).score(SCENE, [Completion("Hello?"), Completion(partial)])
    assert [bare.components[f"step{n}"] for n in (1, 2, 3)] == [0, 0, 0] and bare.components["format"] == 0
    assert without.components["step2"] == 0 and without.components["format"] == 0 and without.total is not None
    (broken,) = await LocalUnifiedReward(Loaded(nan, tokenizer(), False, "", "")).score(SCENE, [Completion(WHOLE)])
    assert broken.total is None and broken.components["step1"] is None and "not finite" in broken.notes[0]


async def test_a_long_history_loses_its_first_turns_and_others_of_the_group_do_not() -> None:
    scene = Scene("s2", "en", turns(60), reference="That sounds hard.")
    long = render_trace((STEPS[0] + " And so on." * 80, *STEPS[1:]), "I am here with you.", "en")
    reward = LocalUnifiedReward(loaded(), UnifiedOptions(soft=True), max_tokens=3800)
    (alone,) = await reward.score(scene, [Completion(WHOLE)])
    together = await reward.score(scene, [Completion(long), Completion(WHOLE)])
    assert together[1].components == pytest.approx(alone.components, abs=1e-5)
    assert together[0].total is not None and not together[0].notes
    (hopeless,) = await LocalUnifiedReward(loaded(), max_tokens=300).score(scene, [Completion(long)])
    assert hopeless.total is None and "300" in hopeless.notes[0]


async def test_a_photo_goes_to_a_judge_that_sees_and_only_there() -> None:
    import io

    data = io.BytesIO()
    picture(30).save(data, "PNG")
    scene = Scene("s3", "en", turns(3), reference="Oh.", images=(Image(data.getvalue(), "image/png"),))
    bare = Scene("s3", "en", turns(3), reference="Oh.")
    soft = UnifiedOptions(soft=True)
    seeing = LocalUnifiedReward(loaded(sees=True), soft)
    assert (await seeing.score(scene, [Completion(WHOLE)])) != (await seeing.score(bare, [Completion(WHOLE)]))
    blind = LocalUnifiedReward(loaded(), soft)
    assert (await blind.score(scene, [Completion(WHOLE)])) == (await blind.score(bare, [Completion(WHOLE)]))


async def test_groups_that_are_scored_at_once_do_not_mix() -> None:
    reward = LocalUnifiedReward(loaded(), UnifiedOptions(soft=True))
    scenes = [Scene(f"s{n}", "en", turns(3 + n), reference="That sounds hard.") for n in range(3)]
    one_by_one = [await reward.score(s, [Completion(WHOLE)]) for s in scenes]
    assert await asyncio.gather(*(reward.score(s, [Completion(WHOLE)]) for s in scenes)) == one_by_one


def test_it_is_found_by_name() -> None:
    with pytest.raises(UsageError, match="no model is named"):
        open_reward("unified-local")
    with pytest.raises(UsageError, match="no such model"):
        open_reward("unified-local:/nowhere/at/all")
