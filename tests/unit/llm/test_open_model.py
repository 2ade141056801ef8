import pytest

from ser_toolkit import registry
from ser_toolkit.errors import UsageError
from ser_toolkit.llm.open import open_model
from ser_toolkit.recipe import Llm


def test_the_argument_is_what_follows_the_first_colon(monkeypatch):
    monkeypatch.setattr(registry, "load", lambda kind, name: lambda arg, settings: (kind, name, arg, settings))
    settings = Llm(model="openai:org/model:free")
    assert open_model(settings) == ("models", "openai", "org/model:free", settings)
    assert open_model(Llm(model="embedded"))[1:3] == ("embedded", "")  # pyright: ignore[reportIndexIssue]


def test_an_unknown_backend_lists_the_known():
    with pytest.raises(UsageError) as caught:
        open_model(Llm(model="chatgpt:5"))
    assert "chatgpt" in caught.value.message
    assert caught.value.hint == "known: embedded, local, openai, vllm"


@pytest.mark.parametrize("spec", ["openai", "openai:", "openai:m", "vllm:"])
def test_what_is_missing_is_said(spec):
    with pytest.raises(UsageError) as caught:
        open_model(Llm(model=spec))
    assert caught.value.hint


def test_without_a_server_the_hint_tells_how_to_name_one():
    with pytest.raises(UsageError, match=r"--set llm\.base_url="):
        open_model(Llm(model="openai:gpt-4o-mini"))
