"""The bundled seeds: a few hand-written dialogues and scenarios, for `ser build` without arguments.

Written for this toolkit, about nobody. A path of one's own is read the same way: JSON lists of dialogues
(`turns`: {"seeker": text, "face", "voice"} or {"supporter": text, "strategy"}) and of scenarios (no `turns`), with the
labels in SER's own words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ser_toolkit.errors import RecordError
from ser_toolkit.schema import Cue, Dialogue, Label, Scenario, Speaker, Turn
from ser_toolkit.taxonomy import EMOTIONS, INTENSITIES, STRATEGIES

from .base import Imported, ReadContext, SourceFormat
from .finish import detect_lang, make_dialogue, make_source, member, read_records, record_id
from .reading import Raw, json_records
from .words import own_id, text_or_none

BUNDLED = Path(__file__).parents[1] / "seeds"
CHANNELS = ("face", "voice")


def read(path: Path, context: ReadContext) -> Iterator[Imported]:
    """The bundled files where the recipe names no path."""
    raws = json_records(path if context.spec.path else BUNDLED, context)
    return read_records(raws, FORMAT.name, lambda raw: _parse(raw, context))


FORMAT = SourceFormat(
    name="seeds",
    title="Hand-written seeds that come with the toolkit",
    yields="dialogues",
    languages=("en", "zh"),
    licence="Apache-2.0",
    expects="no path (the bundled ones), or JSON lists of dialogues and scenarios in the same form",
    read=read,
)


def _parse(raw: Raw, context: ReadContext) -> Dialogue | Scenario:
    record = raw.value
    if not isinstance(record, dict):
        raise RecordError("malformed", f"the record is {type(record).__name__}, not an object")
    about: dict[str, Any] = {
        "situation": text_or_none(record, "situation") or "",
        "problem": text_or_none(record, "problem") or "",
        "emotion": _label(record, "emotion", EMOTIONS),
    }
    if "turns" not in record:
        return _scenario(raw, context, about)
    turns = [_turn(turn, f"turn {n}") for n, turn in enumerate(member(record, "turns", list), 1)]
    return make_dialogue(
        raw, FORMAT.name, FORMAT.licence, context, turns=turns, own_id=own_id(record.get("id")), **about
    )


def _turn(turn: Any, where: str) -> Turn:
    if isinstance(turn, dict) and "supporter" in turn:
        strategy = _label(turn, "strategy", STRATEGIES)
        text = member(turn, "supporter", str, where)
        return Turn(speaker="supporter", text=text, strategies=(strategy,) if strategy else ())
    text = member(turn, "seeker", str, where)
    cues = tuple(
        Cue(channel=channel, text=said, source=f"corpus:{FORMAT.name}")
        for channel in CHANNELS
        if (said := text_or_none(turn, channel))
    )
    return Turn(speaker="seeker", text=text, cues=cues)


def _scenario(raw: Raw, context: ReadContext, about: dict[str, Any]) -> Scenario:
    record = raw.value
    persona, opening = text_or_none(record, "persona") or "", text_or_none(record, "opening") or ""
    intensity = _label(record, "intensity", INTENSITIES)
    if not persona and not about["situation"]:
        raise RecordError("empty", "neither a persona nor a situation")
    return Scenario(
        id=record_id(raw, FORMAT.name, own_id(record.get("id"))),
        lang=context.spec.lang or detect_lang([persona, about["situation"], opening]),
        source=make_source(raw, FORMAT.name, FORMAT.licence, context),
        intensity=intensity.ser if intensity else None,
        speakers=(Speaker(role="seeker", persona=persona),),
        hidden_intention=text_or_none(record, "hidden_intention") or "",
        opening=opening,
        **about,
    )


def _label(record: Mapping[str, Any], key: str, known: tuple[str, ...]) -> Label | None:
    """The word as written; mapped only where it is one of SER's."""
    word = text_or_none(dict(record), key)
    if word is None:
        return None
    ser = word if word in known else None
    return Label(original=word, corpus=ser, ser=ser)
