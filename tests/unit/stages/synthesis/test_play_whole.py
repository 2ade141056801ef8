"""Whole dialogues: one call, held to the same rules as lines that are spoken one by one."""

import json
from pathlib import Path

import pytest

from pipelines.stages.synthesis.casting import Draw
from pipelines.stages.synthesis.checks import SupporterRules
from pipelines.stages.synthesis.play import play
from ser_toolkit.errors import RecordError
from ser_toolkit.llm.chat import Reply
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Llm, Recipe
from ser_toolkit.recipe_synthesis import Synthesize
from ser_toolkit.schema import Cue
from tests.synthesis_samples import Answers, scenario

TALK = [
    ("I keep thinking of Monday.", "What happened then?"),
    ("He waited at the door.", "You hear that silence every day now."),
    ("Yes, and nobody sees it.", "Who saw the two of you together?"),
]


def written(*talk, feelings=(20, 35, 50), **changes):
    exchanges = [
        {"seeker": s, "face": "pale", "voice": "", "feeling": f, "strategy": "Small Talk", "supporter": h}
        for (s, h), f in zip(talk, feelings, strict=False)
    ]
    for at, change in changes.items():
        exchanges[int(at[1:])].update(change)
    return json.dumps({"exchanges": exchanges})


async def made(chat, draw=None, **settings):
    recipe = Recipe(llm=Llm(model="openai:m"), synthesize=Synthesize(mode="whole", **settings))
    rules = SupporterRules(recipe, Path())
    dialogue, _ = await play(draw or Draw(scenario=scenario()), chat, recipe, Prompts(), rules)
    return dialogue


async def test_one_call_makes_a_dialogue_with_cues_strategies_and_feelings():
    chat = Answers(written(*TALK, _1={"strategy": "Emotional Mapping"}))
    dialogue = await made(chat)
    assert len(chat.asked) == 1
    assert [(t.speaker, t.text) for t in dialogue.turns] == [
        (who, line) for pair in TALK for who, line in zip(("seeker", "supporter"), pair, strict=True)
    ]
    assert dialogue.turns[0].cues == (Cue(channel="face", text="pale", source="model:m"),)
    assert [t.strategies[0].ser for t in dialogue.turns[1::2]] == ["Small Talk", "Emotional Mapping", "Small Talk"]
    assert all((t.flags, t.origin) == (("planned_strategy",), "model:m") for t in dialogue.turns[1::2])
    assert dialogue.meta["synthesis"]["feelings"] == [20, 35, 50]
    assert (dialogue.meta["synthesis"]["mode"], dialogue.meta["synthesis"]["ending"]) == ("whole", "model_stopped")


async def test_the_model_is_told_both_personas_the_secret_and_the_opening_which_is_kept():
    chat = Answers(written(("Well, my dog has died.", "Oh. When was that?"), *TALK[1:]))
    dialogue = await made(chat, Draw(scenario=scenario(opening="My dog died last week.", culture="Norway")))
    said = "\n".join(m.text for m in chat.asked[0].messages)
    manner = dialogue.speakers[1].persona
    for part in ("A widower.", "one good story", "My dog died last week.", "Norway", "Sadness", manner):
        assert part in said
    assert (dialogue.turns[0].text, dialogue.turns[0].origin) == ("My dog died last week.", "corpus")


@pytest.mark.parametrize(
    ("talk", "feelings", "ending"),
    [
        (TALK, (20, 35, 50), "max_rounds"),
        (TALK, (20, 35, 70), "moved"),
        (TALK, (20, 10, 0), "gave_up"),
        ([*TALK[:2], ("Thank you, goodbye!", "")], (20, 35, 50), "goodbye"),
        ([*TALK[:2], ("Thank you, goodbye!", "Take care of yourself.")], (20, 35, 50), "goodbye"),
    ],
)
async def test_why_it_ended_is_kept(talk, feelings, ending):
    dialogue = await made(Answers(written(*talk, feelings=feelings)), max_rounds=3)
    assert dialogue.meta["synthesis"]["ending"] == ending
    assert all(t.text for t in dialogue.turns)


SPOILT = {
    "seeker_role": {"_1": {"seeker": "How can I help you today?"}},
    "repetition": {"_1": {"seeker": TALK[0][0]}},
    "goodbye_loop": {"_1": {"seeker": "Thanks, bye!"}, "_2": {"seeker": "Okay, goodbye!"}},
    "supporter_role": {"_0": {"supporter": "Thank you for listening to me."}},
    "stock_phrase": {"_0": {"supporter": "Your feelings are valid, and I'm here for you."}},
    "empty_reply": {"_0": {"supporter": "*nods*"}},
    "schema": {"_0": {"strategy": "Cheering up"}},
}


@pytest.mark.parametrize("kind", SPOILT)
async def test_a_line_out_of_part_has_the_whole_asked_for_again_then_it_fails(kind):
    bad, good = written(*TALK, **SPOILT[kind]), written(*TALK)
    chat = Answers(bad, bad, good)
    assert len((await made(chat)).turns) == 6
    assert [r.attempt for r in chat.asked] == [1, 2, 3] and len({r.seed for r in chat.asked}) == 3
    chat = Answers(bad)
    with pytest.raises(RecordError) as caught:
        await made(chat)
    assert (caught.value.kind, caught.value.request_key, len(chat.asked)) == (kind, "key-3", 3)


async def test_a_cut_dialogue_is_never_repaired():
    chat = Answers(Reply(written(*TALK)[:-20], "length"), written(*TALK))
    assert len((await made(chat)).turns) == 6 and len(chat.asked) == 2


async def test_markers_names_and_stage_directions_are_no_words():
    talk = [("Seeker: I keep thinking of Monday.", '"What happened then?"'), ("*sighs* He waited.[END]", "I see him.")]
    dialogue = await made(Answers(written(*talk)))
    assert [t.text for t in dialogue.turns] == [
        "I keep thinking of Monday.", "What happened then?", "He waited.", "I see him.",
    ]  # fmt: skip


async def test_chinese_is_asked_and_labelled_in_chinese():
    talk = [("我最近总睡不着。", "夜里醒着的时候在想什么？"), ("想工作上的错。", "怕被别人看见，是吗？")]
    text = written(*talk, _0={"strategy": "递进提问"}, _1={"strategy": "情感映射"})
    chat = Answers(text)
    given = scenario(lang="zh", situation="他在工作里出了错。", intensity="Intense")
    dialogue = await made(chat, Draw(scenario=given))
    assert [t.strategies[0].ser for t in dialogue.turns[1::2]] == ["Progressive Questioning", "Emotional Mapping"]
    assert dialogue.turns[1].strategies[0].original == "递进提问"
    said = "\n".join(m.text for m in chat.asked[0].messages)
    assert "悲伤（强烈）" in said and "开始时是 15" in said
    assert "Sadness" not in json.dumps(chat.asked[0].schema) + said
