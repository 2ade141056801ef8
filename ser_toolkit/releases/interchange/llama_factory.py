"""LLaMA-Factory: JSON Lines in ShareGPT's shape with OpenAI's tags, and `dataset_info.json` that names them.

Its loader skips a chat that is not user and assistant in turn with a warning only, and an odd number of messages
where an answer is due: a prompt for PPO therefore ends with its reference, or with an empty answer.
"""

from __future__ import annotations

import json
from pathlib import Path

from .alternation import plain
from .base import Example, Part, Row, Target, resource
from .convert import Conversion


def _sft(example: Example) -> Row:
    answer = {"role": "assistant", "content": example.reply("completion")}
    return {"messages": [*example.placed(), answer], **_images(example), **example.identity}


def _preference(example: Example) -> Row:
    pair = {c: {"role": "assistant", "content": example.reply(c)} for c in ("chosen", "rejected")}
    return {"messages": example.placed(), **pair, **_images(example), **example.identity}


def _prompt(example: Example) -> Row:
    answer = {"role": "assistant", "content": plain(example.needs["reference"])[0]}
    return {"messages": [*example.placed(), answer], **_images(example), **example.needs, **example.identity}


def _images(example: Example) -> Row:
    return {"images": [p.path for p in example.pictures]} if "images" in example.row else {}


def _finish(folder: Path, done: Conversion) -> None:
    info = {}
    for name, entry in done.files.items():
        is_pair = entry["config"] == "preferences"
        columns = {"messages": "messages", **({"chosen": "chosen", "rejected": "rejected"} if is_pair else {})}
        if _has_images(folder / name):
            columns["images"] = "images"
        info[_dataset(done, name)] = {
            "file_name": name,
            "formatting": "sharegpt",
            **({"ranking": True} if is_pair else {}),
            "columns": columns,
            "tags": {
                "role_tag": "role",
                "content_tag": "content",
                "user_tag": "user",
                "assistant_tag": "assistant",
                "system_tag": "system",
            },
        }
    (folder / "dataset_info.json").write_text(json.dumps(info, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _has_images(file: Path) -> bool:
    with file.open(encoding="utf-8") as lines:
        return "images" in json.loads(next(lines))


def _dataset(done: Conversion, name: str) -> str:
    return f"{done.slug}_{name.removesuffix('.jsonl').replace('/', '_')}"


def _usage(done: Conversion) -> str:
    names = ", ".join(f"`{_dataset(done, name)}`" for name in done.files)
    return resource("llama-factory.md").format(folder=done.path, datasets=names)


TARGET = Target(
    name="llama-factory",
    title="LLaMA-Factory",
    demands_turns=True,
    parts={
        "traces": Part("sft", _sft, pictures="files"),
        "preferences": Part("preference", _preference, pictures="files"),
        "prompts": Part("prompts", _prompt, pictures="files"),
    },
    usage=_usage,
    finish=_finish,
)
