"""A wrong model name or address is told before anything is paid for; a server without a list is no fault."""

from __future__ import annotations

import pytest

from ser_toolkit.errors import RemoteError, UsageError
from ser_toolkit.llm.openai import open_model
from ser_toolkit.recipe import Llm
from tests.servers.openai_stand_in import StandIn


async def check(name: str, *urls: str, **settings: object) -> None:
    chat = open_model(name, Llm(base_url=urls, **settings))  # pyright: ignore[reportArgumentType]
    try:
        await chat.check()
    finally:
        await chat.aclose()


@pytest.fixture(scope="module")
def listing():
    with StandIn(models=["small", "llama3:latest", "openai/*"]) as server:
        yield server.base_url


@pytest.mark.parametrize("name", ["small", "llama3", "openai/gpt-4o"])
async def test_a_listed_name_passes(listing, name):
    await check(name, listing)


async def test_a_name_that_is_not_listed_is_refused_with_the_list(listing):
    with pytest.raises(UsageError, match="serves no model 'smal'") as caught:
        await check("smal", listing)
    assert "small, llama3:latest" in caught.value.hint and "llm.check_model=false" in caught.value.hint
    await check("smal", listing, check_model=False)


async def test_a_server_without_a_list_is_left_to_the_first_call():
    with StandIn() as server:
        await check("anything", server.base_url)


async def test_a_refused_key_is_told_and_not_shown(monkeypatch):
    monkeypatch.setenv("A_KEY", "s3cret")
    with StandIn(models=["m"], key="another") as server:
        with pytest.raises(RemoteError, match="key was refused") as caught:
            await check("m", server.base_url, api_key_env="A_KEY")
        assert "s3cret" not in str(caught.value)


async def test_one_server_of_several_may_be_away_but_not_all(listing):
    nobody = "http://127.0.0.1:9/v1"
    await check("small", nobody, listing)
    with pytest.raises(RemoteError, match="not reachable"):
        await check("small", nobody)
