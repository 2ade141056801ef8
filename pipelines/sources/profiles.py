"""Profiles and role cards of simulated seekers, as scenarios: SAGE / RLVER, ESC-Eval and ESC-Judge.

Suite files come by path and are never bundled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import JsonValue

from ser_toolkit.errors import RecordError
from ser_toolkit.schema import Json, Lang, Scenario, Speaker

from .base import Imported, ReadContext, SourceFormat
from .finish import detect_lang, make_source, member, read_records, record_id
from .reading import Raw, json_records
from .text_repair import clean_text
from .words import own_id, text_or_none

# SAGE's scene ends with the hidden theme, under a heading of its own.
_HIDDEN_THEME = re.compile(
    r"\n#*[ \t]*(?:隐藏主题|hidden theme)[ \t]*[:：][ \t]*\n?\**[ \t]*(?P<theme>(?:(?!隐藏主题).)*)\Z", re.DOTALL | re.I
)
# ESC-Eval's cards name their parts at the line's start, in the card's language.
_PROBLEM = re.compile(r"(?m)^[ \t]*(?:problem|问题)[ \t]*[:：][ \t]*", re.I)
_LANGUAGES: dict[str, Lang] = {"english": "en", "chinese": "zh"}


def _sage(raw: Raw, context: ReadContext) -> Scenario:
    """`task` is what the seeker wants and does not say; the scene's own copy of it is cut off."""
    record = raw.value
    scene, task = member(record, "scene", str), text_or_none(record, "task") or ""
    found = _HIDDEN_THEME.search(scene)
    theme = found["theme"].strip(" \t\n*") if found else ""
    meta = _kept(record, "main_cha", "cha_group", "topic")
    if theme and task and theme != task:
        meta["hidden_theme"] = theme
    return _scenario(
        raw,
        SAGE,
        context,
        own_id=own_id(record.get("id")),
        persona=member(record, "player", str),
        situation=scene[: found.start()] if found else scene,
        hidden_intention=task or theme,
        opening=text_or_none(record, "first_talk") or "",
        meta=meta,
    )


def _esc_eval(raw: Raw, context: ReadContext) -> Scenario:
    """`base` is who the seeker is, then what the problem is."""
    record = raw.value
    base = member(record, "base", str)
    found = _PROBLEM.search(base)
    persona, situation = (base[: found.start()], base[found.end() :]) if found else ("", base)
    language = text_or_none(record, "language")
    if language is not None and language.lower() not in _LANGUAGES:
        raise RecordError("malformed", f"the language {language!r} is neither english nor chinese")
    return _scenario(
        raw,
        ESC_EVAL,
        context,
        own_id=own_id(record.get("id")),
        persona=persona,
        situation=situation,
        lang=_LANGUAGES[language.lower()] if language else None,
        problem=text_or_none(record, "res") or "",
        meta=_kept(record, "source", "base_biaozhu"),
    )


def _esc_judge(raw: Raw, context: ReadContext) -> Scenario:
    """`role` is the whole seeker, `challenge` what weighs on it; the parts that `role` was made of stay in meta."""
    record = raw.value
    challenge = member(record, "challenge", str)
    return _scenario(
        raw,
        ESC_JUDGE,
        context,
        own_id=own_id(record.get("pid")),
        persona=member(record, "role", str),
        situation=challenge,
        problem=challenge,
        meta=_kept(record, "final_persona", "life_events", "behavioral_traits"),
    )


def _kept(record: Json, *keys: str) -> Json:
    return {key: record[key] for key in keys if record.get(key) is not None}


def _scenario(
    raw: Raw,
    format: SourceFormat,
    context: ReadContext,
    *,
    own_id: str | None,
    persona: str,
    situation: str,
    hidden_intention: str = "",
    opening: str = "",
    problem: str = "",
    lang: Lang | None = None,
    meta: Json,
) -> Scenario:
    repair = context.spec.repair_text
    texts = [clean_text(text, repair=repair) for text in (persona, situation, hidden_intention, opening)]
    flags: list[JsonValue] = [*dict.fromkeys((*raw.flags, *(flag for cleaned in texts for flag in cleaned.flags)))]
    persona, situation, hidden_intention, opening = (cleaned.text for cleaned in texts)
    if not persona and not situation:
        raise RecordError("empty", "neither a persona nor a situation")
    return Scenario(
        id=record_id(raw, format.name, own_id),
        lang=context.spec.lang or lang or detect_lang([persona, situation, opening]),
        source=make_source(raw, format.name, format.licence, context),
        situation=situation,
        problem=problem,
        speakers=(Speaker(role="seeker", persona=persona),),
        hidden_intention=hidden_intention,
        opening=opening,
        meta={**meta, "flags": flags} if flags else meta,
    )


def _format(
    name: str,
    title: str,
    languages: tuple[str, ...],
    licence: str,
    expects: str,
    parse: Callable[[Raw, ReadContext], Scenario],
) -> SourceFormat:
    def read(path: Path, context: ReadContext) -> Iterator[Imported]:
        yield from read_records(json_records(path, context), name, lambda raw: parse(raw, context))

    return SourceFormat(name, title, "scenarios", languages, licence, expects, read)


_SAGE = "JSON Lines of {id, player, scene, task, first_talk, main_cha, cha_group, topic?}"
SAGE = _format("sage", "SAGE and RLVER profiles", ("zh", "en"), "MIT", _SAGE, _sage)
_CARD = "JSON lists of {id, base, res, source, base_biaozhu, language}, a file or a folder"
ESC_EVAL = _format("esc-eval", "ESC-Eval role cards", ("en", "zh"), "unknown", _CARD, _esc_eval)
_PERSONA = "JSON Lines of {pid, role, challenge, life_events, behavioral_traits, final_persona}"
ESC_JUDGE = _format("esc-judge", "ESC-Judge personas", ("en",), "Apache-2.0", _PERSONA, _esc_judge)
