"""OpenRLHF: JSON Lines whose `prompt`, `completion`, `chosen` and `rejected` are messages for the model's chat
template.

Its SFT and reward data sets know no pictures; its prompts do, as data URLs here. A reward gets one text per prompt,
the `label`: JSON with all that it may need.
"""

from __future__ import annotations

import json

from .base import Example, Part, Row, Target, resource
from .convert import Conversion


def _sft(example: Example) -> Row:
    return {"prompt": example.prompt, "completion": _answer(example, "completion"), **example.identity}


def _preference(example: Example) -> Row:
    pair = {column: _answer(example, column) for column in ("chosen", "rejected")}
    return {"prompt": example.prompt, **pair, **example.identity}


def _prompt(example: Example) -> Row:
    label = {**example.needs, **example.identity}
    images = {"images": [p.url for p in example.pictures]} if "images" in example.row else {}
    return {
        "prompt": example.placed(),
        "label": json.dumps(label, ensure_ascii=False),
        "datasource": example.release,
        **images,
        **label,
    }


def _answer(example: Example, column: str) -> list[Row]:
    return [{"role": "assistant", "content": example.reply(column)}]


def _usage(done: Conversion) -> str:
    return resource("openrlhf.md")


TARGET = Target(
    name="openrlhf",
    title="OpenRLHF",
    demands_turns=False,
    parts={
        "traces": Part("sft", _sft),
        "preferences": Part("preference", _preference),
        "prompts": Part("prompts", _prompt, pictures="inside"),
    },
    usage=_usage,
)
