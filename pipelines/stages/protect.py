"""What is private leaves a record, and what tells of a crisis is marked, before any model, journal or table sees it.

All texts of one record go through one Redactor, so a person has one placeholder throughout. `raw` (a source's text
before it was mended) is redacted too; where it does not show the same finds as the text, so that something may have
stayed in it, it is dropped and the turn flagged "raw_dropped". The text of a Failure that cannot be read as text
(escapes, broken bytes, a cut number) is dropped: file and position stay. Ids and names of
files lose what is private in them too, the same id everywhere alike. May import: ser_toolkit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ser_toolkit.errors import RecordError
from ser_toolkit.protection.crisis import CrisisSpan, find_crisis, highest
from ser_toolkit.protection.ids import protect_id, protect_name
from ser_toolkit.protection.redact import Redactor
from ser_toolkit.protection.replies import PROBLEMS, refusal_problems
from ser_toolkit.protection.spans import PLACEHOLDER, Kind
from ser_toolkit.recipe import Protect
from ser_toolkit.schema import (
    Cue,
    Dialogue,
    Failure,
    Json,
    Label,
    Lang,
    Risk,
    RiskLevel,
    Scenario,
    Source,
    Speaker,
    Turn,
)

R = TypeVar("R", bound=Dialogue | Scenario | Failure)

_HAN = re.compile(r"[\u3400-\u9fff]")
_UNREADABLE = re.compile(r"\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|[\ufffd\ud800-\udfff\x00-\x08]")
_KEYS: dict[Kind, str] = {
    "name": "name full_name fullname first_name last_name surname nickname player 姓名 名字 昵称",
    "email": "email e-mail mail 邮箱",
    "phone": "phone telephone mobile tel 电话 手机 手机号",
    "address": "address street 地址 住址",
    "handle": "username user_name handle wechat qq 微信 微信号",
    "id": "ssn passport id_card idcard 身份证 身份证号",
}
_KIND_OF_KEY: dict[str, Kind] = {key: kind for kind, keys in _KEYS.items() for key in keys.split()}
"""Keys of free fields whose whole value is private, as far as it is a short text."""
_SHORT = 200
_PLAIN_KEY = re.compile(r"[a-z0-9_]*|[A-Z0-9_]+")
"""A key that a program wrote; any other may be a person's ("Sarah": "..."), and is read as text."""
_NOBODY = {"seeker", "supporter", "user", "client", "patient", "npc", "player", "speaker", "listener", "unknown"}


@dataclass(frozen=True, slots=True)
class ProtectCounts:
    """What was replaced (spans by kind; a turn's `raw` repeats its text and is not counted) and what was found."""

    spans: Counter[str] = field(default_factory=Counter)
    risk: Counter[str] = field(default_factory=Counter)
    raw_dropped: int = 0
    text_dropped: int = 0

    def __add__(self, other: ProtectCounts) -> ProtectCounts:
        return ProtectCounts(
            self.spans + other.spans,
            self.risk + other.risk,
            self.raw_dropped + other.raw_dropped,
            self.text_dropped + other.text_dropped,
        )


def protect(record: R, policy: Protect) -> tuple[R, ProtectCounts]:
    """The record without what is private, with crisis levels, and what that came to; no original text is kept.

    `risk` of the counts: one record of that highest level. With `policy.enabled` off the record comes back as it is.
    """
    if not policy.enabled:
        return record, ProtectCounts()
    if isinstance(record, Failure):
        return _protect_failure(record)
    swap = _Swap(record)
    if isinstance(record, Scenario):
        return _protect_scenario(record, swap)
    return _protect_dialogue(record, swap)


def supporter_may_be_imitated(dialogue: Dialogue, policy: Protect) -> bool:
    """Whether a model may learn to answer as this supporter does: not in a crisis, unless the recipe says so."""
    return policy.imitate_crisis or dialogue.risk is None


def must_stand_in_a_crisis(dialogue: Dialogue, target: int, reply: str, request_key: str | None = None) -> None:
    """Raises RecordError ("crisis_reply") for a reply to someone in a crisis that nobody should learn.

    It declines to talk, or names a number: a dialogue states no country, so no number can be the right one.
    """
    before = dialogue.turns[:target]
    first = next((i + 1 for i in range(target - 1, -1, -1) if before[i].speaker != "seeker"), 0)
    if not any(turn.risk for turn in before[first:]):
        return
    if problems := refusal_problems(reply, dialogue.lang):
        reason = "; ".join(PROBLEMS[p] for p in problems)
        raise RecordError("crisis_reply", reason, text=reply, request_key=request_key)


