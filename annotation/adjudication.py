"""The owner's word on what annotators left undecided, given as blind as theirs: by position, in an order of its own."""

from __future__ import annotations

from collections.abc import Sequence

from ser_toolkit.errors import RecordError
from ser_toolkit.verdicts import Shown, unblinded

from .blinding import generated_position
from .consensus import consensus
from .items import Decision, Source
from .rounds import RoundState

OWNER = "owner"
"""The owner's name in the blinding."""
Marks = tuple[bool | None, bool | None, bool | None]


def owner_decision(
    state: RoundState, item: str, steps: Marks, verdict: Shown | None, note: str, sources: Sequence[Source]
) -> Decision:
    """These words beside the owner's earlier ones on the item.

    Raises RecordError where nothing is decided, or a part is not there, or the annotators of `sources` decided it.
    """
    found = consensus(state, item, sources)
    said = {f"step{n}" for n, mark in enumerate(steps, 1) if mark is not None} | ({"reply"} if verdict else set())
    if not said:
        raise RecordError("malformed", "the decision decides nothing")
    if not said <= set(found.parts):
        raise RecordError("malformed", "this item has no two replies to compare")
    for part, result in found.parts.items():
        if part in said and result.label is not None and result.how != "owner":
            raise RecordError("malformed", f"the annotators decided {part} ({result.label}): decide the open parts")
    before = state.decisions.get(item, Decision(item_id=item))
    position = generated_position(state.key, item, OWNER)
    one, two, three = (new if new is not None else old for new, old in zip(steps, before.steps, strict=True))
    return Decision(
        item_id=item,
        steps=(one, two, three),
        better=before.better if verdict is None else unblinded(verdict, position),
        note=note or before.note,
    )
