"""The shapes that travel between page and server, beside those of `annotation.items`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from annotation.items import LONGEST_TEXT, Part, Reason, Response, View
from ser_toolkit.schema import Record
from ser_toolkit.verdicts import Shown


class Fault(Record):
    """Why a request was refused. `code` is stable, `message` for people who look behind the page."""

    code: Literal["not_found", "malformed", "conflict", "unavailable"]
    message: str


class DraftStep(Record):
    """A step as far as it is judged."""

    label: bool | None = None
    critique: str = Field(default="", max_length=LONGEST_TEXT)


class Draft(Record):
    """What somebody has chosen and typed so far; `seconds` of work until now."""

    steps: tuple[DraftStep, DraftStep, DraftStep] = (DraftStep(), DraftStep(), DraftStep())
    verdict: Shown | None = None
    reasons: tuple[Reason, ...] = ()
    comment: str = Field(default="", max_length=LONGEST_TEXT)
    seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)


class Progress(Record):
    """How far one person is: items answered or skipped, and about how many there still are for this person."""

    annotator: str
    done: int
    remaining: int


class Work(Record):
    """What is on the screen: an item and its draft; no `view` where nothing is left for this person now."""

    view: View | None
    draft: Draft | None
    progress: Progress


class Submitted(Record):
    """What became of an answer; it is on disk."""

    outcome: Literal["new", "changed", "same"]
    progress: Progress


class Lease(Record):
    """Seconds that the item stays reserved; `None` where it went to someone else (an answer is kept all the same)."""

    seconds: float | None


class Guidelines(Record):
    markdown: str


class Coefficients(Record):
    """Agreement on one part. A coefficient is `None` where it is undefined, and `reason` says why."""

    fleiss: float | None
    alpha: float | None
    raw: float | None
    items: int
    shares: dict[str, float]
    reason: str = ""
    note: str = ""


class AnnotatorRow(Record):
    """One annotator; what has no denominator is `None`."""

    annotator: str
    source: Literal["person", "llm"]
    answers: int
    skipped: int
    median_seconds: float | None
    agreement: float | None
    true_share: float | None
    side_share: float | None
    is_one_sided: bool
    is_drifting: bool
    gold_accuracy: float | None
    self_consistency: float | None


class Overview(Record):
    """The round as its owner sees it."""

    items: int
    done: int
    open: int
    in_progress: int
    disputed: int
    waiting: int
    answers: int
    surplus: int
    overlap: int
    median_seconds: float | None
    skipped: dict[str, int]
    agreement: dict[Part, Coefficients]
    annotators: tuple[AnnotatorRow, ...]


class Waiting(Record):
    """An item that waits for the owner's word, and the parts that nobody has decided."""

    item_id: str
    parts: tuple[Part, ...]
    votes: int


class Queue(Record):
    waiting: tuple[Waiting, ...]


class Vote(Record):
    """What one annotator said, the verdict by position as the owner sees the replies."""

    annotator: str
    source: Literal["person", "llm"]
    labels: tuple[bool, bool, bool]
    critiques: tuple[str, str, str]
    verdict: Shown | None
    reasons: tuple[Reason, ...]
    comment: str


class Dispute(Record):
    """An item with the votes on it. The owner is blind to which reply is whose, too: `view` has its own order."""

    item_id: str
    view: View
    parts: tuple[Part, ...]
    votes: tuple[Vote, ...]


class Ruling(Record):
    """The owner's word: `None` for a part that stays undecided. `verdict` is by position as shown to the owner."""

    item_id: str
    steps: tuple[bool | None, bool | None, bool | None] = (None, None, None)
    verdict: Shown | None = None
    note: str = Field(default="", max_length=LONGEST_TEXT)


BODIES: dict[str, type[Record]] = {"Response": Response, "Draft": Draft, "Ruling": Ruling}
"""What a request may carry, by name."""
