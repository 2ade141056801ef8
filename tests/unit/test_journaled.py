import asyncio

import pytest

from ser_toolkit.errors import RecordError
from ser_toolkit.journal import Journal
from ser_toolkit.llm.chat import Image, Message, Reply, Request
from ser_toolkit.llm.journaled import JournaledChat
from ser_toolkit.llm.meter import UsageMeter


class Scripted:
    identity, model, vision, context_tokens, languages = "here", "m", False, None, frozenset()

    def __init__(self, *answers):
        self.meter = UsageMeter()
        self.answers = list(answers)
        self.asked = []

    async def complete(self, request):
        self.asked.append(request)
        await asyncio.sleep(0)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Reply(answer)

    async def aclose(self):
        pass


def request(text="hi", **fields):
    return Request((Message("user", text),), seed=7, record_id="d", **fields)


@pytest.fixture
def journal(tmp_path):
    journal = Journal(tmp_path / "j.sqlite")
    yield journal
    journal.close()


async def test_a_call_is_made_once(journal):
    model = Scripted("a", "b")
    chat = JournaledChat(model, journal)
    first, again, other = [await chat.complete(r) for r in (request(), request(), request("ho"))]
    assert (first.text, again.text, other.text) == ("a", "a", "b")
    assert (chat.calls, chat.replayed) == (2, 1)


async def test_equal_requests_in_flight_share_one_call(journal):
    chat = JournaledChat(Scripted("a"), journal)
    replies = await asyncio.gather(*(chat.complete(request()) for _ in range(5)))
    assert {r.text for r in replies} == {"a"}
    assert chat.calls == 1


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 0.1},
        {"top_p": 0.5},
        {"max_tokens": 9},
        {"stop": ("x",)},
        {"schema": {"type": "object"}},
        {"choices": ("True",)},
        {"logprobs": 2},
        {"attempt": 2},
    ],
)
async def test_any_change_of_the_request_is_another_call(change):
    assert request().key("i", "m") != request(**change).key("i", "m")


async def test_identity_model_role_image_and_text_enter_the_key_and_the_books_do_not():
    key = request().key("i", "m")
    assert key != request().key("other", "m")
    assert key != request().key("i", "other")
    assert key != Request((Message("system", "hi"),), seed=7).key("i", "m")
    assert key != Request((Message("user", "hi", (Image(b"x", "image/png"),)),), seed=7).key("i", "m")
    assert key == Request((Message("user", "hi"),), seed=7, record_id="other", stage="z").key("i", "m")


async def test_a_refused_request_is_kept_and_a_time_out_is_not(journal):
    model = Scripted(RecordError("refused_request", "too long"), RecordError("timeout", "slow"), "late")
    chat = JournaledChat(model, journal)
    for _ in range(2):
        with pytest.raises(RecordError, match="too long") as caught:
            await chat.complete(request())
        assert caught.value.request_key == request().key("here", "m")
    with pytest.raises(RecordError, match="slow"):
        await chat.complete(request("ho"))
    assert (await chat.complete(request("ho"))).text == "late"
    assert len(model.asked) == 3


async def test_a_retired_reply_leads_to_the_next_attempt(journal):
    model = Scripted("bad", "good")
    chat = JournaledChat(model, journal)
    bad = await chat.complete(request())
    journal.retire([bad.request_key])
    good = await chat.complete(request())
    assert (good.text, model.asked[1].attempt, model.asked[1].seed) == ("good", 2, 8)
    assert (await chat.complete(request())).text == "good"
    assert chat.replayed == 1
