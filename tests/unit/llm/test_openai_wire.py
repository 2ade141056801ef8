from __future__ import annotations

from dataclasses import replace
from email.utils import formatdate
from time import time

import orjson
import pytest

from ser_toolkit.errors import UsageError
from ser_toolkit.llm.chat import Image, Message, Request
from ser_toolkit.llm.openai import base_url, open_model
from ser_toolkit.llm.openai_transport import LONGEST_RETRY_AFTER_S, retry_after_s
from ser_toolkit.llm.openai_wire import Dialect, MalformedReply, Refusal, concede, decode, encode, form_for
from ser_toolkit.recipe import Llm

PHOTO = Image(b"\xff\xd8\xffphoto", "image/jpeg")
SEEN = Request((Message("system", "Be kind."), Message("user", "How am I?", (PHOTO,))), seed=3)
SCHEMA = {"type": "object", "properties": {"keep": {"type": "boolean"}}, "required": ["keep"]}


def body(request: Request, dialect: Dialect | None = None) -> dict:
    return orjson.loads(encode(request, "m", form_for(request, dialect or Dialect(images=True))))


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("http://localhost:8000/v1/", "http://localhost:8000/v1"),
        ("localhost:8000", "http://localhost:8000/v1"),
        ("127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("gpu7:30000", "http://gpu7:30000/v1"),
        ("api.openai.com/v1", "https://api.openai.com/v1"),
        ("HTTPS://API.OpenAI.com/v1", "https://api.openai.com/v1"),
        (" https://host.example/openai/chat/completions/ ", "https://host.example/openai"),
        ("https://host.example/deployments/d?api-version=1", "https://host.example/deployments/d?api-version=1"),
    ],
)
def test_base_urls_are_normalised(written, normal):
    assert str(base_url(written)) == normal


@pytest.mark.parametrize("wrong", ["", "ftp://host/v1", "http://", "http://host:port/v1"])
def test_what_is_no_base_url_is_refused(wrong):
    with pytest.raises(UsageError):
        base_url(wrong)


def test_identity_is_the_set_of_urls_or_the_name_given():
    urls = ("http://b:1/v1/", "http://a:1", "b:1")
    assert open_model("m", Llm(base_url=urls)).identity == "http://a:1/v1,http://b:1/v1"
    assert open_model("m", Llm(base_url=urls, identity="pool")).identity == "pool"


def test_the_key_is_in_no_repr(monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-secret")
    chat = open_model("m", Llm(base_url=("a:1",), api_key_env="MY_KEY"))
    assert "sk-secret" not in repr(chat) + repr(chat._transport)


def test_a_request_is_written_with_its_image_first():
    sent = body(SEEN)
    assert sent["messages"][0] == {"role": "system", "content": "Be kind."}
    image, text = sent["messages"][1]["content"]
    assert image["image_url"]["url"] == "data:image/jpeg;base64,/9j/cGhvdG8="
    assert text == {"type": "text", "text": "How am I?"}
    assert (sent["model"], sent["max_tokens"], sent["seed"]) == ("m", 512, 3)
    assert not {"stop", "top_p", "logprobs", "response_format"} & set(sent)


def test_a_text_only_model_gets_plain_text():
    assert body(SEEN, Dialect(images=False))["messages"][1]["content"] == "How am I?"


def test_a_schema_goes_as_response_format_or_into_the_prompt():
    request = Request((Message("user", "Judge."),), schema=SCHEMA)
    assert body(request)["response_format"]["json_schema"]["schema"] == SCHEMA
    asked = body(request, Dialect(images=True, schemas_refused={orjson.dumps(SCHEMA)}))
    assert "response_format" not in asked
    assert asked["messages"][0]["content"].startswith("Judge.\n\nAnswer with one JSON value")
    assert orjson.dumps(SCHEMA).decode() in asked["messages"][0]["content"]


def test_choices_are_asked_for_in_the_last_user_message():
    messages = (Message("user", "Is it so?", (PHOTO,)), Message("assistant", "Let me see."))
    asked = body(Request(messages, choices=("True", "False")))
    assert asked["messages"][0]["content"][-1]["text"].endswith("True | False")
    assert asked["messages"][1]["content"] == "Let me see."
    assert asked["structured_outputs"] == {"choice": ["True", "False"]}


def test_choices_that_the_prompt_names_are_not_named_twice_and_a_server_may_refuse_the_parameter():
    request = Request((Message("user", "True or False?"),), choices=("True", "False"), choices_named=True)
    assert body(request)["messages"][0]["content"] == "True or False?"
    refusal = Refusal(400, "Unrecognized request argument supplied: structured_outputs")
    form = form_for(request, Dialect(images=True))
    poorer = concede(refusal, request, form, may_drop_images=True)
    assert poorer is not None and "structured_outputs" not in orjson.loads(encode(request, "m", poorer))
    assert concede(refusal, request, poorer, may_drop_images=True) is None
    assert request.key("t", "m") != replace(request, choices_named=False).key("t", "m")


@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        {},
        {"choices": []},
        {"choices": [None]},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": 7}}]},
        {"error": {"message": "overloaded"}},
        {"choices": "x"},
    ],
)
def test_what_is_no_completion_is_malformed(payload):
    with pytest.raises(MalformedReply):
        decode(payload)


