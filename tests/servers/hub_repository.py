"""What the Hub's stand-in keeps and answers with: repositories in memory, their files, refusals."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Blob:
    data: bytes
    is_lfs: bool

    @property
    def git_oid(self) -> str:
        return hashlib.sha1(b"blob %d\0" % len(self.data) + self.data).hexdigest()

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def etag(self) -> str:
        return self.sha256 if self.is_lfs else self.git_oid


@dataclass
class Repo:
    """`commits`: oid -> path -> blob, the newest last; `messages` beside them."""

    id: str
    private: bool
    commits: dict[str, dict[str, Blob]] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)

    def commit(self, files: dict[str, Blob], message: str) -> str:
        oid = hashlib.sha1(f"{self.id}{len(self.commits)}{message}".encode()).hexdigest()
        self.commits[oid] = files
        self.messages.append(message)
        self.branches["main"] = oid
        return oid

    def resolve(self, revision: str) -> str | None:
        oid = self.branches.get(revision) or self.tags.get(revision) or revision
        return oid if oid in self.commits else None


class Refusal(Exception):
    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code


@dataclass
class Answer:
    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
