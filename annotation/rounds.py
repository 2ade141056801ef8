"""The state of a round, rebuilt from the ledger's events; and who is to be asked what next.

The rules (METHOD 1.5): each item goes to `overlap` annotators; one more is asked where some part has no majority among
them; a skip goes to someone else. People and LLM judges are two pools that never fill each other's seats. Gold items
go to everyone and are no votes; neither is a repeated item. An assignment may expire; until then it holds a seat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from ser_toolkit.errors import UsageError
from ser_toolkit.schema import Record

from .blinding import fraction, view_id
from .items import PARTS, Answer, Decision, Gold, Part, Source

REPEAT_GAP = 10
"""Tasks between an item and its repetition to the same person, at least."""


class RoundSettings(Record):
    """What a round is begun with.

    `overlap` annotators an item, before a disagreement; about every `check_every`-th task is a gold or a repeated item
    (0: none); `lease_s` seconds an item stays reserved for the person who has it on the screen.
    """

    overlap: int = Field(default=2, ge=1, le=9)
    check_every: int = Field(default=10, ge=0)
    lease_s: float = Field(default=1800.0, gt=0)


@dataclass(frozen=True, slots=True)
class ItemInfo:
    """What the state knows of an item; its text stays on disk."""

    trace_id: str
    dialogue_id: str
    has_pair: bool

    @property
    def parts(self) -> tuple[Part, ...]:
        return PARTS if self.has_pair else PARTS[:3]


@dataclass(frozen=True, slots=True)
class Showing:
    """An item for one annotator, for the first time (`repeat` 0) or again."""

    item_id: str
    annotator: str
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class Assignment:
    """A showing that is given out and not answered. `expires`: seconds since the epoch, `None` for never.

    `is_held`: the person took an answer back and keeps its seat meanwhile.
    """

    showing: Showing
    view_id: str
    route: str
    expires: float | None
    is_held: bool = False

    def is_live(self, now: float) -> bool:
        return self.expires is None or now < self.expires


@dataclass(slots=True)
class RoundState:
    """All that the events say. Only `apply` changes it."""

    settings: RoundSettings
    key: bytes = field(repr=False)
    items: dict[str, ItemInfo] = field(default_factory=dict)
    gold: dict[str, Gold] = field(default_factory=dict)
    annotators: dict[str, Source] = field(default_factory=dict)
    links: dict[str, int] = field(default_factory=dict)
    """annotator -> how often their link was called back."""
    answers: dict[str, dict[tuple[str, int], Answer]] = field(default_factory=dict)
    """item -> (annotator, repeat) -> the answer that holds."""
    open: dict[str, Assignment] = field(default_factory=dict)
    """view id -> what is given out."""
    views: dict[str, Showing] = field(default_factory=dict)
    """view id -> every showing that was ever given out."""
    decisions: dict[str, Decision] = field(default_factory=dict)
    history: dict[str, list[Showing]] = field(default_factory=dict)
    """annotator -> what was answered or skipped, the oldest first."""
    _given: dict[str, dict[str, Assignment]] = field(default_factory=dict)
    """item -> view id -> what is given out of it."""
    _desks: dict[str, dict[str, Assignment]] = field(default_factory=dict)
    """annotator -> view id -> what is given out to this person."""
    _wanting: dict[Source, list[dict[str, None]]] = field(default_factory=dict)
    """source -> number of votes -> the items that have so many and want more, the oldest first."""

    # -- what the events do ------------------------------------------------------------------------------------------

    def apply(self, kind: str, item: str, annotator: str, body: dict[str, Any]) -> None:
        """Take one event in."""
        if item and item not in self.items and kind != "item":
            return  # it was withdrawn
        _EVENTS[kind](self, item, annotator, body)

    def _item(self, item: str, _: str, body: dict[str, Any]) -> None:
        self.items[item] = ItemInfo(body["trace_id"], body["dialogue_id"], body["has_pair"])
        self._count(item)

    def _gold(self, item: str, _: str, body: dict[str, Any]) -> None:
        self.gold[item] = Gold.model_validate(body)
        self._count(item)

    def _annotator(self, _: str, annotator: str, body: dict[str, Any]) -> None:
        self.annotators[annotator] = body["source"]

    def _link(self, _: str, annotator: str, body: dict[str, Any]) -> None:
        self.links[annotator] = body["number"]

    def _assigned(self, item: str, annotator: str, body: dict[str, Any]) -> None:
        showing = Showing(item, annotator, body["repeat"])
        name = view_id(self.key, item, annotator, showing.repeat)
        was_held = name in self.open and self.open[name].is_held
        self.views[name] = showing
        self._give(Assignment(showing, name, body["route"], body["expires"], was_held))

    def _released(self, item: str, annotator: str, body: dict[str, Any]) -> None:
        self._take_back(Showing(item, annotator, body["repeat"]))

    def _answer(self, item: str, annotator: str, body: dict[str, Any]) -> None:
        answer = Answer.model_validate(body)
        showing = Showing(item, annotator, answer.repeat)
        self._take_back(showing)
        done = self.history.setdefault(annotator, [])
        if self.answer_to(showing) is not None:
            done.remove(showing)  # one that is changed counts as the newest
        done.append(showing)
        self.answers.setdefault(item, {})[annotator, answer.repeat] = answer
        self._count(item)

    def _undone(self, item: str, annotator: str, body: dict[str, Any]) -> None:
        showing = Showing(item, annotator, body["repeat"])
        del self.answers[item][annotator, showing.repeat]
        self.history[annotator].remove(showing)
        name = view_id(self.key, item, annotator, showing.repeat)
        self._give(Assignment(showing, name, body["route"], body["expires"], body["held"]))
        self._count(item)

    def _decision(self, item: str, _: str, body: dict[str, Any]) -> None:
        self.decisions[item] = Decision.model_validate(body)

    def _withdrawn(self, item: str, _: str, body: dict[str, Any]) -> None:
        for bucket in (b for buckets in self._wanting.values() for b in buckets):
            bucket.pop(item, None)
        for name, showing in [(n, s) for n, s in self.views.items() if s.item_id == item]:
            self._take_back(showing)
            del self.views[name]
        for table in (self.items, self.gold, self.answers, self.decisions, self._given):
            table.pop(item, None)
        for who, done in self.history.items():
            self.history[who] = [s for s in done if s.item_id != item]

    def _give(self, given: Assignment) -> None:
        showing = given.showing
        self.open[given.view_id] = given
        self._given.setdefault(showing.item_id, {})[given.view_id] = given
        self._desks.setdefault(showing.annotator, {})[given.view_id] = given

    def _take_back(self, showing: Showing) -> None:
        name = view_id(self.key, showing.item_id, showing.annotator, showing.repeat)
        for table in (self.open, self._given.get(showing.item_id, {}), self._desks.get(showing.annotator, {})):
            table.pop(name, None)

    def _count(self, item: str) -> None:
        """Put the item among those that want more answers, in each pool, or take it out."""
        for source in ("person", "llm"):
            buckets = self._wanting.setdefault(source, [{} for _ in range(self.settings.overlap + 1)])
            for bucket in buckets:
                bucket.pop(item, None)
            votes = self.votes(item, (source,))
            if item not in self.gold and len(votes) < self.wanted(item, votes):
                buckets[len(votes)][item] = None

    # -- what it says ------------------------------------------------------------------------------------------------

    def votes(self, item: str, sources: Iterable[Source]) -> list[Answer]:
        """The answers that count, of these sources."""
        allowed = frozenset(sources)
        return [a for a in self.answers.get(item, {}).values() if a.is_vote and a.source in allowed]

    def wanted(self, item: str, votes: Sequence[Answer]) -> int:
        """How many votes are asked for, given these: one more than `overlap` where those leave a part undecided."""
        overlap = self.settings.overlap
        if len(votes) < overlap or all(has_majority(p, votes) for p in self.items[item].parts):
            return overlap
        return overlap + 1

    def answer_to(self, showing: Showing) -> Answer | None:
        """The answer that holds for this showing."""
        return self.answers.get(showing.item_id, {}).get((showing.annotator, showing.repeat))

    def must_have_people(self) -> None:
        """Raises UsageError where fewer people are in the round than each item wants."""
        people = [a for a, source in self.annotators.items() if source == "person"]
        if len(people) < self.settings.overlap:
            raise UsageError(
                f"the round has {len(people)} people, and each item wants {self.settings.overlap}",
                "name more with --annotators; one more than that settles disagreements",
            )

    def may_see(self, item: str, annotator: str, now: float) -> bool:
        """Whether the item could be given to this person: neither answered, nor skipped, nor on their desk."""
        return (annotator, 0) not in self.answers.get(item, {}) and not any(
            a.showing.annotator == annotator and a.is_live(now) for a in self._given.get(item, {}).values()
        )

    def has_room(self, showing: Showing, now: float) -> bool:
        """Whether an expired assignment may be given to the same person again."""
        source = self.annotators[showing.annotator]
        is_check = showing.repeat > 0 or showing.item_id in self.gold
        return is_check or self.seats(showing.item_id, source, now) > 0

    def has_seat(self, item: str, annotator: str, source: Source, now: float) -> bool:
        """Whether an answer of this person would be a vote: there is room, or a seat is kept for it."""
        if item in self.gold:
            return True
        votes = self.votes(item, (source,))
        held = [a for a in self._given_now(item, source, now) if a.is_held]
        taken = {a.annotator for a in votes} | {a.showing.annotator for a in held}
        return annotator in taken or len(taken) < self.wanted(item, votes)

    def seats(self, item: str, source: Source, now: float) -> int:
        """How many more people may be given the item now."""
        votes = self.votes(item, (source,))
        taken = {a.annotator for a in votes} | {a.showing.annotator for a in self._given_now(item, source, now)}
        return self.wanted(item, votes) - len(taken)

    def wanting(self, source: Source) -> Iterator[str]:
        """The items that want more answers: the disputed first, then those begun, then the untouched."""
        for bucket in reversed(self._wanting.get(source, [])):
            yield from bucket

    def on_desk(self, annotator: str, route: str | None, now: float) -> list[Assignment]:
        """What this person has been given (by this route, or any) and not answered, the newest last."""
        desk = self._desks.get(annotator, {}).values()
        return [a for a in desk if route in (None, a.route) and a.is_live(now)]

    def next_showing(self, annotator: str, now: float) -> Showing | None:
        """What to give this person next: at times a check, else the first item that wants an answer."""
        source = self.annotators[annotator]
        for item in self.wanting(source):
            if self.may_see(item, annotator, now) and self.seats(item, source, now) > 0:
                check = self.check(annotator, len(self.history.get(annotator, ())), now)
                return check or Showing(item, annotator)
        return None

    def remaining(self, annotator: str, now: float) -> int:
        """How many items there are for this person as things stand: on the desk, or wanting an answer of theirs."""
        source = self.annotators[annotator]
        buckets = self._wanting.get(source, [])
        touched = {s.item_id for s in self.history.get(annotator, ())} | {a.showing.item_id for a in self.open.values()}
        wanting = [i for i in touched if any(i in bucket for bucket in buckets)]
        closed = [i for i in wanting if not self.may_see(i, annotator, now) or self.seats(i, source, now) < 1]
        return len(self.on_desk(annotator, None, now)) + sum(map(len, buckets)) - len(closed)

    def check(self, annotator: str, count: int, now: float) -> Showing | None:
        """A gold or a repeated item, where the draw for this person's `count`-th task says so and there is one."""
        every = self.settings.check_every if self.annotators[annotator] == "person" else 0
        if not every or fraction(self.key, "check", annotator, count) >= 1 / every:
            return None
        gold = next(self.gold_for([annotator], now), None)
        again = min(self._repeatable(annotator), key=lambda s: self._draw(annotator, s.item_id), default=None)
        if gold is not None and (again is None or fraction(self.key, "which", annotator, count) < 0.5):
            return gold
        return again

    def gold_for(self, annotators: Iterable[str], now: float) -> Iterator[Showing]:
        """The gold items that each of these has not seen, in an order drawn for each."""
        for who in annotators:
            unseen = [i for i in self.gold if self.may_see(i, who, now)]
            yield from (Showing(i, who) for i in sorted(unseen, key=lambda i: self._draw(who, i)))

    def _repeatable(self, annotator: str) -> Iterator[Showing]:
        for showing in self.history.get(annotator, ())[:-REPEAT_GAP]:
            answer = self.answer_to(showing)
            if answer is None or not answer.is_vote or showing.item_id in self.gold:
                continue
            if view_id(self.key, showing.item_id, annotator, 1) not in self.views:
                yield Showing(showing.item_id, annotator, repeat=1)

    def _draw(self, annotator: str, item: str) -> float:
        return fraction(self.key, "check", annotator, item)

    def stuck(self, source: Source, now: float) -> list[str]:
        """Items that want an answer which nobody of this round can give."""
        people = [a for a, s in self.annotators.items() if s == source]
        return [
            i
            for i in self.wanting(source)
            if not self._given_now(i, source, now) and not any(self.may_see(i, a, now) for a in people)
        ]

    def _given_now(self, item: str, source: Source, now: float) -> list[Assignment]:
        return [
            a
            for a in self._given.get(item, {}).values()
            if a.showing.repeat == 0 and a.is_live(now) and self.annotators.get(a.showing.annotator) == source
        ]


_EVENTS: dict[str, Callable[[RoundState, str, str, dict[str, Any]], None]] = {
    "item": RoundState._item,
    "gold": RoundState._gold,
    "annotator": RoundState._annotator,
    "link": RoundState._link,
    "assigned": RoundState._assigned,
    "released": RoundState._released,
    "answer": RoundState._answer,
    "undone": RoundState._undone,
    "decision": RoundState._decision,
    "withdrawn": RoundState._withdrawn,
}
"""Every kind of event, and what it does."""


def has_majority(part: Part, votes: Sequence[Answer]) -> bool:
    """Whether more than half of the votes say the same of a part."""
    return majority(a.label(part) for a in votes) is not None


def majority(labels: Iterable[str | None]) -> str | None:
    """What more than half of the labels are; `None` where nothing is."""
    known = [label for label in labels if label is not None]
    return next((label for label in set(known) if 2 * known.count(label) > len(known)), None)