def _protect_dialogue(record: Dialogue, swap: _Swap) -> tuple[Any, ProtectCounts]:
    turns = tuple(_protect_turn(t, swap, record.lang) for t in record.turns)
    rest = {
        "situation": swap(record.situation),
        "problem": swap(record.problem),
        "emotion": _label(record.emotion, swap) if record.emotion else None,
        "speakers": tuple(_speaker(s, swap) for s in record.speakers),
        "meta": swap.json(record.meta),
        "id": protect_id(record.id),
        "root_id": protect_id(record.root_id),
        "scenario_id": record.scenario_id and protect_id(record.scenario_id),
        "rewritten_from": record.rewritten_from and protect_id(record.rewritten_from),
        "source": _source(record.source),
    }
    # A supporter that asks about suicide tells that it may be there, no more.
    told: list[RiskLevel | None] = [_level(swap(record.situation), record.lang)]
    for turn in turns:
        if turn.risk:
            told.append(turn.risk.level if turn.speaker == "seeker" else "concern")
    risk = highest(told)
    dropped = sum("raw_dropped" in t.flags for t in turns)
    made = record.model_copy(update={"turns": turns, "risk": risk, **rest})
    return made, ProtectCounts(swap.counts, Counter([risk] if risk else []), dropped)


def _protect_scenario(record: Scenario, swap: _Swap) -> tuple[Any, ProtectCounts]:
    texts = {name: swap(getattr(record, name)) for name in _SCENARIO_TEXTS}
    speakers = tuple(_speaker(s, swap) for s in record.speakers)
    risk = highest(_level(text, record.lang) for text in (*texts.values(), *(s.persona for s in speakers)))
    names = {"id": protect_id(record.id), "source": _source(record.source)}
    rest = {"speakers": speakers, "meta": swap.json(record.meta), "risk": risk, **names}
    emotion = _label(record.emotion, swap) if record.emotion else None
    return record.model_copy(update={**texts, **rest, "emotion": emotion}), ProtectCounts(
        swap.counts, Counter([risk] if risk else [])
    )


_SCENARIO_TEXTS = ("situation", "problem", "culture", "hidden_intention", "opening")


def _protect_failure(record: Failure) -> tuple[Any, ProtectCounts]:
    lang: Lang = "zh" if _HAN.search(record.text + record.reason) else "en"
    redactor = Redactor(lang)
    unreadable = bool(_UNREADABLE.search(record.text))
    names = {"record_id": protect_id(record.record_id), "file": protect_name(record.file)}
    told = record.reason
    for shown, safe in ((record.record_id, names["record_id"]), (record.file, names["file"])):
        told = told.replace(shown, safe) if shown else told
    text, reason = redactor.redact_all(["" if unreadable else record.text, told])
    if _UNREADABLE.search(reason):
        reason = f"{record.kind} (the reason quoted text that cannot be shown)"
    risk = _level(text, lang) or record.risk
    made = record.model_copy(update={"text": text, "reason": reason, "risk": risk, **names})
    counts = Counter({str(k): n for k, n in redactor.counts.items()})
    return made, ProtectCounts(counts, Counter([risk] if risk else []), text_dropped=int(unreadable))


def _source(source: Source) -> Source:
    file = protect_name(source.file)
    return source if file == source.file else source.model_copy(update={"file": file})


def _protect_turn(turn: Turn, swap: _Swap, lang: Lang) -> Turn:
    text = swap(turn.text)
    raw = None if turn.raw is None else swap.raw(turn.raw, turn.text)
    flags = list(turn.flags)
    if text != turn.text:
        flags.append("pii_redacted")
    if turn.raw is not None and raw is None:
        flags.append("raw_dropped")
    risk = _gravest(find_crisis(text, lang))
    change: dict[str, Any] = {}
    if text != turn.text or raw != turn.raw:
        change |= {"text": text, "raw": raw, "flags": tuple(flags)}
    if risk is not None:
        change["risk"] = risk
    cues = tuple(_cue(c, swap) for c in turn.cues)
    if cues != turn.cues:
        change["cues"] = cues
    labels = {name: tuple(_label(x, swap) for x in getattr(turn, name)) for name in ("strategies", "emotions")}
    change |= {name: made for name, made in labels.items() if made != getattr(turn, name)}
    return turn.model_copy(update=change) if change else turn


