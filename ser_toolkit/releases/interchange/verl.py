"""verl: Parquet. SFT rows are `messages`; RL rows are a prompt with `reward_model.ground_truth` and `extra_info`.

verl's multi-turn SFT learns every answer of a chat, and of ours only the last has the three steps: a dataset class of
its own that masks the others is written beside (`files/verl_last_reply.txt`).
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from .base import Example, Part, Row, Target, resource
from .convert import Conversion

_TEXT = pa.string()
_MESSAGES = pa.list_(pa.struct([("role", _TEXT), ("content", _TEXT)]))
_IDENTITY = {k: _TEXT for k in ("id", "dialogue_id", "root_id", "lang", "licence", "split", "release")}
_NEEDS = {k: _TEXT for k in ("reference", "persona", "scenario")}

_SFT = pa.schema([("messages", _MESSAGES), *_IDENTITY.items()])
_PROMPTS = pa.schema(
    [
        ("data_source", _TEXT),
        ("prompt", _MESSAGES),
        ("ability", _TEXT),
        ("reward_model", pa.struct([("style", _TEXT), ("ground_truth", _TEXT)])),
        ("extra_info", pa.struct([("index", pa.int64()), *_NEEDS.items(), *_IDENTITY.items()])),
    ]
)


def _sft(example: Example) -> Row:
    answer = {"role": "assistant", "content": example.reply("completion")}
    return {"messages": [*example.placed(), answer], **_images(example), **example.identity}


def _prompt(example: Example) -> Row:
    return {
        "data_source": example.release.rpartition("-")[0],
        "prompt": example.placed(),
        "ability": "emotional_support",
        "reward_model": {"style": "rule", "ground_truth": example.needs["reference"]},
        "extra_info": {"index": example.index, **example.needs, **example.identity},
        **_images(example),
    }


def _images(example: Example) -> Row:
    return {"images": [{"bytes": p.data, "path": p.path} for p in example.pictures]} if "images" in example.row else {}


def _finish(folder: Path, done: Conversion) -> None:
    (folder / "last_reply.py").write_text(resource("verl_last_reply.txt"), encoding="utf-8")


def _usage(done: Conversion) -> str:
    return resource("verl.md")


TARGET = Target(
    name="verl",
    title="verl",
    demands_turns=False,
    parts={
        "traces": Part("sft", _sft, _SFT, pictures="inside"),
        "prompts": Part("prompts", _prompt, _PROMPTS, pictures="inside"),
    },
    unread={"preferences": "verl trains neither by preferences nor a reward model: TRL, OpenRLHF and others do"},
    usage=_usage,
    finish=_finish,
)
