"""The rows of each config of a release: its columns, and how records become rows.

A config is one entry of `CONFIGS`: a name, an Arrow schema, and a generator of rows over what was staged.
Rows are plain dictionaries, so that they can be hashed without a Parquet writer; an empty text of a record,
which means "not stated", becomes null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
import pyarrow as pa

from ser_toolkit.media.store import MediaStore
from ser_toolkit.media.words import pictures_of
from ser_toolkit.reasoning import render_trace
from ser_toolkit.schema import Cue, Dialogue, Label, Media, Speaker, Trace, Turn

from .labels import (
    JUDGEMENT_COLUMNS,
    PREFERENCE_COLUMNS,
    STEP_COLUMNS,
    TraceLabels,
    judgement_row,
    preference_row,
    step_row,
)
from .prompting import policy_prompt
from .staging import Staging

Row = dict[str, Any]

_TEXT, _INT = pa.string(), pa.int64()
_TEXTS = pa.list_(_TEXT)


def _struct(**fields: pa.DataType) -> pa.StructType:
    return pa.struct(list(fields.items()))


_LABEL = _struct(original=_TEXT, corpus=_TEXT, ser=_TEXT)
_CUE = _struct(channel=_TEXT, text=_TEXT, source=_TEXT)
_MESSAGES = pa.list_(_struct(role=_TEXT, content=_TEXT))
_MEDIA = _struct(
    kind=_TEXT, sha256=_TEXT, media_type=_TEXT, url=_TEXT, status=_TEXT, origin=_TEXT, licence=_TEXT, shows=_TEXT,
)  # fmt: skip
_RISK = _struct(level=_TEXT, category=_TEXT, start=_INT, end=_INT)
_TURN = _struct(
    speaker=_TEXT, text=_TEXT, raw=_TEXT, strategies=pa.list_(_LABEL), emotions=pa.list_(_LABEL),
    feedback=_INT, cues=pa.list_(_CUE), media=pa.list_(_MEDIA), origin=_TEXT, start_s=pa.float64(),
    end_s=pa.float64(), risk=_RISK, flags=_TEXTS,
)  # fmt: skip
_SURVEY = _struct(initial_intensity=_INT, final_intensity=_INT, empathy=_INT, relevance=_INT, supporter_relevance=_INT)
_SPEAKER = _struct(role=_TEXT, persona=_TEXT, attributes=_TEXT)
_IDENTITY = {"id": _TEXT, "dialogue_id": _TEXT, "root_id": _TEXT, "lang": _TEXT, "licence": _TEXT}

_DIALOGUES = _struct(
    id=_TEXT, root_id=_TEXT, rewritten_from=_TEXT, scenario_id=_TEXT, lang=_TEXT, licence=_TEXT,
    source_format=_TEXT, source_file=_TEXT, source_position=_TEXT, situation=_TEXT, problem=_TEXT,
    emotion=_LABEL, survey=_SURVEY, speakers=pa.list_(_SPEAKER), turns=pa.list_(_TURN), risk=_TEXT,
    flags=_TEXTS, meta=_TEXT,
)  # fmt: skip
_TRACES = _struct(
    prompt=_MESSAGES, completion=_MESSAGES, **_IDENTITY, round=_INT, target=_INT, stage=_TEXT,
    strategy=_TEXT, sentiment=_TEXT, intensity=_TEXT, emotions=_TEXTS, reply=_TEXT, reference=_TEXT,
    cues=pa.list_(_CUE), saw=_TEXT, model=_TEXT, prompt_version=_TEXT, notes=_TEXTS,
    opening_added=pa.bool_(), rewritten_from=_TEXT,
)  # fmt: skip
_PROMPTS = _struct(
    prompt=_MESSAGES, reference=_TEXT, persona=_TEXT, scenario=_TEXT, **_IDENTITY, target=_INT,
    problem=_TEXT, reference_origin=_TEXT, opening_added=pa.bool_(),
)  # fmt: skip

_FILES = pa.list_(pa.struct([("bytes", pa.binary()), ("path", _TEXT)]))
MEDIA_COLUMNS = {
    "images": (pa.field("images", _FILES), {"feature": {"_type": "Image"}, "_type": "List"}),
    "audio": (pa.field("audio", _FILES), {"feature": {"decode": False, "_type": "Audio"}, "_type": "List"}),
}
"""The columns that a release with photos or voices carries beside plain-text content: the field, and what `datasets`
reads it as. Decoding sound needs torchcodec, so that is left to who wants it: `cast_column("audio", List(Audio()))`.
"""


@dataclass(frozen=True, slots=True)
class Config:
    """One config of a release. `rows(staging, split, media)` yields in canonical order; `absent` says why it
    may have none; `media` is the media column that it may carry.
    """

    name: str
    columns: pa.StructType
    rows: Callable[[Staging, str, Path | None], Iterator[Row]]
    absent: str
    media: Literal["images", "audio"] | None = None

    def schema(self, with_media: bool) -> pa.Schema:
        schema = pa.schema(list(self.columns))
        if self.media is None or not with_media:
            return schema
        column, feature = MEDIA_COLUMNS[self.media]
        features = {"info": {"features": {self.media: feature}}}
        return schema.append(column).with_metadata({"huggingface": json.dumps(features)})


def dialogue_row(dialogue: Dialogue) -> Row:
    source = dialogue.source
    return {
        "id": dialogue.id,
        "root_id": dialogue.root_id,
        "rewritten_from": dialogue.rewritten_from,
        "scenario_id": dialogue.scenario_id,
        "lang": dialogue.lang,
        "licence": source.licence,
        "source_format": source.format,
        "source_file": source.file or None,
        "source_position": source.position or None,
        "situation": dialogue.situation or None,
        "problem": dialogue.problem or None,
        "emotion": dialogue.emotion.model_dump() if dialogue.emotion else None,
        "survey": dialogue.survey.model_dump(),
        "speakers": [_speaker(s) for s in dialogue.speakers],
        "turns": [_turn(t) for t in dialogue.turns],
        "risk": dialogue.risk,
        "flags": list(dialogue.flags),
        "meta": _json_text(dialogue.meta),
    }


def trace_row(dialogue: Dialogue, trace: Trace) -> Row:
    prompt = policy_prompt(dialogue, trace.target, trace.history_start)
    completion = render_trace([s.text for s in trace.steps], trace.reply, trace.lang)
    return {
        "prompt": prompt.messages,
        "completion": [{"role": "assistant", "content": completion}],
        **_identity(trace.id, dialogue),
        "round": trace.round,
        "target": trace.target,
        "stage": trace.stage,
        "strategy": trace.strategy,
        "sentiment": trace.sentiment,
        "intensity": trace.intensity,
        "emotions": list(trace.emotions),
        "reply": trace.reply,
        "reference": trace.reference or None,
        "cues": [c.model_dump() for t in last_seeker_turns(dialogue, trace) for c in t.cues],
        "saw": trace.saw,
        "model": trace.model or None,
        "prompt_version": trace.prompt or None,
        "notes": list(trace.notes),
        "opening_added": prompt.is_opening_added,
        "rewritten_from": trace.rewritten_from,
    }


def prompt_row(dialogue: Dialogue, trace: Trace) -> Row:
    """The round of a trace as RL reads it: no reasoning, and the corpus' own reply as reference."""
    prompt = policy_prompt(dialogue, trace.target, trace.history_start)
    persona = next((s.persona for s in dialogue.speakers if s.role == "seeker"), "")
    return {
        "prompt": prompt.messages,
        "reference": trace.reference or None,
        "persona": persona or None,
        "scenario": dialogue.situation or None,
        **_identity(f"{dialogue.id}:{trace.history_start}-{trace.target}", dialogue),
        "target": trace.target,
        "problem": dialogue.problem or None,
        "reference_origin": dialogue.turns[trace.target].origin if trace.reference else None,
        "opening_added": prompt.is_opening_added,
    }


