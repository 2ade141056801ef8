"""Filter: one call, three checks, a verdict with its reason; a judge that fails gives no verdict."""

import json

import pytest

from pipelines.stages.filter import CHECKS, filter_is_enforced, judge_dialogue
from ser_toolkit.errors import RecordError
from ser_toolkit.history import estimate_tokens
from ser_toolkit.llm.chat import Reply, Request
from ser_toolkit.llm.meter import UsageMeter
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Filter, Llm, Recipe
from ser_toolkit.schema import Dialogue, Source, Turn

LARGE = Llm(model="openai:m")


class Judge:
    """Gives its answers in turn and keeps what it was asked."""

    identity, model, vision, languages = "here", "judge", False, frozenset()

    def __init__(self, *answers: Reply | object, context_tokens: int | None = None) -> None:
        self.answers, self.context_tokens = list(answers), context_tokens
        self.asked: list[Request] = []
        self.meter = UsageMeter()

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        answer = self.answers.pop(0)
        return answer if isinstance(answer, Reply) else Reply(json.dumps(answer))

    async def aclose(self) -> None: ...


def dialogue(n_turns: int = 4, lang: str = "en") -> Dialogue:
    turns = tuple(
        Turn(speaker="supporter" if i % 2 else "seeker", text=f"turn {i} " + "word " * 20) for i in range(n_turns)
    )
    return Dialogue.model_validate(
        {"id": "d1", "root_id": "d1", "lang": lang, "source": Source(format="x"), "turns": turns, "situation": "Rain."}
    )


def answer(verdict: bool, *failed: str) -> dict[str, object]:
    return {"verdict": verdict, "failed": list(failed), "reason": "It reads so."}


async def judge(chat: Judge, recipe: Recipe | None = None, **fields):
    (verdict,) = await judge_dialogue(dialogue(**fields), chat, recipe or Recipe(llm=LARGE), Prompts())
    return verdict


async def test_a_good_dialogue_is_kept_in_one_call():
    chat = Judge(answer(True))
    verdict = await judge(chat)
    assert (verdict.keep, verdict.failed, verdict.reason) == (True, (), "It reads so.")
    assert (verdict.record_id, verdict.model, verdict.check, verdict.enforced) == ("d1", "judge", "filter@1", True)
    (request,) = chat.asked
    assert all(f"turn {i} " in request.messages[-1].text for i in range(4))
    assert all(check in request.messages[-1].text for check in CHECKS)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("failed", [("machine_written",), ("non_dialogue", "incoherent")])
async def test_a_bad_one_is_not_and_the_checks_are_named(failed, lang):
    verdict = await judge(Judge(answer(False, *failed)), lang=lang)
    assert (verdict.keep, verdict.failed) == (False, failed)


async def test_a_judge_that_contradicts_itself_is_taken_by_the_faults_it_names():
    verdict = await judge(Judge(answer(True, "incoherent")))
    assert (verdict.keep, verdict.failed) == (False, ("incoherent",))


@pytest.mark.parametrize("bad", [Reply("no json"), Reply('{"verdict": tr', "length"), {"verdict": True}, Reply("")])
async def test_an_unreadable_answer_is_asked_for_once_more(bad):
    chat = Judge(bad, answer(True))
    assert (await judge(chat)).keep is True
    assert [r.attempt for r in chat.asked] == [1, 2]


@pytest.mark.parametrize(
    ("replies", "kind"),
    [
        ([Reply("no json"), Reply("none")], "schema"),
        ([answer(True, "boring"), answer(True, "boring")], "schema"),
        ([Reply("{", "length"), Reply("{", "length")], "truncated"),
        ([Reply("", "content_filter")], "filtered"),
    ],
)
async def test_a_judge_that_fails_gives_no_verdict(replies, kind):
    with pytest.raises(RecordError) as caught:
        await judge(Judge(*replies))
    assert caught.value.kind == kind


async def test_a_long_dialogue_is_judged_by_its_end_and_the_reason_says_so():
    chat = Judge(answer(True), context_tokens=900)
    verdict = await judge(chat, n_turns=80)
    sent = chat.asked[0].messages[-1].text
    assert "turn 78 " in sent and "turn 0 " not in sent
    assert estimate_tokens(sent) + chat.asked[0].max_tokens < 900
    first = next(i for i in range(80) if f"turn {i} " in sent)
    assert verdict.reason == f"It reads so. (judged without its first {first} turns)"


def test_the_filter_is_enforced_but_for_the_small_model():
    assert filter_is_enforced(Recipe(llm=LARGE))
    assert not filter_is_enforced(Recipe())
    assert filter_is_enforced(Recipe(filter=Filter(enforce=True)))
    assert not filter_is_enforced(Recipe(llm=LARGE, filter=Filter(enforce=False)))
