"""AvaMERG: EmpatheticDialogues with a face and a voice per utterance, 32 emotions, and a profile of both speakers.

Tried: hand-written records only. The shape that the authors' challenge page shows ("rounds": conversation_id,
speaker_profile, listener_profile, topic, turns: [{dialogue_history: [{index, role, utterance}], response,
chain_of_empathy}]) and a plain list of utterances ("utterances"). Not tried: the published files, and their media,
whose names (dia01118utt0_28.wav: conversation, index, the speaker's ID) are as others' code for the corpus has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from ser_toolkit.errors import RecordError
from ser_toolkit.schema import Dialogue, Media, Role, Speaker, Turn

from .base import Imported, ReadContext, SourceFormat
from .finish import make_dialogue, member, read_records
from .reading import Raw, json_records
from .words import Words, own_id, text_or_none

NAME, LICENCE = "avamerg", "unknown"
_LISTS = ("turns", "dialogue", "dialog", "dialogue_history", "conversation", "utterances")
_WHO = ("role", "speaker")
_TEXT = ("utterance", "text", "content")
_KINDS: dict[str, Literal["audio", "video"]] = {".wav": "audio", ".mp3": "audio", ".mp4": "video"}
_PROFILES: dict[str, Role] = {"speaker_profile": "seeker", "listener_profile": "supporter"}
_NAME = re.compile(r"[\w.-]+")


def read(path: Path, context: ReadContext) -> Iterator[Imported]:
    words = Words(NAME, context)
    root = path if path.is_dir() else path.parent
    folders = [root, *sorted(p for p in root.iterdir() if p.is_dir())] if root.is_dir() else []

    def parse(raw: Raw) -> Dialogue:
        record = raw.value
        items = member(record, _one_of(record, _LISTS, "the record"), list)
        is_rounds = any(isinstance(item, dict) and "dialogue_history" in item for item in items)
        utterances, emotions, flags = _of_rounds(items, words) if is_rounds else (*_of_utterances(items, words), ())
        conversation = own_id(record.get("conversation_id", record.get("id")))
        profiles: dict[Role, Any] = {
            role: record[key] for key, role in _PROFILES.items() if isinstance(record.get(key), dict)
        }
        turns = [
            Turn(
                speaker=role,
                text=text,
                emotions=words.emotions(emotions.get(index)),
                media=_media(folders, conversation, index, profiles.get(role, {}).get("ID")),
            )
            for index, (role, text) in enumerate(utterances)
        ]
        chain = [item["chain_of_empathy"] for item in items if isinstance(item, dict) and "chain_of_empathy" in item]
        emotion = text_or_none(record, "emotion") or next(iter(emotions.values()), None)
        return make_dialogue(
            raw,
            NAME,
            LICENCE,
            context,
            own_id=conversation,
            turns=turns,
            situation=text_or_none(record, "situation") or "",
            problem=words.problem(text_or_none(record, "topic")),
            emotion=words.emotion(emotion),
            speakers=tuple(Speaker(role=role, attributes=profile) for role, profile in profiles.items()),
            flags=flags if any(turn.media for turn in turns) else (*flags, "no_media"),
            meta={"shape": "rounds" if is_rounds else "utterances", **({"chain_of_empathy": chain} if chain else {})},
        )

    yield from read_records(json_records(path, context), NAME, parse)


def _of_utterances(items: list[Any], words: Words) -> tuple[list[tuple[Role, str]], dict[int, str]]:
    """(speaker, text) of each utterance, and the emotion of those that name one, by index."""
    utterances: list[tuple[Role, str]] = []
    emotions: dict[int, str] = {}
    for index, item in enumerate(items):
        where = f"utterance {index + 1}"
        who = member(item, _one_of(item, _WHO, where), str, where)
        utterances.append((words.role(who, where), member(item, _one_of(item, _TEXT, where), str, where)))
        if emotion := text_or_none(item, "emotion"):
            emotions[index] = emotion
    return utterances, emotions


def _of_rounds(items: list[Any], words: Words) -> tuple[list[tuple[Role, str]], dict[int, str], tuple[str, ...]]:
    """The same of rounds, each of which repeats the history before its response, and flags.

    A round's emotion is that of the seeker's utterance that it answers, the last of its history. Where a history
    differs from the rounds before it, the later one counts, flagged "histories_differ".
    """
    utterances: list[tuple[Role, str]] = []
    emotions: dict[int, str] = {}
    flags: tuple[str, ...] = ()
    for place, item in enumerate(items, 1):
        history, _ = _of_utterances(member(item, "dialogue_history", list, f"turn {place}"), words)
        if history[: len(utterances)] != utterances:
            flags = ("histories_differ",)
        if emotion := (item.get("chain_of_empathy") or {}).get("speaker_emotion"):
            emotions[len(history) - 1] = emotion
        response = text_or_none(item, "response")
        utterances = [*history, ("supporter", response)] if response else history
    return utterances, emotions, flags


def _one_of(item: Any, keys: tuple[str, ...], where: str) -> str:
    """The first of `keys` that the object has; the first of all where it has none, for the error to name."""
    if not isinstance(item, dict):
        raise RecordError("malformed", f"{where} is {type(item).__name__}, not an object")
    return next((key for key in keys if key in item), keys[0])


def _media(folders: list[Path], conversation: str | None, index: int, speaker: Any) -> tuple[Media, ...]:
    """The sound and the video of an utterance, where they lie beside the JSON file or in a folder there."""
    stem = f"dia{(conversation or '').zfill(5)}utt{index}_{speaker}"
    if not conversation or speaker is None or not _NAME.fullmatch(stem):
        return ()
    found = (folder / f"{stem}{suffix}" for suffix in _KINDS for folder in folders)
    return tuple(
        Media(kind=_KINDS[file.suffix], path=file.relative_to(folders[0]).as_posix())
        for file in found
        if file.is_file()
    )


FORMAT = SourceFormat(
    name=NAME,
    title="AvaMERG",
    yields="dialogues",
    languages=("en",),
    licence=LICENCE,
    expects="a JSON list of conversations, media beside it or one folder below (published files not tried)",
    read=read,
    looks_beside=True,
)
