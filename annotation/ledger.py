"""The ledger: one round of annotation in `annotation.sqlite` of a workspace. All truth is here; routes only carry.

Every route, the built-in page, the LLM judge and the owner write through a `Ledger`; its `state` is rebuilt from the
event log (`event_log.py`) by the rules of `rounds.py`. Each change is one transaction that first reads what other
processes wrote: two processes never give out one seat twice, and whatever a method returned is on disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from ser_toolkit.errors import DataError, RecordError, UsageError
from ser_toolkit.schema import content_id

from .blinding import blind, fraction, unblind, view_id
from .event_log import RESTORE, Event, EventLog
from .items import Answer, Decision, Gold, Item, Response, Source, View
from .rounds import Assignment, RoundSettings, RoundState, Showing

FILE = "annotation.sqlite"
LONGEST_NAME = 80


@dataclass(frozen=True, slots=True)
class Task:
    """An item on somebody's desk: `view` is all that may be shown; the rest is ours."""

    view: View
    annotator: str
    item_id: str
    repeat: int
    route: str
    expires: float | None


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of a response: a new answer, one that changes an earlier one, or the same once more (not kept)."""

    answer: Answer
    outcome: Literal["new", "changed", "same"]


class Ledger:
    """The round of one workspace. Safe to use from several threads, and beside other processes.

    `state` is the round as of the last call; `refresh` takes in what others wrote, as does every method that changes
    something. `now` is seconds since the epoch, by default the clock. Raises DataError for a file that is damaged,
    locked, or no ledger.
    """

    def __init__(self, path: Path, create: RoundSettings | None = None) -> None:
        """Open the ledger at `path`. Where there is none, `create` begins a round; without it, UsageError."""
        self.path = path
        self._lock = threading.RLock()
        self._log = EventLog(path, create.model_dump_json() if create else None)
        self.state = self._empty()
        self.refresh()

    # -- beginning ---------------------------------------------------------------------------------------------------

    def add_items(self, items: Iterable[Item], gold: Iterable[Gold] = ()) -> int:
        """Take in the items that the round does not hold yet, in an order drawn by the key. Returns how many."""
        with self._writing():
            new = {i.id: i for i in items if i.id not in self.state.items}
            for item in sorted(new.values(), key=lambda i: fraction(self.state.key, "order", i.id)):
                self._log.put_item(item.id, item.model_dump_json().encode())
                body = {"trace_id": item.trace_id, "dialogue_id": item.dialogue_id, "has_pair": item.has_pair}
                self._append("item", item.id, "", body)
            for entry in gold:
                if self.state.gold.get(entry.item_id) != entry:
                    self._append("gold", entry.item_id, "", entry.model_dump(mode="json"))
            return len(new)

    def add_annotators(self, names: Iterable[str], source: Source = "person") -> None:
        """Let these people (or judges) into the round. Raises UsageError for an unfit or taken name."""
        with self._writing():
            for name in names:
                known = self.state.annotators.get(name)
                if known not in (None, source):
                    raise UsageError(f"annotator {name!r} is a {known} of this round", "choose another name")
                if not name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
                    raise UsageError(f"annotator {name!r}: a name is a line of 1 to {LONGEST_NAME} characters")
                if known is None:
                    self._append("annotator", "", name, {"source": source})

    def revoke_links(self, names: Iterable[str]) -> None:
        """Call back the links that these people have to the built-in page: from now on they have others. Raises
        UsageError for a name that is none of this round, and then revokes none.
        """
        with self._writing():
            for name in [self._must_know(n) for n in names]:
                self._append("link", "", name, {"number": self.state.links.get(name, 0) + 1})

    # -- giving out --------------------------------------------------------------------------------------------------

    def next_task(self, annotator: str, *, route: str = "local", now: float | None = None) -> Task | None:
        """What this person is to do now: what is on their desk, else the next item, leased; `None`: nothing is left."""
        moment = _now(now)
        with self._writing():
            self._must_know(annotator)
            desk = self.state.on_desk(annotator, route, moment)
            if desk:
                return self._task(desk[-1])
            showing = self.state.next_showing(annotator, moment)
            return None if showing is None else self._assign(showing, route, moment + self.state.settings.lease_s)

    def renew(self, view: str, *, now: float | None = None) -> Task | None:
        """Prolong the lease of what somebody has on the screen, where half of it is over; `None` where it is theirs no
        more (an answer to it is still kept).
        """
        moment, lease = _now(now), self.state.settings.lease_s
        with self._writing():
            given = self.state.open.get(view)
            if given is None or not (given.is_live(moment) or self.state.has_room(given.showing, moment)):
                return None
            if given.expires is None or given.expires - moment > lease / 2:
                return self._task(given)
            return self._assign(given.showing, given.route, moment + lease)

    def deal(self, route: str, *, annotators: Sequence[str] | None = None, now: float | None = None) -> list[Task]:
        """Give out, without expiry, all that is due: each item to as many of `annotators` (default: all people) as
        it wants, evenly. Only what is new is returned; `tasks` has all.
        """
        moment = _now(now)
        with self._writing():
            state = self.state
            people = [a for a, s in state.annotators.items() if s == "person"] if annotators is None else annotators
            sources: dict[str, Source] = {a: state.annotators[self._must_know(a)] for a in people}
            load = {a: len(state.on_desk(a, None, moment)) for a in people}
            made: list[Task] = []

            def give(showing: Showing) -> None:
                made.append(self._assign(showing, route, None))
                load[showing.annotator] += 1

            for showing in state.gold_for([a for a in people if sources[a] == "llm"], moment):
                give(showing)
            for source in dict.fromkeys(sources.values()):
                for item in list(state.wanting(source)):
                    for _ in range(state.seats(item, source, moment)):
                        free = [a for a in people if sources[a] == source and state.may_see(item, a, moment)]
                        if not free:
                            break
                        who = min(free, key=lambda a: (load[a], fraction(state.key, "deal", a, item)))
                        check = state.check(who, len(state.history.get(who, ())) + load[who], moment)
                        if check is not None:
                            give(check)
                        give(Showing(item, who))
            return made

    def tasks(self, route: str, *, now: float | None = None) -> list[Task]:
        """All that this route has given out and that is not answered."""
        with self._lock:
            self.refresh()
            return [self._task(a) for a in self.state.open.values() if a.route == route and a.is_live(_now(now))]

    def release(self, route: str | None = None, annotator: str | None = None) -> int:
        """Take back what was given out (by a route, to a person) and not answered, so that others get it."""
        with self._writing():
            given = [
                a.showing
                for a in self.state.open.values()
                if route in (None, a.route) and annotator in (None, a.showing.annotator)
            ]
            for s in given:
                self._append("released", s.item_id, s.annotator, {"repeat": s.repeat})
            return len(given)

    # -- taking in ---------------------------------------------------------------------------------------------------

    def accept(self, response: Response, *, route: str = "local", now: float | None = None) -> Accepted:
        """Keep a response. Raises RecordError where it is no answer to a view that was given out.

        The same response again changes nothing; another one to the same view takes its place, and the log keeps both.
        One that comes when all seats are taken is kept as surplus.
        """
        moment = _now(now)
        with self._writing():
            showing = self._showing(response.view_id)
            who, source = showing.annotator, self.state.annotators[showing.annotator]
            answer = unblind(
                self.item(showing.item_id), self.state.key, who, response,
                source=source, repeat=showing.repeat, route=route, time=_iso(moment),
            )  # fmt: skip
            before = self.state.answers.get(showing.item_id, {}).get((who, showing.repeat))
            if before is not None and _content(before) == _content(answer):
                return Accepted(before, "same")
            if answer.skip is None and showing.repeat == 0:
                is_surplus = not self.state.has_seat(showing.item_id, who, source, moment)
                answer = answer.model_copy(update={"is_surplus": is_surplus})
            self._append("answer", showing.item_id, who, answer.model_dump(mode="json"))
            self._log.drop_draft(response.view_id)
            return Accepted(answer, "new" if before is None else "changed")

    def undo(self, annotator: str, *, route: str = "local", now: float | None = None) -> tuple[Task, Answer] | None:
        """Take back this person's last answer by this route and put its item on their desk again, with its seat kept;
        returned with what they had said. `None` where there is nothing to take back.
        """
        moment = _now(now)
        with self._writing():
            done = self.state.history.get(self._must_know(annotator), [])
            answer = self.state.answer_to(done[-1]) if done else None
            if answer is None or answer.route != route:
                return None
            showing = done[-1]
            body = {"repeat": showing.repeat, "route": route, "held": answer.is_vote}
            body["expires"] = moment + self.state.settings.lease_s
            self._append("undone", showing.item_id, annotator, body)
            return self._task(self.state.open[self._name(showing)]), answer

    def decide(self, decision: Decision) -> None:
        """Keep the owner's word on an item; a later one takes its place."""
        with self._writing():
            if decision.item_id not in self.state.items:
                raise UsageError(f"{decision.item_id}: no such item", "`ser annotate adjudicate` lists those that wait")
            decision = decision.model_copy(update={"time": _iso(time.time())})
            self._append("decision", decision.item_id, "", decision.model_dump(mode="json"))

    def save_draft(self, view: str, body: dict[str, Any]) -> None:
        """Keep what somebody has typed so far: JSON of any shape, up to the page. Raises RecordError: no such view."""
        with self._lock:
            self._showing(view)
            self._log.put_draft(view, body)

    def draft(self, view: str) -> dict[str, Any] | None:
        """The last draft for this view, if it is not answered."""
        with self._lock:
            return self._log.draft(view)

    def withdraw(self, ids: Iterable[str]) -> int:
        """Delete the items of these dialogues or traces, and all that was said of them. Returns how many items."""
        gone = frozenset(ids)
        with self._writing():
            items = [i for i, info in self.state.items.items() if {info.trace_id, info.dialogue_id} & gone]
            for item in items:
                for view in [v for v, s in self.state.views.items() if s.item_id == item]:
                    self._log.drop_draft(view)
                self._log.scrub(item)
                self._append("withdrawn", item, "", {})
        if items:
            with self._lock:
                self._log.forget_pages()
        return len(items)

    # -- looking -----------------------------------------------------------------------------------------------------

    def item(self, id: str) -> Item:
        """An item with its texts. Raises DataError where it is damaged."""
        with self._lock:
            body = self._log.item(id)
        try:
            item = Item.model_validate_json(body)
        except ValidationError as exc:
            raise DataError(f"{self.path}: item {id} cannot be read", RESTORE) from exc
        if content_id("item", item.model_copy(update={"id": ""}).model_dump(mode="json")) != id:
            raise DataError(f"{self.path}: item {id} is not what was taken in", RESTORE)
        return item

    def events(self) -> list[Event]:
        """The whole log, the oldest first, checked."""
        with self._lock:
            log = EventLog(self.path, None)
            try:
                return list(log.read())
            finally:
                log.close()

    def refresh(self) -> RoundState:
        """The state, with what other processes wrote meanwhile."""
        with self._lock:
            for event in self._log.read():
                self._apply(event)
            return self.state

    def close(self) -> None:
        """Close the file; all is already on disk."""
        with self._lock:
            self._log.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- inside ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction, begun with what others wrote; all of it is on disk at the end, or none."""
        with self._lock:
            try:
                with self._log.transaction():
                    self.refresh()
                    yield
            except BaseException:
                if self._log.last > self._log.last_on_disk():  # the state ran ahead of what was rolled back
                    self._log.rewind()
                    self.state = self._empty()
                    self.refresh()
                raise

    def _append(self, kind: str, item: str, annotator: str, body: dict[str, Any]) -> None:
        self._apply(self._log.append(kind, item, annotator, body))

    def _apply(self, event: Event) -> None:
        if event.body is None:
            return  # withdrawn since
        try:
            self.state.apply(event.kind, event.item, event.annotator, event.body)
        except (KeyError, ValidationError) as exc:
            raise DataError(f"{self.path}: event {event.id} ({event.kind}) is not understood", RESTORE) from exc

    def _assign(self, showing: Showing, route: str, expires: float | None) -> Task:
        body = {"repeat": showing.repeat, "route": route, "expires": expires}
        self._append("assigned", showing.item_id, showing.annotator, body)
        return self._task(self.state.open[self._name(showing)])

    def _name(self, showing: Showing) -> str:
        return view_id(self.state.key, showing.item_id, showing.annotator, showing.repeat)

    def _task(self, given: Assignment) -> Task:
        s = given.showing
        view = blind(self.item(s.item_id), self.state.key, s.annotator, s.repeat)
        return Task(view, s.annotator, s.item_id, s.repeat, given.route, given.expires)

    def _showing(self, view: str) -> Showing:
        showing = self.state.views.get(view)
        if showing is None:
            raise RecordError("malformed", f"{view}: no such view was given out, or its item was withdrawn", text=view)
        return showing

    def _must_know(self, annotator: str) -> str:
        if annotator not in self.state.annotators:
            known = ", ".join(self.state.annotators) or "nobody yet"
            raise UsageError(f"{annotator!r} is no annotator of this round", f"known: {known}")
        return annotator

    def _empty(self) -> RoundState:
        settings, key = self._log.round()
        try:
            return RoundState(RoundSettings.model_validate_json(settings), key)
        except ValidationError as exc:
            raise DataError(f"{self.path}: the round's settings cannot be read", RESTORE) from exc


def ledger_path(workspace: Path) -> Path:
    """Where a workspace's ledger stands."""
    return workspace / FILE


def _content(answer: Answer) -> Answer:
    return answer.model_copy(update={"time": "", "seconds": None, "route": "", "is_surplus": False})


def _now(now: float | None) -> float:
    return time.time() if now is None else now


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
