"""New scenarios: what the mix wants is told and kept, what it leaves open the model says."""

import json

import pytest

from pipelines.stages.synthesis.inventing import Wanted, invent
from ser_toolkit.errors import RecordError
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Llm, Recipe
from ser_toolkit.recipe_synthesis import Synthesize
from ser_toolkit.schema import Label
from tests.synthesis_samples import Answers

STORY = {
    "situation": "A baker has lost the lease of the shop.", "persona": "Sixty, up since three.",
    "hidden_intention": "wants to hear that it was not for nothing", "opening": "I still wake at three.",
}  # fmt: skip


async def made(chat, **fields):
    recipe = Recipe(llm=Llm(model="openai:m"), synthesize=Synthesize(licence="MIT"))
    (scenario,) = await invent(Wanted(**{"lang": "en", "number": 1, **fields}), chat, recipe, Prompts())
    return scenario


async def test_what_is_wanted_is_told_and_stands_in_the_scenario():
    chat = Answers(json.dumps(STORY))
    fields = {"problem": "work", "emotion": "Anger", "intensity": "Mild", "culture": "Portugal"}
    found = await made(chat, **fields, unlike=("A clerk\nhas lost a key.",))
    assert set(chat.asked[0].schema["required"]) == set(STORY)
    said = chat.asked[0].messages[-1].text
    assert all(word in said for word in (*fields.values(), "- A clerk has lost a key."))
    assert (found.problem, found.intensity, found.culture) == ("work", "Mild", "Portugal")
    assert found.emotion == Label(original="Anger", corpus="Anger", ser="Anger")
    assert (found.situation, found.opening) == (STORY["situation"], STORY["opening"])
    assert (found.hidden_intention, found.speakers[0].persona) == (STORY["hidden_intention"], STORY["persona"])
    assert (found.source.format, found.source.licence, found.meta) == ("invented", "MIT", {"model": "m"})
    assert found.id == chat.asked[0].record_id, "withdrawing it reaches the call"


async def test_what_is_left_open_the_model_says():
    chat = Answers(json.dumps({**STORY, "problem": "rent", "emotion": "Fear", "intensity": "Intense"}))
    found = await made(chat)
    assert (found.problem, found.emotion.ser, found.intensity) == ("rent", "Fear", "Intense")


async def test_chinese_words_become_the_taxonomys():
    story = {
        "situation": "他丢了工作。",
        "persona": "四十岁。",
        "hidden_intention": "想被肯定",
        "opening": "我没敢说。",
    }
    chat = Answers(json.dumps({**story, "problem": "工作", "intensity": "强烈"}))
    found = await made(chat, lang="zh", emotion="Shame")
    assert (found.emotion.ser, found.intensity, found.problem) == ("Shame", "Intense", "工作")
    said = "".join(m.text for m in chat.asked[0].messages)
    assert "羞愧" in said and "Shame" not in said


async def test_equal_wishes_get_other_ids_seeds_and_people():
    chat = Answers(json.dumps({**STORY, "problem": "x", "emotion": "Fear", "intensity": "Mild"}))
    ids = [(await made(chat, number=n)).id for n in (1, 2, 3)]
    again = (await made(chat, number=1, attempt=1)).id
    assert len(set(ids)) == 3 and again == ids[0]
    assert len({r.seed for r in chat.asked}) == 4
    assert len({r.messages[-1].text for r in chat.asked}) == 4


async def test_a_risk_is_marked_and_a_broken_answer_is_a_failure():
    chat = Answers(json.dumps({**STORY, "opening": "Everyone would be better off without me."}))
    fields = {"problem": "work", "emotion": "Anger", "intensity": "Mild"}
    assert (await made(chat, **fields)).risk == "high"
    with pytest.raises(RecordError) as caught:
        await made(Answers("no"), **fields)
    assert caught.value.kind == "schema"
