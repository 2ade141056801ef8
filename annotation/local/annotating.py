"""What an annotator may do: own items, own answers, nothing else. Runs in the ledger's thread."""

from __future__ import annotations

import time
from pathlib import Path

from annotation.guidelines import guidelines
from annotation.items import Answer, Response
from annotation.ledger import Ledger, Task
from ser_toolkit.errors import RecordError
from ser_toolkit.schema import Lang

from .access import Access
from .wire import Draft, DraftStep, Guidelines, Lease, Progress, Submitted, Work

ROUTE = "local"
RECOUNT_S = 20.0
"""How old a count of what is left may be: it goes through all items."""


class NotFound(Exception):
    """No such thing, or not this person's: the two look the same from outside."""


class Annotating:
    """One round, for all its annotators."""

    def __init__(self, ledger: Ledger, overrides: Path | None = None) -> None:
        """`overrides`: the workspace's own guidelines."""
        self.ledger = ledger
        self.access = Access(ledger.state.key)
        self._overrides = overrides
        self._counted: dict[str, tuple[float, int, int]] = {}
        """annotator -> (when, items done then, items left then)."""

    def who(self, token: str) -> str:
        """The annotator with this link. Raises NotFound."""
        state = self.ledger.refresh()  # another process may have called the link back
        people = [a for a, source in state.annotators.items() if source == "person"]
        name = self.access.annotator(token, people, state.links)
        if name is None:
            raise NotFound
        return name

    def next(self, who: str) -> Work:
        """What is on this person's desk, else the next item, leased."""
        return self._work(who, self.ledger.next_task(who, route=ROUTE))

    def save(self, who: str, view: str, draft: Draft) -> None:
        """Keep what was chosen and typed so far."""
        self._must_own(who, view)
        self.ledger.save_draft(view, draft.model_dump(mode="json"))

    def submit(self, who: str, response: Response) -> Submitted:
        """Keep an answer or a skip; it is on disk before this returns. The same once more changes nothing."""
        self._must_own(who, response.view_id)
        if response.skip == "failed":
            raise RecordError("malformed", "only an LLM judge fails")
        accepted = self.ledger.accept(response, route=ROUTE)
        return Submitted(outcome=accepted.outcome, progress=self._progress(who))

    def undo(self, who: str) -> Work | None:
        """The last answer comes back to the screen, as it was; `None` where there is none."""
        undone = self.ledger.undo(who, route=ROUTE)
        if undone is None:
            return None
        task, answer = undone
        self.ledger.save_draft(task.view.id, _as_draft(answer).model_dump(mode="json"))
        return self._work(who, task)

    def renew(self, who: str, view: str) -> Lease:
        """Keep the item reserved for the person who still works on it."""
        self._must_own(who, view)
        task = self.ledger.renew(view)
        return Lease(seconds=None if task is None or task.expires is None else task.expires - time.time())

    def guidelines(self, lang: Lang) -> Guidelines:
        return Guidelines(markdown=guidelines(lang, self._overrides))

    def may_see(self, who: str, view: str, sha256: str) -> None:
        """Raises NotFound unless this picture belongs to an item that was given to this person."""
        item = self.ledger.item(self._must_own(who, view))
        if not any(photo.sha256 == sha256 for turn in item.history for photo in turn.photos):
            raise NotFound

    def _must_own(self, who: str, view: str) -> str:
        showing = self.ledger.state.views.get(view)
        if showing is None or showing.annotator != who:
            raise NotFound
        return showing.item_id

    def _work(self, who: str, task: Task | None) -> Work:
        body = None if task is None else self.ledger.draft(task.view.id)
        return Work(
            view=None if task is None else task.view,
            draft=None if body is None else Draft.model_validate(body),
            progress=self._progress(who),
        )

    def _progress(self, who: str) -> Progress:
        state, now = self.ledger.state, time.time()
        done = len(state.history.get(who, ()))
        when, then, left = self._counted.get(who, (0.0, 0, 0))
        if now - when > RECOUNT_S or left <= done - then:
            then, left = done, state.remaining(who, now)
            self._counted[who] = (now, then, left)
        return Progress(annotator=who, done=done, remaining=max(0, left - (done - then)))


def _as_draft(answer: Answer) -> Draft:
    steps = [DraftStep(label=m.label, critique=m.critique) for m in answer.steps or ()] or [DraftStep()] * 3
    return Draft(
        steps=(steps[0], steps[1], steps[2]),
        verdict=answer.verdict,
        reasons=answer.reasons,
        comment=answer.comment,
        seconds=answer.seconds or 0.0,
    )
