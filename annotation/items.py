"""What is judged, what an annotator sees of it, and what comes back. People and LLM judges go through the same items.

    Item      ours: one trace to be judged, with which reply is the generated one
    View      an annotator's: the item blinded for this person alone (`blinding.py` makes it and undoes it)
    Response  what a page, an LLM or an annotation server gives back, in the words of the View
    Answer    the Response made true again and signed: what the ledger keeps

A View names no model, no system, no label of a model, no trace, no other person, and not whether it is gold or comes a
second time. May import: ser_toolkit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, get_args

from pydantic import Field, model_validator

from ser_toolkit.schema import RISK_LEVELS, Cue, Dialogue, Lang, Record, RiskLevel, Role, Trace, Turn, content_id
from ser_toolkit.verdicts import Better, Position, Shown, is_pair, unblinded

Part = Literal["step1", "step2", "step3", "reply"]
PARTS: tuple[Part, ...] = get_args(Part)
"""What is decided of an item, each on its own."""

Source = Literal["person", "llm"]
SkipReason = Literal["distress", "unclear", "language", "technical", "other", "failed"]
"""Why an item goes to someone else; "failed" is an LLM judge whose answer could not be used, even asked again."""
Reason = Literal["empathy", "fit", "safety", "natural", "helpful", "length"]
"""What may be given as the reason of a verdict: feels with the person, fits what was said, does no harm, sounds like a
person, helps, is as long as it should be.
"""
LONGEST_TEXT = 10_000
"""Characters of a critique or a comment."""


class ShownCue(Record):
    """A cue without its source, which may name a model."""

    channel: Literal["face", "voice", "body", "scene", "mixed"]
    text: str


class Photo(Record):
    """An image of the workspace's media folder, by its hash."""

    sha256: str
    media_type: str


class ShownTurn(Record):
    """One utterance of the history. `risk`: it holds crisis content of this level; show a warning."""

    speaker: Role
    text: str
    cues: tuple[ShownCue, ...] = ()
    photos: tuple[Photo, ...] = ()
    risk: RiskLevel | None = None


class ShownStep(Record):
    """One of the three reasoning steps, as written."""

    number: Literal[1, 2, 3]
    title: str
    text: str


Steps = tuple[ShownStep, ShownStep, ShownStep]


class Item(Record):
    """One trace to be judged. `id` hangs on all that is judged: text that changes is another item.

    `generated` is the trace's reply, `reference` the corpus' own; without a reference, or where both are the same, no
    verdict on the replies is asked.
    """

    id: str
    trace_id: str
    dialogue_id: str
    lang: Lang
    history: tuple[ShownTurn, ...]
    steps: Steps
    generated: str
    reference: str = ""

    @property
    def has_pair(self) -> bool:
        return is_pair(self.generated, self.reference)

    @property
    def parts(self) -> tuple[Part, ...]:
        """What is asked of this item."""
        return PARTS if self.has_pair else PARTS[:3]


class View(Record):
    """What one annotator gets to see of an item. `id` is opaque and differs for each person and each repetition.

    `replies` are the two candidates in the order drawn for this person, `None` where only the steps are asked. `risk`
    is the gravest level in the history.
    """

    id: str
    lang: Lang
    history: tuple[ShownTurn, ...]
    steps: Steps
    replies: tuple[str, str] | None
    risk: RiskLevel | None = None


class StepMark(Record):
    """True or False for one step. A critique belongs to a False; it is asked for, not required."""

    label: bool
    critique: str = Field(default="", max_length=LONGEST_TEXT)


Marks = tuple[StepMark, StepMark, StepMark]


class Response(Record):
    """What an annotator says to a View: a skip with its reason, or three marks and (where two replies are shown) a
    verdict by position as shown. `seconds` of work, where it was measured.
    """

    view_id: str
    steps: Marks | None = None
    verdict: Shown | None = None
    reasons: tuple[Reason, ...] = ()
    comment: str = Field(default="", max_length=LONGEST_TEXT)
    skip: SkipReason | None = None
    seconds: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _skip_or_answer(self) -> Response:
        if (self.skip is None) == (self.steps is None):
            raise ValueError("either a skip with its reason, or all three steps")
        if self.skip is not None and self.verdict is not None:
            raise ValueError("a skipped item has no verdict")
        return self


