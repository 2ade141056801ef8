"""From what an importer found in a record to a finished Dialogue, by rules that all formats share.

An importer writes `parse(raw) -> Dialogue | Scenario` with `make_dialogue`, and hands it to `read_records`,
which turns whatever goes wrong with a record into its Failure and refuses an id that was there before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from ser_toolkit.errors import RecordError
from ser_toolkit.plain import plain_error
from ser_toolkit.schema import Dialogue, Failure, Scenario, Source, Turn, content_id

from .base import Imported, ReadContext
from .reading import Raw, import_failure
from .text_repair import clean_text, detect_lang
from .turn_rules import merge_neighbours, split_role_tags

__all__ = [
    "detect_lang",
    "make_dialogue",
    "make_source",
    "member",
    "merge_neighbours",
    "read_records",
    "record_id",
    "short_hash",
    "split_role_tags",
]

T = TypeVar("T")


def read_records(
    raws: Iterable[Raw | Failure], fmt_name: str, parse: Callable[[Raw], Dialogue | Scenario]
) -> Iterator[Imported]:
    """Each record parsed, or its Failure, in order. An id that was there before is a Failure "duplicate_id"."""
    seen: dict[int, str] = {}
    for raw in raws:
        if isinstance(raw, Failure):
            yield raw
            continue
        try:
            record = parse(raw)
        except RecordError as exc:
            yield _failure(raw, fmt_name, exc.kind, exc.reason, exc.text)
        except RecursionError:
            yield _failure(raw, fmt_name, "malformed", "nested too deeply")
        except ValidationError as exc:
            first = exc.errors()[0]
            place = ".".join(map(str, first["loc"][:4]))
            yield _failure(raw, fmt_name, "malformed", f"{place}: {plain_error(first)}")
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            # A record of a shape that nobody foresaw costs itself, not the run.
            yield _failure(raw, fmt_name, "malformed", f"not of this format's shape ({type(exc).__name__}: {exc})")
        else:
            key = short_hash(record.id)
            if key in seen:
                reason = f"the id {record.id!r} was there before: {seen[key]}"
                yield _failure(raw, fmt_name, "duplicate_id", reason, first_words(record), record.id)
            else:
                seen[key] = ", ".join(part for part in (raw.file, raw.position) if part)
                yield record


def short_hash(text: str) -> int:
    """Eight bytes that stand for an id, so that millions of them fit in memory."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())


def member(record: Any, key: str, kind: type[T] | tuple[type[T], ...], where: str = "the record") -> T:
    """`record[key]`, which must be there and of this type. Raises RecordError("malformed"), naming the key."""
    if not isinstance(record, dict):
        raise RecordError("malformed", f"{where} is {type(record).__name__}, not an object")
    if key not in record:
        raise RecordError("malformed", f"{where} has no {key!r}; it has: {', '.join(map(str, record)) or 'nothing'}")
    value = record[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise RecordError("malformed", f"{key!r} of {where} is of type {type(value).__name__}")
    return value


def make_source(raw: Raw, fmt_name: str, licence: str, context: ReadContext) -> Source:
    """Where the record stands; the recipe's licence before the format's."""
    return Source(format=fmt_name, file=raw.file, position=raw.position, licence=context.spec.licence or licence)


def record_id(raw: Raw, fmt_name: str, own_id: str | None = None) -> str:
    """`<format>-<own id>`, or a hash of the record's content where it has no id."""
    own = (own_id or "").strip()
    return f"{fmt_name}-{own}" if own else content_id(fmt_name, raw.value)


def make_dialogue(
    raw: Raw,
    fmt_name: str,
    licence: str,
    context: ReadContext,
    *,
    turns: Sequence[Turn],
    own_id: str | None = None,
    **fields: Any,
) -> Dialogue:
    """The dialogue that `turns` make by the recipe's rules; `fields` are Dialogue's others.

    In order: texts cleaned (`text_repair`; what the source had stays in `raw`), turns without text, cue and
    medium dropped and counted in the flag "empty_turns_dropped:N", role tags refused or split, neighbours kept
    or merged, language told. Raises RecordError: empty, role_tags, one_sided.
    """
    spec = context.spec
    flags = [*raw.flags, *fields.pop("flags", ())]
    cleaned = [_clean_turn(turn, repair=spec.repair_text) for turn in turns]
    kept = [turn for turn in cleaned if _holds_something(turn)]
    if not any(turn.text for turn in kept):
        raise RecordError("empty", "no turn holds a text")
    if len(kept) < len(cleaned):
        flags.append(f"empty_turns_dropped:{len(cleaned) - len(kept)}")
    parts = (part for place, turn in enumerate(kept, 1) for part in _untagged(turn, place, context))
    final = tuple(part for part in parts if _holds_something(part))
    if spec.neighbours == "merge":
        final = merge_neighbours(final)
    speakers = {turn.speaker for turn in final}
    if len(speakers) < 2:
        raise RecordError("one_sided", f"only the {kept[0].speaker} speaks ({len(final)} turns)", text=kept[0].text)
    if "situation" in fields:
        situation = clean_text(fields["situation"], repair=spec.repair_text)
        if situation.flags:
            fields["meta"] = {**fields.get("meta", {}), "situation_raw": fields["situation"]}
            flags += [f"situation_{flag}" for flag in situation.flags]
        fields["situation"] = situation.text
    id = record_id(raw, fmt_name, own_id)
    return Dialogue(
        id=id,
        root_id=id,
        lang=spec.lang or detect_lang(turn.text for turn in final),
        source=make_source(raw, fmt_name, licence, context),
        turns=final,
        flags=tuple(dict.fromkeys(flags)),
        **fields,
    )


def _clean_turn(turn: Turn, *, repair: bool) -> Turn:
    cleaned = clean_text(turn.text, repair=repair)
    if cleaned.text == turn.text and not cleaned.flags:
        return turn
    raw = turn.text if turn.raw is None and cleaned.text != turn.text else turn.raw
    flags = tuple(dict.fromkeys((*turn.flags, *cleaned.flags)))
    return turn.model_copy(update={"text": cleaned.text, "raw": raw, "flags": flags})


def _holds_something(turn: Turn) -> bool:
    return bool(turn.text or turn.cues or turn.media)


def _untagged(turn: Turn, place: int, context: ReadContext) -> tuple[Turn, ...]:
    parts = split_role_tags(turn, context.spec.roles)
    if parts != (turn,) and context.spec.role_tags == "quarantine":
        reason = f"turn {place} holds role tags; `role_tags: split` cuts it there"
        raise RecordError("role_tags", reason, text=turn.raw or turn.text)
    return parts


def first_words(record: Dialogue | Scenario) -> str:
    """The first utterance of a record, by which a person knows it again."""
    return record.turns[0].text if isinstance(record, Dialogue) else record.opening or record.situation


_ID_KEYS = ("id", "pid", "conversation_id", "dialogue_id", "dialog_id")


def _failure(raw: Raw, fmt_name: str, kind: str, reason: str, text: str = "", record_id: str = "") -> Failure:
    """The record's row; where nobody says what text was at fault it is the record as it stands."""
    if not record_id and isinstance(raw.value, dict):
        ids = (raw.value.get(key) for key in _ID_KEYS)
        record_id = next((str(i) for i in ids if isinstance(i, str | int) and not isinstance(i, bool)), "")
    if not text:
        text = raw.value if isinstance(raw.value, str) else json.dumps(raw.value, ensure_ascii=False, default=str)
    return import_failure(fmt_name, raw.file, kind, reason, raw.position, text, record_id)
