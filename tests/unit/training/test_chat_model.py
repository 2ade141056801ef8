"""A local model as a ChatModel: what any backend must do, asked of a tiny model with random weights."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest

from ser_toolkit.errors import RecordError, UsageError
from ser_toolkit.llm.chat import ChatModel, Image, Message, Request
from ser_toolkit.llm.open import open_model
from ser_toolkit.recipe import Llm
from ser_toolkit.training.chat_model import LocalChat, weights_hash
from tests.training_models import text_model, vision_model

pytestmark = pytest.mark.train


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return text_model(tmp_path_factory.mktemp("local") / "tiny", context=512)


@pytest.fixture(scope="module")
def chat(folder) -> LocalChat:
    return LocalChat(str(folder), Llm())


def ask(text: str, **options) -> Request:
    return Request((Message("user", text),), **{"max_tokens": 12, "seed": 7, **options})


async def test_it_is_a_chat_model_found_by_name(folder, chat):
    assert isinstance(chat, ChatModel) and chat.model == "tiny" and chat.context_tokens == 512 and not chat.vision
    found = open_model(Llm(model=f"local:{folder}"))
    assert found.identity == chat.identity
    with pytest.raises(UsageError, match="no model is named"):
        open_model(Llm(model="local"))


async def test_a_seed_fixes_the_text_alone_and_among_others(chat):
    requests = [ask("I cannot sleep.", seed=i, temperature=1.0) for i in range(3)]
    together = [r.text for r in await asyncio.gather(*(chat.complete(r) for r in requests))]
    assert [(await chat.complete(r)).text for r in reversed(requests)][::-1] == together
    assert len(set(together)) == 3
    greedy = [(await chat.complete(ask("Hi.", temperature=0.0, seed=i))).text for i in range(2)]
    assert greedy[0] == greedy[1]


async def test_the_limit_cuts_and_a_stop_word_ends(chat):
    whole = await chat.complete(ask("Hi."))
    assert whole.finish_reason == "length" and whole.usage.completion_tokens == 12
    word = whole.text.strip()[2:5]
    stopped = await chat.complete(ask("Hi.", stop=(word,)))
    assert stopped.text == whole.text.partition(word)[0] and stopped.finish_reason == "stop"


async def test_choices_and_log_probabilities(chat):
    assert (await chat.complete(ask("Is it so?", choices=("True", "False")))).text in ("True", "False")
    reply = await chat.complete(ask("Hi.", logprobs=2, max_tokens=4))
    assert len(reply.logprobs or ()) == 4 and all(e["logprob"] <= 0 for e in reply.logprobs or ())
    best = (await chat.complete(ask("Hi.", logprobs=2, max_tokens=4, temperature=0.0))).logprobs or ()
    assert all(e["top_logprobs"][0]["token"] == e["token"] for e in best)


async def test_a_prompt_that_does_not_fit_is_refused(chat):
    with pytest.raises(RecordError, match="are more than 512"):
        await chat.complete(ask("word " * 600))


async def test_a_call_that_is_given_up_leaves_it_usable(chat):
    task = asyncio.create_task(chat.complete(ask("Hi.", max_tokens=480)))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await chat.complete(ask("Hi.", max_tokens=2))).usage.completion_tokens == 2


async def test_a_picture_changes_what_a_model_that_sees_says(tmp_path):
    from PIL import Image as Pillow

    chat = LocalChat(str(vision_model(tmp_path / "sees")), Llm())
    pictures = []
    for colour in ("white", "black"):
        Pillow.new("RGB", (64, 64), colour).save(data := io.BytesIO(), "PNG")
        pictures.append(Image(data.getvalue(), "image/png"))
    seen = [
        await chat.complete(Request((Message("user", "Look.", (p,)),), max_tokens=3, temperature=0.0, logprobs=1))
        for p in pictures
    ]
    assert chat.vision and seen[0].logprobs != seen[1].logprobs


def test_a_folder_is_chatted_with_and_a_run_is_told_by_its_model(folder, tmp_path):
    from pipelines.chatting import chat

    run = tmp_path / "run"
    run.mkdir()
    (run / "model").symlink_to(folder)
    heard = []
    chat(
        str(run), workspace=tmp_path, sets=["llm.max_tokens=256", "llm.temperature=1"], lines=["Hi."], show=heard.append
    )
    assert len(heard) == 1 and heard[0].message == "Hi."
    assert weights_hash(run) == weights_hash(folder)


def test_other_weights_are_another_identity(folder, tmp_path):
    other = text_model(tmp_path / "tiny", seed=1, context=512)
    assert weights_hash(other) != weights_hash(folder) and weights_hash(tmp_path / "absent") is None