def last_seeker_turns(dialogue: Dialogue, trace: Trace) -> tuple[Turn, ...]:
    """What the seeker said last before the target: the turns whose face and voice the analysis is about."""
    start = trace.target
    while start > trace.history_start and dialogue.turns[start - 1].speaker == "seeker":
        start -= 1
    return dialogue.turns[start : trace.target]


def photos(dialogue: Dialogue, trace: Trace) -> list[Media]:
    """The images of the seeker's last utterance that are at hand."""
    return [m for t in last_seeker_turns(dialogue, trace) for m in pictures_of(t)]


def sounds(dialogue: Dialogue) -> list[Media]:
    """The sounds of a dialogue that are at hand, in the order of its turns."""
    return [m for t in dialogue.turns for m in t.media if m.kind == "audio" and m.status == "ok" and m.path]


def _dialogue_rows(staging: Staging, split: str, media: Path | None) -> Iterator[Row]:
    for dialogue in staging.dialogues(split):
        row = dialogue_row(dialogue)
        yield row if media is None else {**row, "audio": _files(sounds(dialogue), media)}


def _trace_rows(staging: Staging, split: str, media: Path | None) -> Iterator[Row]:
    for dialogue, trace in staging.rounds(split):
        yield _with_images(trace_row(dialogue, trace), dialogue, trace, media)