def _gravest(found: list[CrisisSpan]) -> Risk | None:
    level = highest(s.level for s in found)
    span = next((s for s in found if s.level == level), None)
    return span and Risk(level=span.level, category=span.category, start=span.start, end=span.end)


def _level(text: str, lang: Lang) -> RiskLevel | None:
    return highest(s.level for s in find_crisis(text, lang)) if text else None


def _cue(cue: Cue, swap: _Swap) -> Cue:
    text = swap(cue.text)
    return cue if text == cue.text else cue.model_copy(update={"text": text})


def _label(label: Label, swap: _Swap) -> Label:
    original = swap(label.original) if label.corpus is None else label.original
    return label if original == label.original else label.model_copy(update={"original": original})


def _speaker(speaker: Speaker, swap: _Swap) -> Speaker:
    return speaker.model_copy(update={"persona": swap(speaker.persona), "attributes": swap.json(speaker.attributes)})


class _Swap:
    """Each text of one record -> the same text redacted. Lives as long as the record is worked on."""

    def __init__(self, record: Dialogue | Scenario) -> None:
        self._redactor = Redactor(record.lang)
        for key, value in _fields(record):
            kind = _KIND_OF_KEY.get(key.lower())
            if kind and value.strip().lower() not in _NOBODY and len(value) <= _SHORT:
                self._redactor.know(value, kind)
        texts = [*dict.fromkeys(t for t in _texts(record) if t)]
        self._made = dict(zip(texts, self._redactor.redact_all(texts), strict=True))
        self.counts: Counter[str] = Counter({str(k): n for k, n in self._redactor.counts.items()})

    def __call__(self, text: str) -> str:
        return self._made[text] if text else text

    def json(self, tree: Json) -> Json:
        return _map_strings(tree, self)

    def raw(self, raw: str, text: str) -> str | None:
        """`raw` redacted as `text` was, and what stands around it; `None` where a find of the text is missing in it."""
        before, found, after = raw.partition(text)
        if text and found:
            return self._rest(before) + self._made[text] + self._rest(after)
        made = self._rest(raw)
        shown, needed = Counter(PLACEHOLDER.findall(made)), Counter(PLACEHOLDER.findall(self(text)))
        return made if needed <= shown else None

    def _rest(self, text: str) -> str:
        bare = text.strip()
        if bare in self._made:
            return text.replace(bare, self._made[bare])
        return self._redactor.redact_all([text], count=False)[0] if bare else text


def _texts(record: Dialogue | Scenario) -> Iterator[str]:
    """Every text of a record, the talk first, so that people are numbered as they appear there."""
    if isinstance(record, Dialogue):
        for turn in record.turns:
            yield turn.text
        for turn in record.turns:
            yield from (c.text for c in turn.cues)
            yield from (x.original for x in (*turn.strategies, *turn.emotions) if x.corpus is None)
        yield from (record.situation, record.problem)
    else:
        yield from (getattr(record, name) for name in _SCENARIO_TEXTS)
    if record.emotion and record.emotion.corpus is None:
        yield record.emotion.original
    yield from (s.persona for s in record.speakers)
    yield from (value for _, value in _fields(record))


def _fields(record: Dialogue | Scenario) -> Iterator[tuple[str, str]]:
    """(key, text) of the free fields: speakers' attributes and `meta`."""
    for tree in (*(s.attributes for s in record.speakers), record.meta):
        yield from _strings("", tree)


def _strings(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for k, v in value.items():
            if not _PLAIN_KEY.fullmatch(k):
                yield "", k
            yield from _strings(k, v)
    elif isinstance(value, list):
        for v in value:
            yield from _strings(key, v)


def _map_strings(value: Any, change: _Swap) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {(k if _PLAIN_KEY.fullmatch(k) else change(k)): _map_strings(v, change) for k, v in value.items()}
    return [_map_strings(v, change) for v in value] if isinstance(value, list) else value
