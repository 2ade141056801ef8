"""Builds against a loopback model server, in this process or as `ser` in another."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.openai_stand_in import StandIn

REPLIES = Path(__file__).parents[1] / "servers" / "ser_replies.py"


@pytest.fixture
def model_server() -> Iterator[StandIn]:
    with StandIn(reply=f"{REPLIES}:build") as server:
        yield server


@pytest.fixture
def llm(model_server: StandIn) -> dict[str, Any]:
    """`build(**llm)`: the model settings for the stand-in."""
    return {"model": "openai:stand-in", "sets": [f"llm.base_url={model_server.base_url}"]}


TEXT = """
brother evening kitchen letter winter garden teacher station promise doctor sister argue forget borrow listen hurry
gather answer wonder bicycle curtain narrow lantern sudden wooden careful orange again always barely outside together
yesterday although until perhaps somewhere pocket corner ticket blanket morning sugar paper
"""
"""Words that say nothing of a crisis, however they fall together."""


def write_dialogues(path: Path, count: int, *, rounds: int = 3, first: int = 0) -> Path:
    """A JSON Lines file of dialogues in OpenAI's messages, no two alike; turn r of dialogue n says "day n, part r"."""
    with path.open("w", encoding="utf-8") as file:
        for n in range(first, first + count):
            messages = []
            for r in range(rounds):
                for role in ("user", "assistant"):
                    words = random.Random(f"{n} {r} {role}").choices(TEXT.split(), k=16)
                    messages.append({"role": role, "content": f"{' '.join(words)}, day {n}, part {r}."})
            file.write(json.dumps({"id": f"d{n}", "messages": messages}) + "\n")
    return path
