"""ms-swift: JSON Lines of `messages`, as its own standard columns.

`loss` of a message says whether it is learnt: of a trace that is the last answer alone. GRPO's rewards are handed every
further column of a row, `solution` among them.
"""

from __future__ import annotations

from .base import Example, Part, Row, Target, resource
from .convert import Conversion


def _sft(example: Example) -> Row:
    before = [{**m, "loss": False} if m["role"] == "assistant" else m for m in example.placed()]
    answer = {"role": "assistant", "content": example.reply("completion"), "loss": True}
    return {"messages": [*before, answer], **_images(example), **example.identity}


def _preference(example: Example) -> Row:
    answer = {"role": "assistant", "content": example.reply("chosen")}
    return {
        "messages": [*example.placed(), answer],
        "rejected_response": example.reply("rejected"),
        **_images(example),
        **example.identity,
    }


def _prompt(example: Example) -> Row:
    needs = example.needs
    return {
        "messages": example.placed(),
        "solution": needs.pop("reference"),
        **needs,
        **_images(example),
        **example.identity,
    }


def _images(example: Example) -> Row:
    return {"images": [p.path for p in example.pictures]} if "images" in example.row else {}


def _usage(done: Conversion) -> str:
    return resource("ms-swift.md").format(folder=done.path)


TARGET = Target(
    name="ms-swift",
    title="ms-swift",
    demands_turns=True,
    parts={
        "traces": Part("sft", _sft, pictures="files"),
        "preferences": Part("preference", _preference, pictures="files"),
        "prompts": Part("prompts", _prompt, pictures="files"),
    },
    usage=_usage,
)
