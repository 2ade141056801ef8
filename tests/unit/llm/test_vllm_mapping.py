"""What goes to vLLM and what comes back: the mapping, which needs no GPU."""

from __future__ import annotations

from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from ser_toolkit.errors import UsageError
from ser_toolkit.llm.chat import Image, Message, Request, Usage
from ser_toolkit.llm.vllm import messages, open_model, sampling, to_reply
from ser_toolkit.recipe import Llm

HELLO = (Message("user", "Hello"),)


@pytest.mark.skipif(find_spec("vllm") is not None, reason="the extra is installed")
def test_without_the_extra_the_command_that_mends_it_is_told():
    with pytest.raises(UsageError) as caught:
        open_model("some/model", Llm())
    assert caught.value.hint == "pip install 'ser-toolkit[vllm]'"


def test_sampling_parameters():
    assert sampling(Request(HELLO)) == {"temperature": 0.7, "top_p": 1.0, "max_tokens": 512}
    full = sampling(Request(HELLO, seed=3, stop=("\n",), logprobs=5, top_p=0.9, temperature=0.0, max_tokens=8))
    assert full == {"temperature": 0.0, "top_p": 0.9, "max_tokens": 8, "seed": 3, "stop": ["\n"], "logprobs": 5}


def test_choices_and_schemas_become_structured_outputs():
    assert sampling(Request(HELLO, choices=("True", "False")))["structured_outputs"] == {"choice": ["True", "False"]}
    assert sampling(Request(HELLO, schema={"type": "object"}))["structured_outputs"] == {"json": {"type": "object"}}


def test_images_come_before_the_text_and_only_to_a_model_that_sees():
    request = Request((Message("user", "Look.", (Image(b"x", "image/png"),)),))
    (seen,) = messages(request, vision=True)
    assert [part["type"] for part in seen["content"]] == ["image_url", "text"]
    assert messages(request, vision=False) == [{"role": "user", "content": "Look."}]


def output(reason: str, logprobs=None):
    one = SimpleNamespace(text="Hi there", token_ids=[5, 9], finish_reason=reason, logprobs=logprobs)
    return SimpleNamespace(prompt_token_ids=[1, 2, 3], outputs=[one])


def test_a_finished_output_becomes_a_reply():
    reply = to_reply(output("stop"), Request(HELLO))
    assert (reply.text, reply.finish_reason, reply.usage, reply.logprobs) == ("Hi there", "stop", Usage(3, 2), None)
    assert to_reply(output("length"), Request(HELLO)).finish_reason == "length"


def test_log_probabilities_become_openai_entries():
    def place(token: int, *pairs):
        return {t: SimpleNamespace(logprob=p, decoded_token=f"t{t}") for t, p in ((token, -1.0), *pairs)}

    reply = to_reply(output("stop", [place(5, (7, -0.2)), place(9)]), Request(HELLO, logprobs=1))
    assert reply.logprobs is not None
    assert reply.logprobs[0] == {
        "token": "t5",
        "logprob": -1.0,
        "top_logprobs": [{"token": "t7", "logprob": -0.2}, {"token": "t5", "logprob": -1.0}],
    }
