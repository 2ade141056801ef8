"""The filter sees both conversations and names the fault; quality is four whole numbers or missing."""

import pytest

from pipelines.stages.rewriting.compare import CHECKS, DIMENSIONS, compare, rewrite_filter_is_enforced, score
from ser_toolkit.errors import RecordError
from ser_toolkit.history import estimate_tokens
from ser_toolkit.llm.chat import Reply
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Llm, Recipe, Rewrite
from ser_toolkit.schema import Speaker
from tests.unit.stages.rewriting.making import LARGE, Model, dialogue

SEEKER = Speaker(role="seeker", attributes={"disc": {"Dominance": 7, "Influence": 2, "Steadiness": 1, "Compliance": 5}})


def pair(lang="en", turns=4):
    one, two = (dialogue(*(f"{word} {n} " + "x " * 20 for n in range(turns)), lang=lang) for word in ("old", "new"))
    return one, two.model_copy(update={"id": "d1-rw-1", "rewritten_from": "d1", "speakers": (SEEKER,)})


def answer(verdict: bool, *failed: str) -> dict[str, object]:
    return {"verdict": verdict, "failed": list(failed), "reason": "It reads so."}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    ("given", "keep", "failed"),
    [
        (answer(True), True, ()),
        (answer(False, "semantic_deviation"), False, ("semantic_deviation",)),
        (answer(True, "incoherent"), False, ("incoherent",)),
    ],
)
async def test_a_verdict_beside_the_original(lang, given, keep, failed):
    chat = Model(given)
    (verdict,) = await compare(*pair(lang), chat, LARGE, Prompts())
    assert (verdict.record_id, verdict.keep, verdict.failed, verdict.enforced) == ("d1-rw-1", keep, failed, True)
    sent = chat.asked[0].messages[-1].text
    assert all(f"old {n} " in sent and f"new {n} " in sent for n in range(4))
    assert sent.index("old 3 ") < sent.index("new 0 ")
    assert all(check in sent for check in CHECKS)


async def test_both_are_cut_at_the_same_turn():
    chat = Model(answer(True), context=1800)
    (verdict,) = await compare(*pair(turns=60), chat, LARGE, Prompts())
    sent = chat.asked[0].messages[-1].text
    first = {word: min(n for n in range(60) if f"{word} {n} " in sent) for word in ("old", "new")}
    assert first["old"] == first["new"] > 0
    assert f"without the first {first['old']} turns" in verdict.reason
    assert estimate_tokens(sent) + chat.asked[0].max_tokens < 1800


@pytest.mark.parametrize("lang", ["en", "zh"])
async def test_quality_is_four_scores(lang):
    chat = Model({name: n for n, name in enumerate(DIMENSIONS)})
    (quality,) = await score(*pair(lang), chat, LARGE, Prompts())
    assert [getattr(quality, name) for name in DIMENSIONS] == [0, 1, 2, 3]
    assert (quality.record_id, quality.model, quality.prompt) == ("d1-rw-1", "writer", "rewrite_quality@1")
    assert "Dominance 7/10, Influence 2/10" in chat.asked[0].messages[-1].text


@pytest.mark.parametrize("bad", [4, 2.5, "3", None])
async def test_a_score_that_cannot_be_read_is_missing(bad):
    given = dict.fromkeys(DIMENSIONS, 3) | {"role_consistency": bad}
    with pytest.raises(RecordError) as caught:
        await score(*pair(), Model(given, given), LARGE, Prompts())
    assert caught.value.kind == "schema"
    with pytest.raises(RecordError, match="withheld"):
        await score(*pair(), Model(Reply("", "content_filter")), LARGE, Prompts())


def test_the_comparison_is_enforced_but_for_the_small_model():
    assert rewrite_filter_is_enforced(Recipe(llm=Llm(model="openai:m")))
    assert not rewrite_filter_is_enforced(Recipe())
    assert rewrite_filter_is_enforced(Recipe(rewrite=Rewrite(enforce=True)))