class Answer(Record):
    """What one annotator said of one item; the ledger keeps each.

    `verdict` is by position as this annotator saw it, `generated_position` where the generated reply stood (`None`
    where no pair was shown). `repeat` counts showings of the item to this person: 0 is the first, and only that one is
    a vote. `is_surplus`: it came after all answers that were asked for, and is no vote either. `time` is ISO 8601, UTC.
    """

    item_id: str
    annotator: str
    source: Source
    repeat: int = 0
    steps: Marks | None = None
    verdict: Shown | None = None
    generated_position: Position | None = None
    reasons: tuple[Reason, ...] = ()
    comment: str = ""
    skip: SkipReason | None = None
    seconds: float | None = None
    time: str = ""
    route: str = "local"
    is_surplus: bool = False

    @property
    def better(self) -> Better | None:
        """The verdict unblinded; `None` where there is none."""
        return unblinded(self.verdict, self.generated_position)

    @property
    def is_vote(self) -> bool:
        """Whether it counts towards consensus."""
        return self.steps is not None and not self.is_surplus and self.repeat == 0

    def label(self, part: Part) -> str | None:
        """What it says of a part, as a word that two answers may be compared by: "True", "False" or a `Better`."""
        if part == "reply":
            return self.better
        return None if self.steps is None else str(self.steps[PARTS.index(part)].label)


class Decision(Record):
    """The owner's word on parts that the annotators left undecided; `None` for a part that stays as it is."""

    item_id: str
    steps: tuple[bool | None, bool | None, bool | None] = (None, None, None)
    better: Better | None = None
    by: str = "owner"
    note: str = Field(default="", max_length=LONGEST_TEXT)
    time: str = ""

    def label(self, part: Part) -> str | None:
        if part == "reply":
            return self.better
        mark = self.steps[PARTS.index(part)]
        return None if mark is None else str(mark)


class Gold(Record):
    """The right answer to an item that checks annotators; `None` where a part has none."""

    item_id: str
    steps: tuple[bool | None, bool | None, bool | None] = (None, None, None)
    better: Better | None = None

    label = Decision.label


def build_items(dialogues: Iterable[Dialogue], traces: Iterable[Trace]) -> Iterator[Item]:
    """The items of these traces, in their order. A trace of a rewritten dialogue is none: it has its source's labels.

    A trace whose dialogue does not come is left out; a release leaves it out, too, and lists it.
    """
    known = {d.id: d for d in dialogues}
    for trace in traces:
        dialogue = known.get(trace.dialogue_id)
        if dialogue is not None and dialogue.rewritten_from is None:
            yield item_of(dialogue, trace)


def item_of(dialogue: Dialogue, trace: Trace) -> Item:
    """The item of one trace."""
    one, two, three = (ShownStep(number=s.number, title=s.title, text=s.text) for s in trace.steps)
    turns = dialogue.turns[trace.history_start : trace.target]
    body = Item(
        id="",
        trace_id=trace.id,
        dialogue_id=trace.dialogue_id,
        lang=trace.lang,
        history=tuple(_shown(t) for t in turns),
        steps=(one, two, three),
        generated=trace.reply,
        reference=trace.reference,
    )
    return body.model_copy(update={"id": content_id("item", body.model_dump(mode="json"))})


def gravest(turns: Iterable[ShownTurn]) -> RiskLevel | None:
    """The gravest crisis level of these turns."""
    found = {t.risk for t in turns}
    return next((level for level in reversed(RISK_LEVELS) if level in found), None)


def _shown(turn: Turn) -> ShownTurn:
    return ShownTurn(
        speaker=turn.speaker,
        text=turn.text,
        cues=tuple(_cue(c) for c in turn.cues),
        photos=tuple(
            Photo(sha256=m.sha256, media_type=m.media_type or "")
            for m in turn.media
            if m.kind == "image" and m.status == "ok" and m.sha256
        ),
        risk=turn.risk.level if turn.risk else None,
    )


def _cue(cue: Cue) -> ShownCue:
    return ShownCue(channel=cue.channel, text=cue.text)