def _prompt_rows(staging: Staging, split: str, media: Path | None) -> Iterator[Row]:
    last = ""
    for dialogue, trace in staging.rounds(split):
        row = prompt_row(dialogue, trace)
        if row["id"] != last:  # several traces of one round stand side by side
            last = row["id"]
            yield _with_images(row, dialogue, trace, media)


MakeRow = Callable[[Dialogue, Trace, TraceLabels], Row | None]


def _labelled(make: MakeRow, with_images: bool) -> Callable[[Staging, str, Path | None], Iterator[Row]]:
    """The rows that `make` gives for the labelled traces of a split."""

    def rows(staging: Staging, split: str, media: Path | None) -> Iterator[Row]:
        for dialogue, trace, labels in staging.labelled(split):
            made = make(dialogue, trace, labels)
            if made is not None:
                row = {**_identity(trace.id, dialogue), **made}
                yield _with_images(row, dialogue, trace, media if with_images else None)

    return rows


def _columns(own: Mapping[str, pa.DataType]) -> pa.StructType:
    """A config's own columns first, then who the row is."""
    return _struct(**own, **_IDENTITY)


_NO_LABELS = "made from people's labels, or an LLM judge's, and none stands here"

CONFIGS: Mapping[str, Config] = {
    c.name: c
    for c in (
        Config("traces", _TRACES, _trace_rows, "no trace is in this release", media="images"),
        Config("dialogues", _DIALOGUES, _dialogue_rows, "no dialogue is in this release", media="audio"),
        Config(
            "prompts",
            _PROMPTS,
            _prompt_rows,
            "made from the rounds that have a trace, and there is none",
            media="images",
        ),
        Config("steps", _columns(STEP_COLUMNS), _labelled(step_row, False), _NO_LABELS),
        Config(
            "preferences", _columns(PREFERENCE_COLUMNS), _labelled(preference_row, True), _NO_LABELS, media="images"
        ),
        Config("judgements", _columns(JUDGEMENT_COLUMNS), _labelled(judgement_row, True), _NO_LABELS, media="images"),
    )
}
"""Every config of the layout, the default first."""


def _identity(id: str, dialogue: Dialogue) -> Row:
    return {
        "id": id,
        "dialogue_id": dialogue.id,
        "root_id": dialogue.root_id,
        "lang": dialogue.lang,
        "licence": dialogue.source.licence,
    }


def _turn(turn: Turn) -> Row:
    return {
        "speaker": turn.speaker,
        "text": turn.text,
        "raw": turn.raw,
        "strategies": _labels(turn.strategies),
        "emotions": _labels(turn.emotions),
        "feedback": turn.feedback,
        "cues": [_cue(c) for c in turn.cues],
        "media": [m.model_dump(exclude={"path"}) for m in turn.media],
        "origin": turn.origin,
        "start_s": turn.start_s,
        "end_s": turn.end_s,
        "risk": turn.risk.model_dump() if turn.risk else None,
        "flags": list(turn.flags),
    }


def _labels(labels: Iterable[Label]) -> list[Row]:
    return [x.model_dump() for x in labels]


def _cue(cue: Cue) -> Row:
    return cue.model_dump()


def _speaker(speaker: Speaker) -> Row:
    return {
        "role": speaker.role,
        "persona": speaker.persona or None,
        "attributes": _json_text(speaker.attributes),
    }


def _json_text(value: Mapping[str, Any]) -> str | None:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode() if value else None


def _with_images(row: Row, dialogue: Dialogue, trace: Trace, media: Path | None) -> Row:
    if media is not None:
        row["images"] = _files(photos(dialogue, trace), media)
    return row


def _files(media: Iterable[Media], folder: Path) -> list[Row]:
    """The bytes of media; their path is that of the store, the hash and what it is. Raises DataError."""
    store = MediaStore(folder)
    return [{"bytes": store.read(m), "path": Path(m.path or "").name} for m in media]
