"""Rules on the turns of a dialogue: who speaks, neighbours of one speaker, role tags inside a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal

from ser_toolkit.errors import RecordError
from ser_toolkit.schema import Role, Turn
from ser_toolkit.taxonomy import LabelMap, fold

ROLE_WORDS: dict[str, Role] = {
    **dict.fromkeys(("seeker", "help seeker", "user", "usr", "client", "speaker", "human", "patient"), "seeker"),
    **dict.fromkeys(("来访者", "求助者", "倾诉者", "用户", "患者"), "seeker"),
    **dict.fromkeys(
        ("supporter", "assistant", "counselor", "counsellor", "therapist", "psychologist", "listener", "helper"),
        "supporter",
    ),
    **dict.fromkeys(("sys", "gpt", "bot", "ai", "model"), "supporter"),
    **dict.fromkeys(("咨询师", "心理咨询师", "心理医生", "治疗师", "支持者", "倾听者", "助手"), "supporter"),
}
"""Words for the two speakers that files use, folded."""
SYSTEM_WORDS = ("system", "developer")


_fold = lru_cache(4096)(fold)


def role_of(word: Any, where: str, roles: Mapping[str, Role], labels: LabelMap) -> Role | Literal["system"]:
    """Whom a speaker label means: by the recipe's `roles`, the format's label map, then the common words.

    Raises RecordError: "unknown_speaker", with the label as its text; "malformed" where it is no word.
    """
    if not isinstance(word, str | int) or isinstance(word, bool):
        raise RecordError("malformed", f"the speaker of {where} is of type {type(word).__name__}")
    folded = _fold(str(word))
    own = {_fold(label): role for label, role in roles.items()} if roles else {}
    found = own.get(folded) or labels.speaker(folded) or ROLE_WORDS.get(folded)
    if found == "seeker" or found == "supporter":
        return found
    if found == "system" or folded in SYSTEM_WORDS:
        return "system"
    reason = f"{where}: who is {word!r}? Say so in the recipe: `roles: {{{word}: seeker}}`, or supporter"
    raise RecordError("unknown_speaker", reason, text=str(word))


def split_role_tags(turn: Turn, roles: Mapping[str, Role] | None = None) -> tuple[Turn, ...]:
    """The turn cut at its role tags ("Supporter: ..."); itself alone without any.

    A tag stands at the start of a line, or behind the end of a sentence where the other speaker is named. `roles` are
    further words. The first part keeps the whole original in `raw`; labels, feedback, cues and media go to the first
    part of the turn's own speaker (the first part, where there is none).
    """
    if ":" not in turn.text and "：" not in turn.text:
        return (turn,)
    words: dict[str, Role] = {**ROLE_WORDS, **{fold(word): role for word, role in (roles or {}).items()}}
    tags = _tags(turn, words)
    if not tags:
        return (turn,)
    speakers: list[Role] = [turn.speaker, *(words[fold(tag["word"])] for tag in tags)]
    starts = [0, *(tag.end() for tag in tags)]
    ends = [*(tag.start() for tag in tags), len(turn.text)]
    bounds = zip(speakers, starts, ends, strict=True)
    parts: list[tuple[Role, str]] = [
        (role, text) for role, start, end in bounds if (text := turn.text[start:end].strip())
    ]
    parts = parts or [(turn.speaker, "")]
    owner = next((i for i, (role, _) in enumerate(parts) if role == turn.speaker), 0)
    flags = (*turn.flags, "split_from_role_tags")
    return tuple(
        (turn if i == owner else Turn(speaker=role, text=text, origin=turn.origin)).model_copy(
            update={
                "speaker": role,
                "text": text,
                "flags": flags,
                "raw": (turn.raw or turn.text) if i == 0 else None,
            }
        )
        for i, (role, text) in enumerate(parts)
    )


def merge_neighbours(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """Neighbouring turns of one speaker as one: texts joined by newlines, every label, cue and medium kept.

    Of several feedback scores the last stays, flagged "feedback_merged".
    """
    return tuple(_merge(list(group)) for _, group in groupby(turns, key=lambda turn: turn.speaker))


def _merge(group: list[Turn]) -> Turn:
    if len(group) == 1:
        return group[0]
    scores = [turn.feedback for turn in group if turn.feedback is not None]
    flags = [flag for turn in group for flag in turn.flags] + ["feedback_merged"] * (len(scores) > 1)
    has_raw = any(turn.raw is not None for turn in group)
    return group[0].model_copy(
        update={
            "text": _joined(turn.text for turn in group),
            "raw": _joined(turn.text if turn.raw is None else turn.raw for turn in group) if has_raw else None,
            "strategies": tuple(label for turn in group for label in turn.strategies),
            "emotions": tuple(label for turn in group for label in turn.emotions),
            "feedback": scores[-1] if scores else None,
            "cues": tuple(cue for turn in group for cue in turn.cues),
            "media": tuple(medium for turn in group for medium in turn.media),
            "end_s": group[-1].end_s,
            "flags": tuple(dict.fromkeys(flags)),
        }
    )


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(text for text in texts if text)


def _tags(turn: Turn, words: Mapping[str, Role]) -> list[re.Match[str]]:
    """The tags in order. Inside a line somebody may well write "Model: ..." of a thing: there a tag is one only where
    it is written as a name, behind the end of a sentence, and some tag names whoever is not speaking, or begins a line.
    """
    at_line, inside = _tag_patterns(tuple(words))
    tags = list(at_line.finditer(turn.text))
    glued = [tag for tag in inside.finditer(turn.text) if _is_name(tag["word"])]
    if tags or any(words[fold(tag["word"])] != turn.speaker for tag in glued):
        tags += glued
    return sorted(tags, key=lambda tag: tag.start())


def _is_name(word: str) -> bool:
    return not word[0].islower() or fold(word) in ("seeker", "supporter", "assistant")


@lru_cache
def _tag_patterns(words: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A role word and a colon, perhaps in bold or brackets: at the start of a line; behind the end of a sentence."""
    spelled = "|".join(re.escape(word).replace(r"\ ", r"[\s_-]+") for word in sorted(words, key=len, reverse=True))
    tag = rf"[*\[【]{{0,2}}(?P<word>{spelled})[*\]】]{{0,2}}[ \t]*[:：][*]{{0,2}}[ \t]*"
    ends = r"(?:(?<=[.!?…。！？~～])|(?<=[.!?…。！？~～][”’\"')）]))"
    return re.compile(rf"(?im)^[ \t]*{tag}"), re.compile(rf"(?i){ends}[ \t]*{tag}(?!//)(?=\S)")
