"""Blinding: which reply stands first, drawn for each item and annotator by a keyed hash, and undone on the way back.

The key is a round's secret (`Ledger` keeps it in the workspace); without it neither order nor identity can be told from
a View. The position is stored with each vote, so the truth of an answer never hangs on the key.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import cast

from ser_toolkit.errors import RecordError

from .items import Answer, Item, Position, Response, Source, View, gravest

KEY_BYTES = 32


def generated_position(key: bytes, item_id: str, annotator: str, repeat: int = 0) -> Position:
    """Where the generated reply stands for this annotator; 1 for half of all, 2 for the others."""
    return cast(Position, 1 + _digest(key, "position", item_id, annotator, repeat)[0] % 2)


def view_id(key: bytes, item_id: str, annotator: str, repeat: int = 0) -> str:
    """The name of this showing: nobody can tell from it what is shown, to whom, or whether again."""
    return "v" + _digest(key, "view", item_id, annotator, repeat).hex()[:24]


def fraction(key: bytes, *parts: str | int) -> float:
    """A number in [0, 1) for these parts, as good as drawn, the same each time."""
    return int.from_bytes(_digest(key, "fraction", *parts)[:6], "big") / 2**48


def blind(item: Item, key: bytes, annotator: str, repeat: int = 0) -> View:
    """What this annotator gets to see."""
    pair = (item.generated, item.reference)
    is_first = generated_position(key, item.id, annotator, repeat) == 1
    return View(
        id=view_id(key, item.id, annotator, repeat),
        lang=item.lang,
        history=item.history,
        steps=item.steps,
        replies=None if not item.has_pair else pair if is_first else (pair[1], pair[0]),
        risk=gravest(item.history),
    )


def unblind(
    item: Item,
    key: bytes,
    annotator: str,
    response: Response,
    *,
    source: Source,
    repeat: int = 0,
    route: str,
    time: str,
) -> Answer:
    """The response as an answer. Raises RecordError where it is not one to this item's view for this annotator."""
    if response.view_id != view_id(key, item.id, annotator, repeat):
        raise RecordError("malformed", f"{response.view_id} is not what {annotator} was shown")
    if response.skip is None and (response.verdict is not None) != item.has_pair:
        what = "a verdict on the two replies is missing" if item.has_pair else "there are no two replies to judge"
        raise RecordError("malformed", f"{response.view_id}: {what}")
    return Answer(
        item_id=item.id,
        annotator=annotator,
        source=source,
        repeat=repeat,
        steps=response.steps,
        verdict=response.verdict,
        generated_position=generated_position(key, item.id, annotator, repeat) if item.has_pair else None,
        reasons=response.reasons,
        comment=response.comment,
        skip=response.skip,
        seconds=response.seconds,
        time=time,
        route=route,
    )


def _digest(key: bytes, *parts: str | int) -> bytes:
    return hmac.digest(key, "\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass"), hashlib.sha256)
