"""The transport against a server that misbehaves on purpose, over a real socket."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import Counter

import orjson
import pytest

from ser_toolkit.errors import RecordError, RemoteError, UsageError
from ser_toolkit.llm import openai_transport
from ser_toolkit.llm.chat import Image, Message, Reply, Request
from ser_toolkit.llm.openai import OpenAIChat, open_model
from ser_toolkit.llm.openai_wire import Dialect, encode, form_for
from ser_toolkit.llm.structured import ask_json
from ser_toolkit.recipe import Llm
from tests.servers.openai_stand_in import StandIn, hash_reply

SCHEMA = {"type": "object", "properties": {"keep": {"type": "boolean"}}, "required": ["keep"]}
PHOTO = Image(b"\xff\xd8\xffphoto", "image/jpeg")


@pytest.fixture(scope="module")
def stand_in():
    with StandIn() as server:
        yield server


@pytest.fixture
def server(stand_in, monkeypatch):
    """The stand-in, well-behaved again; pauses are a fiftieth, so that tests are quick."""
    stand_in.reset()
    monkeypatch.setattr(openai_transport, "FIRST_PAUSE_S", 0.01)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return stand_in


def chat_at(*servers: StandIn, **settings) -> OpenAIChat:
    return open_model("stand-in", Llm(base_url=tuple(s.base_url for s in servers), **settings))


def ask(text: str = "Hello", **parameters) -> Request:
    return Request((Message("user", text),), **parameters)


def right_answer(request: Request) -> str:
    return hash_reply(orjson.loads(encode(request, "stand-in", form_for(request, Dialect(images=True)))))


async def run(chat: OpenAIChat, requests: list[Request], concurrency: int = 32) -> list[Reply]:
    slots = asyncio.Semaphore(concurrency)

    async def one(request: Request) -> Reply:
        async with slots:
            return await chat.complete(request)

    try:
        return await asyncio.gather(*(one(r) for r in requests))
    finally:
        await chat.aclose()


async def kind_of(chat: OpenAIChat, request: Request | None = None) -> RecordError:
    with pytest.raises(RecordError) as caught:
        await run(chat, [request or ask()])
    return caught.value


async def test_all_300_of_300_are_right_whatever_goes_wrong(server):
    faults = {"429": 0.05, "cut": 0.02, "half": 0.02, "500": 0.03, "503": 0.02, "drop": 0.03}
    server.reset(faults=faults, retry_after="0.2", seed=4, latency_s=0.005)
    chat = chat_at(server)
    requests = [ask(f"record {i}", seed=i) for i in range(300)]
    replies = await run(chat, requests)
    assert [r.text for r in replies] == [right_answer(r) for r in requests]
    counts = server.stats()
    assert all(counts[name] > 0 for name in faults)
    assert counts["calls"] == 300 + sum(chat.meter.retries.values())
    names = {
        "429": "429",
        "cut": "cut body",
        "half": "malformed body",
        "500": "500",
        "503": "503",
        "drop": "dropped connection",
    }
    assert chat.meter.retries == Counter({names[f]: counts[f] for f in faults})
    assert chat.meter.calls == 300


async def test_retry_after_is_waited_out_and_holds_up_nobody_else(server):
    server.reset(script=["429"], retry_after="1")
    chat = chat_at(server)
    started = time.monotonic()

    async def late(request: Request) -> float:
        await chat.complete(request)
        return time.monotonic() - started

    ended = await asyncio.gather(*(late(ask(f"{i}")) for i in range(20)))
    await chat.aclose()
    assert sum(t >= 1.0 for t in ended) == 1
    assert sorted(ended)[-2] < 0.9


async def test_a_hanging_server_is_a_timeout_after_all_retries(server):
    server.reset(faults={"hang": 1.0})
    error = await kind_of(chat_at(server, timeout_s=0.15, max_retries=2))
    assert error.kind == "timeout" and "3 tries" in error.reason
    assert server.stats()["calls"] == 3


async def test_a_call_that_hangs_once_is_made_again(server):
    server.reset(script=["hang", "hang"])
    chat = chat_at(server, timeout_s=0.3)
    assert (await run(chat, [ask()]))[0].text == right_answer(ask())
    assert chat.meter.retries == {"timeout": 2}


async def test_a_server_that_stays_broken_is_unavailable(server):
    server.reset(faults={"502": 1.0})
    error = await kind_of(chat_at(server, max_retries=3))
    assert error.kind == "unavailable" and "502" in error.reason
    assert server.stats()["calls"] == 4


async def test_what_is_cut_each_time_is_never_taken_for_a_reply(server):
    server.reset(faults={"cut": 0.5, "half": 0.5})
    assert (await kind_of(chat_at(server, max_retries=4))).kind == "unavailable"


async def test_nobody_listening_ends_the_run_soon(monkeypatch):
    monkeypatch.setattr(openai_transport, "FIRST_PAUSE_S", 0.01)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(RemoteError, match="no model server answers") as caught:
        await run(open_model("m", Llm(base_url=(url,))), [ask()])
    assert "llm.base_url" in caught.value.hint


@pytest.mark.parametrize("status", ["401", "402", "403", "404", "301", "429:insufficient_quota", "400:model_not_found"])
async def test_what_fails_for_every_request_ends_the_run_at_once(server, status):
    server.reset(script=[status])
    with pytest.raises(RemoteError) as caught:
        await run(chat_at(server), [ask()])
    assert caught.value.hint and server.stats()["calls"] == 1


async def test_the_key_goes_into_one_header_and_no_error(server, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("SOME_KEY", "sk-right")
    server.reset(key="sk-right")
    assert (await run(chat_at(server, api_key_env="SOME_KEY"), [ask()]))[0].text
    assert server.received()[0]["headers"]["authorization"] == "Bearer sk-right"

    monkeypatch.setenv("SOME_KEY", "sk-wrong")
    with pytest.raises(RemoteError) as caught:
        await run(chat_at(server, api_key_env="SOME_KEY"), [ask()])
    assert "$SOME_KEY" in caught.value.hint
    server.reset(script=["400"])
    error = await kind_of(chat_at(server, api_key_env="SOME_KEY"))
    assert "sk-wrong" not in f"{caught.value}{caught.value.__cause__!r}{error}{caplog.text}"


@pytest.mark.parametrize("key", ["sk-one\nsk-two", "Bearer sk-one", "sk-\u4f60"])
def test_a_key_that_no_header_can_carry_is_told_at_once_and_never_shown(monkeypatch, key):
    monkeypatch.setenv("SOME_KEY", key)
    with pytest.raises(UsageError, match=r"\$SOME_KEY") as caught:
        open_model("m", Llm(base_url=("http://127.0.0.1:9/v1",), api_key_env="SOME_KEY"))
    assert "sk-" not in f"{caught.value} {caught.value.hint}"


async def test_without_a_key_no_header_is_sent_and_a_401_says_where_it_belongs(server):
    await run(chat_at(server), [ask()])
    assert "authorization" not in server.received()[0]["headers"]
    server.reset(key="sk-right")
    with pytest.raises(RemoteError) as caught:
        await run(chat_at(server), [ask()])
    assert caught.value.hint == "put the key in $OPENAI_API_KEY"


@pytest.mark.parametrize("status", ["400", "413", "422"])
async def test_a_refused_request_concerns_its_record_alone(server, status):
    server.reset(script=[status])
    error = await kind_of(chat_at(server))
    assert error.kind == "refused_request" and f"told to answer {status}" in error.reason
    assert server.stats()["calls"] == 1


async def test_a_withheld_reply_is_a_reply(server):
    server.reset(script=["400:content_filter", "filter"])
    replies = await run(chat_at(server), [ask(), ask()], concurrency=1)
    assert [r.finish_reason for r in replies] == ["content_filter"] * 2


async def test_a_server_without_response_format_is_asked_in_words_from_then_on(server):
    server.reset(refuses=["response_format"])
    chat = chat_at(server)
    for i in range(3):
        value, _ = await ask_json(chat, ask(f"Is {i} kind?"), SCHEMA)
        assert isinstance(value["keep"], bool)
    await chat.aclose()
    assert [("response_format" in b) for b in server.bodies()] == [True, False, False, False]


async def test_images_are_on_the_wire_until_the_server_refuses_them_once(server, caplog):
    seen = [Request((Message("user", f"Look {i}.", (PHOTO,)),)) for i in range(3)]
    await run(chat_at(server), seen[:1])
    (part, _) = server.bodies()[0]["messages"][0]["content"]
    assert part["image_url"]["url"] == "data:image/jpeg;base64,/9j/cGhvdG8="

    server.reset(refuses=["images"])
    chat = chat_at(server)
    replies = await run(chat, seen, concurrency=1)
    assert all(r.text for r in replies) and chat.vision
    assert [isinstance(b["messages"][0]["content"], list) for b in server.bodies()] == [True, False, False, False]
    assert caplog.text.count("images") == 1


async def test_images_are_never_sent_or_always_as_the_recipe_says(server):
    seen = Request((Message("user", "Look.", (PHOTO,)),))
    chat = chat_at(server, vision="false")
    assert not chat.vision
    await run(chat, [seen])
    assert server.bodies()[0]["messages"][0]["content"] == "Look."
    server.reset(refuses=["images"])
    assert (await kind_of(chat_at(server, vision="true"), seen)).kind == "refused_request"


async def test_a_model_with_other_parameters_is_met(server, caplog):
    server.reset(refuses=["max_tokens", "temperature"])
    await run(chat_at(server), [ask("a"), ask("b")], concurrency=1)
    *_, last = server.bodies()
    assert last["max_completion_tokens"] == 512 and not {"max_tokens", "temperature"} & set(last)
    assert server.stats()["calls"] == 4 and caplog.text.count("temperature") == 1


async def test_urls_are_balanced_by_load_and_a_dead_one_rests(server):
    with StandIn(latency_s=0.02) as other, StandIn() as dead:
        server.reset(latency_s=0.02)
        chat = chat_at(server, other)
        await run(chat, [ask(f"{i}") for i in range(100)], concurrency=20)
        assert abs(server.stats()["calls"] - other.stats()["calls"]) <= 10

        dead.__exit__()
        server.reset(latency_s=0.02)
        chat = chat_at(server, dead)
        requests = [ask(f"{i}") for i in range(200)]
        assert [r.text for r in await run(chat, requests, concurrency=8)] == [right_answer(r) for r in requests]
        assert 3 <= chat.meter.retries["no connection"] <= 20


async def test_the_faster_of_two_servers_gets_more(server):
    with StandIn(latency_s=0.1) as slow:
        server.reset(latency_s=0.01)
        await run(chat_at(server, slow), [ask(f"{i}") for i in range(120)], concurrency=12)
        assert server.stats()["calls"] > 2 * slow.stats()["calls"]


async def test_a_429_of_one_server_is_taken_by_the_other(server):
    with StandIn() as other:
        server.reset(faults={"429": 1.0}, retry_after="30")
        started = time.monotonic()
        replies = await run(chat_at(server, other), [ask(f"{i}") for i in range(10)])
        assert len(replies) == 10 and time.monotonic() - started < 5


def test_a_model_may_be_used_in_one_event_loop_after_another(server):
    chat = chat_at(server)

    async def once() -> str:
        try:
            return (await chat.complete(ask())).text
        finally:
            await chat.aclose()

    assert asyncio.run(once()) == asyncio.run(once()) == right_answer(ask())


async def test_the_openai_package_itself_understands_the_stand_in(server):
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=server.base_url, api_key="none") as client:
        answer = await client.chat.completions.create(model="stand-in", messages=[{"role": "user", "content": "Hello"}])
    assert answer.choices[0].message.content == hash_reply(server.bodies()[0])
    assert answer.choices[0].finish_reason == "stop" and answer.usage is not None
