"""The nouns of the toolkit, as frozen pydantic models.

Whatever crosses a file or a process border is one of these. *Missing is never zero*: a value that
a source does not state is `None`, and a label that the taxonomy does not know is kept as written,
with `None` as its mapping. May import: the standard library and pydantic.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue

Role = Literal["seeker", "supporter"]
Lang = Literal["en", "zh"]
Json = dict[str, JsonValue]
RiskLevel = Literal["concern", "high", "imminent"]
RISK_LEVELS: tuple[RiskLevel, ...] = get_args(RiskLevel)
"""From the least grave to the gravest."""
RiskCategory = Literal["self_harm", "abuse", "danger_to_others"]


class Record(BaseModel):
    """Frozen, strict about unknown fields; equal content means equal records."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Label(Record):
    """One label of a corpus, as written and as understood.

    `original` is the source's own word. `corpus` is that word's canonical spelling in its own corpus
    ("Questions" -> "Question"), `None` when the corpus' vocabulary does not hold it. `ser` is the SER
    strategy or emotion from the readable map (`ser_toolkit.taxonomy`), `None` where there is none.
    """

    original: str
    corpus: str | None = None
    ser: str | None = None


class Cue(Record):
    """A non-verbal signal in words, apart from what was said.

    `source` says where it comes from: "corpus:<format>" as a field of the corpus, "rule:<name>" as split from
    the text by a rule, "model:<name>" as written by a model.
    """

    channel: Literal["face", "voice", "body", "scene", "mixed"]
    text: str
    source: str


class Media(Record):
    """An image, a sound or a video of a turn, content-addressed once ingested.

    `path` is relative to the workspace's `media/` after ingest, before that as the source names it.
    `status` is "referenced" before ingest, "ok" after, "no media" where the source names a file that is not there or
    cannot be used. `origin` is where it comes from: "corpus", "video" (a key frame of one), "photos" (a folder of
    photos) or "model:<name>"; `licence` its own, where that is not the dialogue's. `shows` says in words what a picture
    was chosen or made to show: what a model that sees no pictures is told instead.
    """

    kind: Literal["image", "audio", "video"]
    path: str | None = None
    url: str | None = None
    sha256: str | None = None
    media_type: str | None = None
    status: Literal["referenced", "ok", "no media"] = "referenced"
    origin: str = "corpus"
    licence: str | None = None
    shows: str = ""


class Risk(Record):
    """The gravest crisis content of an utterance; `start` and `end` count characters of its `text`, as redacted."""

    level: RiskLevel
    category: RiskCategory
    start: int
    end: int


class Turn(Record):
    """One utterance of one speaker.

    `text` is what was said. `raw` is the source's text where it differs (a trailing newline, a glued
    cue, a repaired encoding), so nothing is lost. `origin` is the turn's provenance: "corpus",
    "model:<name>" or "person". `flags` names what a reader should know, e.g. "mojibake_repaired",
    "cue_kept_in_text".
    """

    speaker: Role
    text: str
    raw: str | None = None
    strategies: tuple[Label, ...] = ()
    emotions: tuple[Label, ...] = ()
    feedback: int | None = None
    cues: tuple[Cue, ...] = ()
    media: tuple[Media, ...] = ()
    origin: str = "corpus"
    start_s: float | None = None
    end_s: float | None = None
    risk: Risk | None = None
    flags: tuple[str, ...] = ()


class Survey(Record):
    """What the two people said after the talk, on ESConv's 1-5 scales; `None` where they did not."""

    initial_intensity: int | None = None
    final_intensity: int | None = None
    empathy: int | None = None
    relevance: int | None = None
    supporter_relevance: int | None = None

    @property
    def intensity_change(self) -> int | None:
        """final - initial, or `None` if either is missing."""
        if self.initial_intensity is None or self.final_intensity is None:
            return None
        return self.final_intensity - self.initial_intensity


class Speaker(Record):
    """Who speaks: a persona in prose, and attributes that the source states."""

    role: Role
    persona: str = ""
    attributes: Json = Field(default_factory=dict)


class Source(Record):
    """Where a record comes from. `file` is a name relative to the path given, never a machine's path.

    `position` is "line 7", "record 3" or "" for a whole file; `licence` is the source's, as an SPDX id
    where there is one, "unknown" where none is stated.
    """

    format: str
    file: str = ""
    position: str = ""
    licence: str = "unknown"


