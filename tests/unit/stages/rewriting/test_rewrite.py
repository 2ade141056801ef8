"""One utterance in, one utterance out; everything but the words carries over; what is no rewriting fails by name."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.stages.rewriting.rewrite import line_faults, rewrite, rewritten_id
from ser_toolkit.errors import RecordError
from ser_toolkit.history import estimate_tokens, one_line
from ser_toolkit.llm.chat import Reply, Request
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Dialogue, Risk, Speaker, Turn
from tests.unit.stages.rewriting.making import LARGE, Model, dialogue, profile

PROMPTS = Prompts()
DRAWN = {"seeker": profile("d8", 9, 1, 2, 3), "supporter": profile("d9", 1, 2, 9, 3, role="supporter")}


def line_of(request: Request) -> str:
    """The utterance that the prompt asks to rewrite."""
    return re.search(r"next line:\n(.*)|(?:的下一句：\n)(.*)", request.messages[-1].text)[0].split("\n")[1]


def shout(request: Request) -> dict[str, str]:
    return {"line": line_of(request).upper()}


async def reworded(of: Dialogue, chat: Model, drawn=DRAWN, recipe: Recipe = LARGE) -> Dialogue:
    (made,) = await rewrite(of, drawn, chat, recipe, PROMPTS)
    return made


async def test_every_utterance_is_one_call_and_all_but_the_words_carries_over():
    chat, old = Model(by=shout), dialogue(survey={"initial_intensity": 4}, situation="A hard week.")
    new = await reworded(old, chat)
    assert [t.text for t in new.turns] == [t.text.upper() for t in old.turns]
    assert len(chat.asked) == 3
    for before, after in zip(old.turns, new.turns, strict=True):
        kept = {"speaker", "cues", "media", "strategies", "emotions", "feedback", "start_s", "end_s"}
        assert after.model_dump(include=kept) == before.model_dump(include=kept)
        assert (after.origin, after.raw, after.flags) == ("model:writer", None, ())
    assert (new.root_id, new.rewritten_from, new.source, new.survey) == ("d1", "d1", old.source, old.survey)
    assert new.id == rewritten_id("d1", DRAWN) != rewritten_id("d1", {}) and new.id.startswith("d1-rw-")
    assert all(r.record_id == new.id and r.stage == "rewrite" for r in chat.asked)


async def test_the_prompt_tells_the_drawn_personality_and_what_was_already_retold():
    chat = Model(by=shout)
    await reworded(dialogue(), chat)
    first, second, _ = (r.messages[-1].text for r in chat.asked)
    assert "Dominance 9/10: Dominance of d8." in first and "of d9" not in first
    assert "Steadiness 9/10: Steadiness of d9." in second and "of d8" not in second
    assert "Seeker: I LOST MY JOB LAST WEEK." in second and "eyes down" not in second


async def test_the_speakers_keep_what_they_were_given():
    old = dialogue(speakers=(Speaker(role="seeker", persona="A cook.", attributes={"age": 30}),))
    new = await reworded(old, Model(by=shout))
    seeker, supporter = new.speakers
    assert (seeker.persona, seeker.attributes["age"], seeker.attributes["disc_profile"]) == ("A cook.", 30, "d8-seeker")
    assert supporter.attributes["disc"] == {"Dominance": 1, "Influence": 2, "Steadiness": 9, "Compliance": 3}


@pytest.mark.parametrize("lang", ["en", "zh"])
async def test_without_personality_it_is_merely_reworded(lang):
    said = ("我上周丢了工作。", "那一定很难受。") if lang == "zh" else ()
    chat = Model(by=lambda r: {"line": line_of(r) + (" 真的。" if lang == "zh" else " Really.")})
    new = await reworded(dialogue(*said, lang=lang), chat, drawn={})
    assert new.speakers == ()
    assert not any("10:" in m.text or "性格的人：" in m.text for r in chat.asked for m in r.messages)
    assert all("{" not in m.text for r in chat.asked for m in r.messages)


async def test_the_small_model_sees_the_line_and_a_word_on_the_person():
    chat = Model(by=lambda r: {"line": "In other words. " + r.messages[-1].text.split(": ")[1].split("\n")[0]})
    await reworded(dialogue(), chat, recipe=Recipe())
    assert "direct, firm" in chat.asked[0].messages[-1].text and "calm, patient" in chat.asked[1].messages[-1].text


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (" \n ", "empty"),
        ("Supporter: You lost it?", "role tags"),
        ("Lost it. Seeker: yes", "role tags"),
        ("I lost it.\nCounselor: When?", "role tags"),
        ("I lost it. *sighs*", "stage direction"),
        ("[looks down] I lost it.", "stage direction"),
        ("我上周丢了工作。", "script"),
        ("I lost it, [NAME_2].", "not in the dialogue"),
        ("I lost it and I want to kill myself.", "crisis"),
    ],
)
async def test_what_is_no_single_utterance_is_asked_for_again_and_then_fails(line, fault):
    chat = Model({"line": line}, {"line": "My job is gone, [NAME_1]."}, {"line": "Ouch. And?"}, {"line": "Rent."})
    of = dialogue("I lost my job, [NAME_1].", "That hurts. What weighs most?", "The rent.")
    assert (await reworded(of, chat)).turns[0].text == "My job is gone, [NAME_1]."
    assert [r.attempt for r in chat.asked[:2]] == [1, 3], "2 belongs to the reader of JSON"
    with pytest.raises(RecordError, match=fault) as caught:
        await reworded(of, Model({"line": line}, {"line": line}))
    assert caught.value.kind == "rewrite" and "utterance 1" in caught.value.reason


def test_what_the_original_holds_may_stay():
    for text in ("Note to self: *breathe*", "[sic] I wrote that.", "Model: that is my job."):
        assert line_faults(dialogue(text).turns[0], text, dialogue(text)) == []


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ([Reply("no json"), Reply("none")], "schema"),
        ([Reply("{", "length"), Reply("{", "length")], "truncated"),
        ([Reply("", "content_filter")], "filtered"),
        ([{"line": "long " * 100}] * 2, "schema"),
    ],
)
async def test_a_reply_that_cannot_be_used_fails_the_rewrite(answers, kind):
    with pytest.raises(RecordError) as caught:
        await reworded(dialogue(), Model(*answers))
    assert caught.value.kind == kind


async def test_a_rewrite_that_changes_nothing_is_none():
    with pytest.raises(RecordError, match="nothing was rewritten"):
        await reworded(dialogue(), Model(by=lambda r: {"line": line_of(r)}))


async def test_crisis_content_keeps_its_mark():
    old = dialogue("I want to kill myself.", "I am here. Are you safe?", risk="high")
    risk = Risk(level="high", category="self_harm", start=0, end=5)
    old = old.model_copy(update={"turns": (old.turns[0].model_copy(update={"risk": risk}), old.turns[1])})
    veiled = await reworded(old, Model({"line": "There is an end to all of it."}, {"line": "I'm with you. Safe?"}))
    assert veiled.risk == "high"
    assert veiled.turns[0].risk == Risk(level="high", category="self_harm", start=0, end=29)
    plain = await reworded(old, Model({"line": "Honestly, I want to kill myself."}, {"line": "I'm with you. Safe?"}))
    found = plain.turns[0].risk
    assert found.level == "high" and "kill" in plain.turns[0].text[found.start : found.end]


async def test_a_long_history_is_cut_to_the_context():
    chat = Model(by=lambda r: {"line": line_of(r).upper()}, context=2400)
    await reworded(dialogue(*(f"turn {n} " + "word " * 20 for n in range(60))), chat)
    last = chat.asked[-1]
    assert "TURN 58 " in last.messages[-1].text and "TURN 0 " not in last.messages[-1].text
    assert sum(estimate_tokens(m.text) for m in last.messages) + last.max_tokens < 2400


SAID = ("home", "rent", "night", "fear", "[NAME_1]", "hm", "好", "*", ":", "Seeker", "...", "", "\n", "\u2028")
WORDS = st.lists(st.sampled_from(SAID), max_size=6)


@given(st.lists(st.tuples(st.booleans(), WORDS), min_size=1, max_size=8))
async def test_one_in_one_out_whatever_is_said(rows):
    turns = tuple(Turn(speaker="seeker" if s else "supporter", text=" ".join(words)) for s, words in rows)
    old = dialogue().model_copy(update={"turns": turns})

    def answer(request: Request) -> dict[str, str]:
        return {"line": json.loads(json.dumps(line_of(request))) + "!"}

    try:
        new = await reworded(old, Model(by=answer))
    except RecordError as exc:
        assert exc.kind == "rewrite"
        return
    assert [t.speaker for t in new.turns] == [t.speaker for t in turns]
    for before, after in zip(turns, new.turns, strict=True):
        assert after.text == (one_line(before.text) + "!" if before.text.strip() else before.text)
