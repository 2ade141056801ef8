"""What a target is: which files of its own the configs of a release become.

To add one: write a module with a `Target`, declare it under `ser_toolkit.targets` in pyproject.toml, and let a test
load its files with that project's own loader, or check them against its documented shape.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ser_toolkit.media.sniffing import sniff

from .alternation import Chat

if TYPE_CHECKING:
    import pyarrow as pa

    from .convert import Conversion

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of the seeker's last utterance; `path` is relative to the folder that is written, or only a name."""

    data: bytes
    path: str

    @property
    def url(self) -> str:
        """The picture itself, as a data URL."""
        kind = sniff(self.data)
        media_type = kind.media_type if kind else "application/octet-stream"
        return f"data:{media_type};base64,{base64.b64encode(self.data).decode('ascii')}"


@dataclass(frozen=True, slots=True)
class Example:
    """A row of a release as every target needs it.

    `prompt` is in turn and ends with the user (`alternation`); `row` are the release's own columns, `index` its place
    in the split. Texts of `prompt` and of what `reply` gives hold no marks of a template.
    """

    row: Row
    prompt: Chat
    pictures: tuple[Picture, ...]
    split: str
    release: str
    index: int

    @property
    def identity(self) -> Row:
        """Who the row is, under which licence, and of which data it is: columns that loaders leave alone."""
        kept = {key: self.row[key] for key in ("id", "dialogue_id", "root_id", "lang", "licence")}
        return {**kept, "split": self.split, "release": self.release}

    @property
    def needs(self) -> Row:
        """What a reward may ask for beside the answer; a text that is missing is an empty one, since loaders infer
        types from the first rows.
        """
        return {key: self.row[key] or "" for key in ("reference", "persona", "scenario")}

    def reply(self, column: str) -> str:
        """The text of the single message under `completion`, `chosen` or `rejected`."""
        return self.row[column][0]["content"]

    def placed(self, place: str = "<image>") -> Chat:
        """The prompt with a place for each picture before the text of the last user message."""
        *before, last = self.prompt
        return [*before, {**last, "content": place * len(self.pictures) + last["content"]}]


@dataclass(frozen=True, slots=True)
class Part:
    """One config as a folder of the target's: FOLDER/SPLIT.jsonl, or .parquet where there is a `schema`.

    `pictures`: as files beside (`images/`), inside the rows, or not at all. `make` may add columns as it likes.
    """

    folder: str
    make: Callable[[Example], Row]
    schema: pa.Schema | None = None
    pictures: Literal["files", "inside", "none"] = "none"


@dataclass(frozen=True, slots=True)
class Target:
    """A trainer's format.

    `parts`: config -> what it becomes. `unread`: config -> why this trainer reads no such thing. `demands_turns`: its
    own loader refuses, or silently skips, a chat that is not user and assistant in turn, so the limit on changes
    holds. `usage`: how the files are handed over, for README.md. `finish` writes what else belongs there.
    """

    name: str
    title: str
    demands_turns: bool
    parts: Mapping[str, Part]
    usage: Callable[[Conversion], str]
    unread: Mapping[str, str] = field(default_factory=dict)
    finish: Callable[[Path, Conversion], None] = lambda folder, done: None


def resource(name: str) -> str:
    """A text of `files/`: what is written beside the rows, and how they are used."""
    return (Path(__file__).with_name("files") / name).read_text(encoding="utf-8")
