"""What every chat model must do, asked of each backend that can be had here.

openai talks to the stand-in over a real socket; embedded runs the real built-in model; vllm waits for a GPU.
"""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

import pytest

from ser_toolkit.errors import RemoteError
from ser_toolkit.llm.chat import ChatModel, Message, Request
from ser_toolkit.llm.open import open_model
from ser_toolkit.llm.structured import ask_json, extract_json
from ser_toolkit.recipe import Llm
from tests.needs import lacking
from tests.servers.openai_stand_in import StandIn

SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"type": "boolean"}, "reason": {"type": "string", "maxLength": 40}},
    "required": ["verdict", "reason"],
}


def has_gpu() -> bool:
    if find_spec("vllm") is None:
        return False
    import torch

    return torch.cuda.is_available()


@pytest.fixture(
    scope="module",
    params=[
        "openai",
        pytest.param("embedded", marks=pytest.mark.slow),
        pytest.param("vllm", marks=pytest.mark.skipif(not has_gpu(), reason="vllm wants its extra and a GPU")),
    ],
)
def chat(request):
    if request.param == "openai":
        with StandIn(latency_s=0.01) as server:
            model = open_model(Llm(model="openai:stand-in", base_url=(server.base_url,)))
            yield model
            asyncio.run(model.aclose())
        return
    spec = {"embedded": "embedded", "vllm": "vllm:HuggingFaceTB/SmolLM2-135M-Instruct"}[request.param]
    try:
        model = open_model(Llm(model=spec, context_tokens=1024))
    except RemoteError as exc:
        lacking(f"the model cannot be fetched here: {exc.message}")
    yield model
    asyncio.run(model.aclose())


def ask(text: str, **parameters) -> Request:
    system = Message("system", "You are a caring supporter. Answer in one or two warm sentences.")
    return Request((system, Message("user", text)), **{"max_tokens": 32, "seed": 7, **parameters})


def test_it_is_a_chat_model_that_says_who_it_is(chat):
    assert isinstance(chat, ChatModel)
    assert chat.identity and chat.model
    assert isinstance(chat.vision, bool)
    assert chat.context_tokens is None or chat.context_tokens >= 256
    assert chat.languages <= {"en", "zh"}


async def test_it_answers_and_counts_its_tokens(chat):
    calls, tokens = chat.meter.calls, chat.meter.completion_tokens
    reply = await chat.complete(ask("I lost my job last week.", max_tokens=64))
    assert reply.text.strip() and reply.finish_reason in ("stop", "length")
    assert reply.usage.prompt_tokens > 5 and 0 < reply.usage.completion_tokens <= 64
    assert (chat.meter.calls, chat.meter.completion_tokens) == (calls + 1, tokens + reply.usage.completion_tokens)


async def test_a_seed_fixes_the_text(chat):
    one = await chat.complete(ask("I cannot sleep.", seed=1))
    assert (await chat.complete(ask("I cannot sleep.", seed=1))).text == one.text
    assert (await chat.complete(ask("I cannot sleep.", seed=2))).text != one.text
    greedy = [(await chat.complete(ask("I cannot sleep.", temperature=0.0))).text for _ in range(2)]
    assert greedy[0] == greedy[1]


async def test_the_limit_cuts_and_says_so(chat):
    reply = await chat.complete(ask("Tell me a long story about a lighthouse.", max_tokens=5))
    assert reply.finish_reason == "length"
    assert 0 < reply.usage.completion_tokens <= 5


async def test_a_stop_word_ends_the_text_before_it(chat):
    whole = (await chat.complete(ask("I miss my brother."))).text
    word = whole.split()[3]
    reply = await chat.complete(ask("I miss my brother.", stop=(word,)))
    assert reply.text == whole.partition(word)[0]
    assert reply.finish_reason == "stop"


async def test_a_schema_is_followed(chat):
    request = ask("Is 'I lost my job' said by someone in distress?", schema=SCHEMA, max_tokens=120)
    value = extract_json(await chat.complete(request), SCHEMA)
    assert isinstance(value["verdict"], bool) and isinstance(value["reason"], str)
    value, reply = await ask_json(chat, ask("And 'the sun is out'?", max_tokens=120), SCHEMA)
    assert set(value) >= {"verdict", "reason"} and reply.finish_reason == "stop"


async def test_one_of_the_choices_is_answered(chat):
    reply = await chat.complete(ask("Is this a question?", choices=("True", "False")))
    assert reply.text in ("True", "False")


async def test_log_probabilities_come_where_asked_for(chat):
    assert (await chat.complete(ask("Good morning."))).logprobs is None
    reply = await chat.complete(ask("Good morning.", max_tokens=4, logprobs=2))
    ended = reply.usage.completion_tokens - len(reply.logprobs or ())
    assert reply.logprobs and ended in (0, 1)  # the token that ends a turn has no text
    assert all(entry["logprob"] <= 0 and isinstance(entry["token"], str) for entry in reply.logprobs)


async def test_a_request_gets_the_same_text_alone_and_among_others(chat):
    history = "Seeker: I moved to a new town. Supporter: How was the move? Seeker: I know nobody here. " * 2
    requests = [
        ask(f"{history} ({i // 2}) Write part {i % 2}.", seed=i, temperature=0.7 * (i % 2), max_tokens=24)
        for i in range(6)
    ]
    together = await asyncio.gather(*(chat.complete(r) for r in requests))
    alone = [await chat.complete(r) for r in reversed(requests)][::-1]
    assert [r.text for r in together] == [r.text for r in alone]


async def test_a_call_that_is_given_up_leaves_the_model_usable(chat):
    task = asyncio.create_task(chat.complete(ask("Tell me a story without end.", max_tokens=900)))
    await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await chat.complete(ask("Hello.", max_tokens=4))).text
