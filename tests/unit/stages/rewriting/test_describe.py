"""Each speaker gets an analysis and a score per dimension; a small model is asked for a dimension at a time."""

import pytest

from pipelines.stages.rewriting.describe import describe
from ser_toolkit.history import estimate_tokens
from ser_toolkit.llm.chat import Reply
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Failure
from ser_toolkit.taxonomy import DISC
from tests.unit.stages.rewriting.making import LARGE, Model, dialogue

GOOD = {d: {"analysis": f"Seen:\n{d}.", "score": n} for n, d in enumerate(DISC)}


@pytest.mark.parametrize(("lang", "seeker"), [("en", "seeker"), ("zh", "求助者")])
async def test_one_call_a_speaker(lang, seeker):
    chat = Model(GOOD, GOOD)
    first, second = await describe(dialogue(lang=lang), chat, LARGE, Prompts())
    assert (first.id, first.role, second.id, second.role) == ("d1-seeker", "seeker", "d1-supporter", "supporter")
    assert first.scores == (0, 1, 2, 3) and first.traits[0].analysis == "Seen: Dominance."
    assert (first.dialogue_id, first.lang, first.model, first.prompt) == ("d1", lang, "writer", "describe@1")
    assert len(chat.asked) == 2 and chat.asked[0].seed != chat.asked[1].seed
    assert seeker in chat.asked[0].messages[-1].text and "I lost my job" in chat.asked[0].messages[-1].text
    assert all(d in chat.asked[0].messages[0].text for d in DISC)


@pytest.mark.parametrize("lang", ["en", "zh"])
async def test_a_small_model_is_asked_for_a_dimension_at_a_time(lang):
    chat = Model(by=lambda request: Reply("7"))
    profiles = await describe(dialogue(lang=lang), chat, Recipe(), Prompts())
    assert len(chat.asked) == 8 and len({r.key("", "") for r in chat.asked}) == 8
    assert all([t.dimension for t in p.traits] == list(DISC) and p.scores == (7, 7, 7, 7) for p in profiles)
    words = {"en": "Rather direct, firm, quick to decide.", "zh": "比较直接、果断、有主见。"}
    assert profiles[0].traits[0].analysis == words[lang]


@pytest.mark.parametrize(("score", "degree"), [(0, "Not at all"), (1, "Not at all"), (2, "A little"), (4, "A little"),
                                               (5, "Rather"), (7, "Rather"), (8, "Very"), (10, "Very")])  # fmt: skip
async def test_a_small_models_score_is_put_into_words_by_code(score, degree):
    profiles = await describe(dialogue(), Model(by=lambda request: Reply(f" {score}\n")), Recipe(), Prompts())
    assert profiles[1].traits[2].analysis == f"{degree} calm, patient, a good listener."


async def test_a_score_outside_the_scale_is_a_failure_and_never_a_default():
    bad = {**GOOD, "Influence": {"analysis": "x", "score": 11}}
    chat = Model(by=lambda r: bad if "Describe the seeker" in r.messages[-1].text else GOOD)
    failed, kept = await describe(dialogue(), chat, LARGE, Prompts())
    assert isinstance(failed, Failure) and (failed.kind, failed.stage, failed.record_id) == ("schema", "describe", "d1")
    assert kept.role == "supporter", "its profile still serves others"


async def test_a_small_model_that_gives_no_score_fails():
    seeker, _ = await describe(dialogue(), Model(by=lambda request: Reply("eleven")), Recipe(), Prompts())
    assert (seeker.kind, seeker.text) == ("schema", "eleven")


async def test_a_speaker_who_says_nothing_has_no_profile():
    (only,) = await describe(dialogue("I am alone."), Model(GOOD), LARGE, Prompts())
    assert only.role == "seeker"


async def test_a_long_dialogue_is_described_by_its_end():
    chat = Model(GOOD, GOOD, context=2000)
    await describe(dialogue(*(f"turn {n} " + "word " * 20 for n in range(80))), chat, LARGE, Prompts())
    sent = chat.asked[0].messages[-1].text
    assert "turn 79 " in sent and "turn 0 " not in sent
    assert sum(estimate_tokens(m.text) for m in chat.asked[0].messages) + chat.asked[0].max_tokens < 2000