def completion(message: dict, finish: str | None = "stop", **rest) -> dict:
    return {"choices": [{"message": message, "finish_reason": finish}], **rest}


def test_replies_are_read_as_servers_write_them():
    plain = decode(completion({"content": "Hi"}, usage={"prompt_tokens": 3, "completion_tokens": 1}))
    assert (plain.text, plain.finish_reason, plain.usage.prompt_tokens, plain.usage.completion_tokens) == (
        "Hi",
        "stop",
        3,
        1,
    )
    assert decode(completion({"content": "Hi"}, "length")).finish_reason == "length"
    assert decode(completion({"content": None}, "content_filter")).finish_reason == "content_filter"
    assert decode(completion({"content": "Hi"}, None)).finish_reason == "stop"
    assert decode(completion({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]})).text == "ab"
    refused = decode(completion({"content": None, "refusal": "I cannot help with that."}))
    assert (refused.text, refused.finish_reason) == ("I cannot help with that.", "content_filter")
    entry = {"token": "Hi", "logprob": -0.1, "top_logprobs": []}
    choice = {"message": {"content": "Hi"}, "finish_reason": "stop", "logprobs": {"content": [entry]}}
    assert decode({"choices": [choice]}).logprobs == [entry]


def test_retry_after_in_seconds_milliseconds_or_as_a_date():
    assert retry_after_s("1") == 1.0
    assert retry_after_s("1.5") == 1.5
    assert retry_after_s("7", "250") == 0.25
    assert retry_after_s("-3") == 0.0
    assert retry_after_s("86400") == LONGEST_RETRY_AFTER_S
    assert 2.0 < (retry_after_s(formatdate(time() + 5, usegmt=True)) or 0) <= 5.0
    assert retry_after_s(formatdate(time() - 5, usegmt=True)) == 0.0
    assert retry_after_s(None) is retry_after_s("soon") is retry_after_s("nan") is None


def test_a_refusal_is_met_by_giving_up_one_thing_at_a_time():
    request = Request(SEEN.messages, schema=SCHEMA)
    rich = form_for(request, Dialect(images=True))
    about_images = Refusal(400, "This model does not support image input")
    assert concede(about_images, request, rich, may_drop_images=True) == form_for(request, Dialect(images=False))
    in_prompt = concede(about_images, request, rich, may_drop_images=False)
    assert in_prompt is not None and in_prompt.images and in_prompt.schema_in_prompt
    assert concede(about_images, request, in_prompt, may_drop_images=False) is None
    renamed = concede(Refusal(400, "Use 'max_completion_tokens' instead"), SEEN, rich, may_drop_images=False)
    assert renamed is not None and renamed.max_tokens == "max_completion_tokens"
    assert concede(Refusal(400, "too long"), Request((Message("user", "x"),)), rich, may_drop_images=True) is None


def test_bodies_are_of_the_openai_packages_type():
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
    from pydantic import TypeAdapter

    full = Request(SEEN.messages, stop=("\n",), schema=SCHEMA, logprobs=3, seed=1, top_p=0.9)
    checked = TypeAdapter(CompletionCreateParamsNonStreaming).validate_python(body(full))
    assert set(checked) == set(body(full))
