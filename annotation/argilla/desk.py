"""One person on an Argilla: an account, a workspace that nobody else is in, and in it a dataset for each kind of item.

So nobody sees another's records or answers. Everything is found again by name; what is there is not made twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from annotation.blinding import view_id
from ser_toolkit.errors import AnnotationError
from ser_toolkit.schema import Lang

from . import form
from .accounts import AccountsFile
from .client import asking

if TYPE_CHECKING:
    from argilla import Argilla, User, Workspace

PAGE = 100
BATCH_BYTES = 4_000_000
BATCH_RECORDS = 100
PROGRESS = ("views", "submitted", "discarded", "drafts")
_SAFE = re.compile(r"[A-Za-z0-9_-]+")
"""What a workspace may be called; an account may have any name."""


class Held:
    """A record as the server has it: `view` is the name of the view; `said` (user, status, values) for each person."""

    __slots__ = ("fields", "id", "said", "view")

    def __init__(self, model: Any) -> None:
        self.id: UUID = model.id
        self.view = str(model.external_id)
        self.fields = {name: _plain(value) for name, value in (model.fields or {}).items() if value is not None}
        self.said: list[tuple[UUID | None, str, Mapping[str, Any] | None]] = [
            (r.user_id, r.status.value, r.values) for r in model.responses
        ]


def _plain(value: Any) -> Any:
    return [message.model_dump() for message in value] if isinstance(value, list) else value


class Shelf:
    """A dataset of one person: items with a pair of replies, or without, in one language."""

    def __init__(self, client: Argilla, url: str, id: Any, lang: Lang) -> None:
        self._client, self._url, self.id = client, url, id
        self.lang: Lang = lang

    def records(self) -> Iterator[Held]:
        """All that it holds, answers with it."""
        offset = 0
        while True:
            with asking(self._url):
                page = self._client.api.records.list(self.id, offset=offset, limit=PAGE, with_suggestions=False)
                held = [Held(model) for model in page]
            yield from held
            if len(held) < PAGE:
                return
            offset += PAGE

    def put(self, new: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Add records by the name of their view, some at a time; one that is there already stays one."""
        from argilla._models import RecordModel

        batch: list[Any] = []
        size = 0
        for view, values in new:
            grown = len(json.dumps(values, ensure_ascii=False))
            if batch and (size + grown > BATCH_BYTES or len(batch) == BATCH_RECORDS):
                self._put(batch)
                batch, size = [], 0
            batch.append(RecordModel(external_id=view, fields=values, suggestions=[]))
            size += grown
        if batch:
            self._put(batch)

    def delete(self, records: Iterable[Held]) -> None:
        """Take records away."""
        for record in records:
            with asking(self._url):
                self._client.api.records.delete(record.id)

    def progress(self, username: str) -> dict[str, int]:
        """How this person stands: views, submitted, discarded, drafts."""
        with asking(self._url):
            total = self._client.api.datasets.get_progress(self.id).total
            own = [p for p in self._client.api.datasets.list_users_progress(self.id) if p.username == username]
        parts = [part for p in own for part in (p.completed, p.pending)]
        counts = (
            total or 0,
            *(sum(getattr(p, status) for p in parts) for status in ("submitted", "discarded", "draft")),
        )
        return dict(zip(PROGRESS, counts, strict=True))

    def _put(self, batch: list[Any]) -> None:
        with asking(self._url):
            self._client.api.records.bulk_upsert(self.id, batch)


class Desk:
    """What one annotator of a round has on the server."""

    def __init__(self, client: Argilla, url: str, key: bytes, annotator: str) -> None:
        """`key` is the round's: it tells two rounds on one server apart, and stays secret."""
        self._client, self._url, self.annotator = client, url, annotator
        name = annotator if _SAFE.fullmatch(annotator) else view_id(key, "desk", annotator)[1:9]
        self.workspace = f"ser-{view_id(key, 'round', '')[1:9]}-{name}"
        self._shelves: dict[bool, Shelf] | None = None

    def open(self, accounts: AccountsFile) -> None:
        """See to the account and the workspace. Raises AnnotationError where the account is more than an annotator's:
        it would see everybody's answers.
        """
        import argilla as rg

        user = self.user()
        if user is None:
            password = accounts.password(self.annotator)
            with asking(self._url):
                user = rg.User(username=self.annotator, password=password, client=self._client).create()
        elif user.role != "annotator":
            raise AnnotationError(
                f"{self.annotator!r} is an {user.role.value} of the Argilla at {self._url} and would see all answers",
                "give this person an account of an annotator's, under another name, and name it with --annotators",
            )
        workspace = self._workspace()
        with asking(self._url):
            if workspace is None:
                workspace = rg.Workspace(name=self.workspace, client=self._client)
                workspace.create()
            if user.id not in {member.id for member in workspace.users}:
                workspace.add_user(user)

    def user(self) -> User | None:
        """The account, if there is one."""
        with asking(self._url):
            return next((u for u in self._client.users if u.username == self.annotator), None)

    def shelves(self) -> dict[bool, Shelf]:
        """The datasets that are there, by whether their items have a pair. One that was left half made goes."""
        import argilla as rg

        if self._shelves is None:
            self._shelves = {}
            workspace = self._workspace()
            with asking(self._url):
                found = self._client.api.datasets.list(workspace.id) if workspace else []
                for model in found:
                    kind = form.KINDS.get(model.name)
                    if kind is None:
                        continue  # none of ours
                    if model.status != "ready":
                        rg.Dataset.from_model(model, self._client).delete()
                        continue
                    has_pair, lang = kind
                    self._must_be_ours(model.id, has_pair, lang)
                    self._shelves[has_pair] = Shelf(self._client, self._url, model.id, lang)
        return self._shelves

    def shelf(self, has_pair: bool, lang: Lang, overrides: Path) -> Shelf:
        """The dataset for this kind of item, made now where it is not there; one that is keeps its language."""
        import argilla as rg

        shelves = self.shelves()
        if has_pair not in shelves:
            with asking(self._url):
                made = rg.Dataset(
                    name=form.DATASETS[has_pair, lang],
                    workspace=self._workspace(),
                    settings=form.settings(lang, has_pair, overrides),
                    client=self._client,
                ).create()
            shelves[has_pair] = Shelf(self._client, self._url, made.id, lang)
        return shelves[has_pair]

    def _workspace(self) -> Workspace | None:
        with asking(self._url):
            return next((w for w in self._client.workspaces if w.name == self.workspace), None)

    def _must_be_ours(self, id: Any, has_pair: bool, lang: Lang) -> None:
        fields = {f.name for f in self._client.api.fields.list(id)}
        questions = {q.name for q in self._client.api.questions.list(id)}
        if (fields, questions) != form.names(has_pair):
            raise AnnotationError(
                f"the dataset {form.DATASETS[has_pair, lang]!r} of {self.annotator} at {self._url} was changed by hand",
                f"delete it in the workspace {self.workspace!r} and push again: answers that were pulled are kept",
            )
