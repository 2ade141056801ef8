"""ESCoT: support dialogues, each with a reply and the chain of thought that leads to it.

The chain (`cot_data`: emotion, emotion_stimuli, individual_appraisal, recognized_strategy, strategy_reason) is kept
whole in `meta["cot_data"]`. The reply that it explains becomes the last turn, flagged "escot_response", with the
record's strategy. A few dialogues already end with the supporter: there the reply goes on with what was said, as a
neighbouring turn of one speaker, and the dialogue is flagged "response_after_supporter".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ser_toolkit.schema import Dialogue, Turn

from .base import Imported, ReadContext, SourceFormat
from .finish import make_dialogue, member, read_records
from .reading import Raw, json_records
from .words import Words, own_id, text_or_none

NAME, LICENCE = "escot", "unknown"


def read(path: Path, context: ReadContext) -> Iterator[Imported]:
    words = Words(NAME, context)

    def parse(raw: Raw) -> Dialogue:
        data = member(raw.value, "original_data", dict)
        turns = [
            Turn(
                speaker=words.role(member(turn, "speaker", str, f"turn {place}"), f"turn {place}"),
                text=member(turn, "content", str, f"turn {place}"),
            )
            for place, turn in enumerate(member(data, "dialog", list, "original_data"), 1)
        ]
        flags = ()
        if response := text_or_none(data, "response"):
            flags = ("response_after_supporter",) if turns and turns[-1].speaker == "supporter" else ()
            strategies = words.strategies(data.get("strategy"))
            turns.append(Turn(speaker="supporter", text=response, strategies=strategies, flags=("escot_response",)))
        cot = raw.value.get("cot_data")
        return make_dialogue(
            raw,
            NAME,
            LICENCE,
            context,
            own_id=own_id(raw.value.get("id")),
            turns=turns,
            flags=flags,
            meta={"cot_data": cot} if cot else {},
        )

    yield from read_records(json_records(path, context), NAME, parse)


FORMAT = SourceFormat(
    name=NAME,
    title="ESCoT",
    yields="dialogues",
    languages=("en",),
    licence=LICENCE,
    expects="a JSON list of {id, original_data, cot_data}",
    read=read,
)