class Scenario(Record):
    """A situation to play: what the seeker brings, and what a simulated seeker keeps to itself."""

    id: str
    lang: Lang
    source: Source
    situation: str
    problem: str = ""
    emotion: Label | None = None
    intensity: str | None = None
    culture: str = ""
    speakers: tuple[Speaker, ...] = ()
    hidden_intention: str = ""
    opening: str = ""
    risk: RiskLevel | None = None
    meta: Json = Field(default_factory=dict)


class Dialogue(Record):
    """A conversation between one seeker and one supporter.

    `root_id` is the id of the dialogue that this one descends from (itself, unless rewritten): the
    split of a release hangs on it. `meta` keeps the source's other fields, as JSON.
    """

    id: str
    root_id: str
    lang: Lang
    source: Source
    turns: tuple[Turn, ...]
    situation: str = ""
    problem: str = ""
    emotion: Label | None = None
    survey: Survey = Survey()
    speakers: tuple[Speaker, ...] = ()
    scenario_id: str | None = None
    rewritten_from: str | None = None
    risk: RiskLevel | None = None
    flags: tuple[str, ...] = ()
    meta: Json = Field(default_factory=dict)

    @property
    def is_supporter_first(self) -> bool:
        """Whether the supporter speaks first: a user-first chat template then needs care."""
        return bool(self.turns) and self.turns[0].speaker == "supporter"


class Step(Record):
    """One of the three reasoning steps, its text as written, without the heading."""

    number: Literal[1, 2, 3]
    title: str
    text: str


class StepLabel(Record):
    """One person's (or one judge's) verdict on one step."""

    trace_id: str
    step: Literal[1, 2, 3]
    label: bool
    critique: str = ""
    annotator: str = ""
    source: Literal["person", "llm", "consensus"] = "person"


class Preference(Record):
    """One verdict on two replies. `verdict` is by position as shown; `generated_position` says which was ours."""

    trace_id: str
    verdict: Literal["first_better", "second_better", "almost_equal", "neither"]
    generated_position: Literal[1, 2]
    annotator: str = ""
    source: Literal["person", "llm", "consensus"] = "person"


class Trace(Record):
    """A complete structured-empathetic-reasoning record for one round of one dialogue.

    `target` is the index in `Dialogue.turns` of the supporter's turn that is answered; the history is
    `turns[history_start:target]`, which ends with the seeker's last utterance. `reference` is the
    corpus' own reply, empty where there is none. The labels read from the steps are `None` where the
    text names none, never a default. `rewritten_from` is the trace that this one repeats over a rewritten
    dialogue: people label that one, and their labels count for this one too (`labelled_id`).
    """

    id: str
    dialogue_id: str
    root_id: str
    lang: Lang
    round: int
    target: int
    history_start: int = 0
    steps: tuple[Step, Step, Step]
    reply: str
    reference: str = ""
    stage: str | None = None
    strategy: str | None = None
    sentiment: str | None = None
    intensity: str | None = None
    emotions: tuple[str, ...] = ()
    saw: Literal["image", "cues", "text"] = "text"
    model: str = ""
    prompt: str = ""
    notes: tuple[str, ...] = ()
    rewritten_from: str | None = None

    @property
    def labelled_id(self) -> str:
        """The id under which people's labels for this trace stand."""
        return self.rewritten_from or self.id


class Verdict(Record):
    """A judge's answer on one dialogue: keep it or not, and why. `keep=None`: the judge failed."""

    record_id: str
    check: str
    keep: bool | None
    failed: tuple[str, ...] = ()
    reason: str = ""
    enforced: bool = True
    model: str = ""


class Failure(Record):
    """A record that could not be used: a row, not a crash.

    `kind` is one of `errors.FAILURE_KINDS`; `stage` is "import" or a stage's name; `position` as in
    `Source`; `request_key` the journal's key; `risk` the crisis level of the dialogue, where known.
    """

    kind: str
    stage: str
    reason: str
    record_id: str = ""
    source: str = ""
    file: str = ""
    position: str = ""
    text: str = ""
    request_key: str | None = None
    risk: str | None = None


def canonical_json(value: Any) -> bytes:
    """The one JSON spelling that hashes are taken over: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode(
        "utf-8", "surrogatepass"
    )


def content_id(prefix: str, value: Any) -> str:
    """A short stable id of a record that has none of its own: prefix and 12 hex digits of its content."""
    return f"{prefix}-{hashlib.sha256(canonical_json(value)).hexdigest()[:12]}"
