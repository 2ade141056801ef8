"""Give the seeker a face and a voice where the corpus has none: a photo by emotion, or made ones.

Only for the turns that are reasoned about (the last of each drawn round's seeker), and never against what the corpus
has. A turn's emotion is its own label, else an earlier one of its round, else the dialogue's; where there is neither
emotion nor cue, there is no picture: nothing is invented, and the note says how many. May import: ser_toolkit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from ser_toolkit.engine import failure_of
from ser_toolkit.errors import RecordError
from ser_toolkit.llm.chat import ChatModel, Request
from ser_toolkit.media import MediaStore
from ser_toolkit.media.made import made_path
from ser_toolkit.media.words import pictures_of
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Dialogue, Failure, Media, Turn
from ser_toolkit.seeds import derive_seed
from ser_toolkit.taxonomy import ZH

from .photos import PhotoFolder, photo_failure
from .sample import drawn_rounds

STAGE = "faces"
_LONGEST_ATTRIBUTE = 40


@dataclass
class FaceGiver:
    """What gives faces and voices: photos, or a maker of pictures; a maker of speech. `without` counts the turns that
    none could be given, by reason.
    """

    store: MediaStore
    recipe: Recipe
    prompts: Prompts
    photos: PhotoFolder | None = None
    faces: ChatModel | None = None
    voices: ChatModel | None = None
    without: Counter[str] = field(default_factory=Counter)

    async def give(self, dialogue: Dialogue) -> list[Dialogue | Failure]:
        """The dialogue with faces and voices, and a Failure for each that was due and could not be had."""
        rows: list[Dialogue | Failure] = []
        turns = list(dialogue.turns)
        places = {r.target - 1: dialogue.turns[r.start : r.target] for r in drawn_rounds(dialogue, self.recipe)}
        bare = {i: block for i, block in places.items() if not any(pictures_of(t) for t in block)}
        needed = {e for i, block in bare.items() if self.photos and (e := self._with_photos(dialogue, block))}
        for index, block in places.items():
            given: list[Media] = []
            due = []
            if index in bare and self.photos is not None:
                given += self._photo(dialogue, index, block, needed, rows)
            elif index in bare and self.faces is not None:
                due.append(partial(self._face, self.faces))
            if self.voices is not None and not _has_voice(turns[index]):
                due.append(partial(self._voice, self.voices))
            for make in due:
                try:
                    given += await make(dialogue, index, block)
                except RecordError as exc:
                    failed = failure_of(exc, STAGE, dialogue.id)
                    rows.append(failed.model_copy(update={"position": f"turn {index + 1}"}))
            if given:
                turns[index] = turns[index].model_copy(update={"media": (*turns[index].media, *given)})
        return [dialogue.model_copy(update={"turns": tuple(turns)}), *rows]

    def _with_photos(self, dialogue: Dialogue, block: Sequence[Turn]) -> str | None:
        emotion = emotion_of(dialogue, block)
        return emotion if self.photos is not None and emotion in self.photos.by_emotion else None

    def _photo(
        self, dialogue: Dialogue, index: int, block: Sequence[Turn], needed: set[str], rows: list[Dialogue | Failure]
    ) -> list[Media]:
        emotion = self._with_photos(dialogue, block)
        if self.photos is None or emotion is None:
            felt = emotion_of(dialogue, block)
            self.without[f"no photo of {felt}" if felt else "no label of an emotion"] += 1
            return []
        for name in self.photos.draw(emotion, dialogue.id, index, needed, self.recipe.seed):
            try:
                photo = self.photos.take(name, self.store, self.recipe.media)
            except RecordError as exc:
                rows.append(photo_failure(dialogue.id, index + 1, exc))
            else:
                return [photo.model_copy(update={"shows": _word(emotion, dialogue)})]
        self.without[f"no usable photo of {emotion}"] += 1
        return []

    async def _face(self, faces: ChatModel, dialogue: Dialogue, index: int, block: Sequence[Turn]) -> list[Media]:
        emotion = _word(emotion_of(dialogue, block), dialogue)
        cues = "; ".join(c.text for t in block for c in t.cues if c.channel in ("face", "body", "mixed"))
        if not (emotion or cues):
            self.without["no label of an emotion and no cue"] += 1
            return []
        request = self._request("face", dialogue, index, person=_person(dialogue), emotion=emotion, cues=cues)
        path = await made_path(faces, request, self.store)
        return [
            self.store.medium(
                path,
                origin=f"model:{faces.model}",
                licence=self.recipe.media.image.licence,
                shows="; ".join(filter(None, (emotion, cues))),
            )
        ]

    async def _voice(self, voices: ChatModel, dialogue: Dialogue, index: int, block: Sequence[Turn]) -> list[Media]:
        turn = dialogue.turns[index]
        if not turn.text:
            return []
        emotion = _word(emotion_of(dialogue, block), dialogue)
        cues = "; ".join(c.text for c in turn.cues if c.channel == "voice")
        request = self._request("voice", dialogue, index, emotion=emotion, cues=cues, text=turn.text)
        path = await made_path(voices, request, self.store)
        return [self.store.medium(path, origin=f"model:{voices.model}", licence=self.recipe.media.speech.licence)]

    def _request(self, prompt: str, dialogue: Dialogue, index: int, **values: str) -> Request:
        return Request(
            self.prompts.get(prompt, dialogue.lang).render(**values),
            seed=derive_seed(self.recipe.seed, dialogue.id, prompt, index),
            stage=STAGE,
            record_id=dialogue.id,
        )


def emotion_of(dialogue: Dialogue, block: Sequence[Turn]) -> str | None:
    """The SER emotion of a seeker's block of turns: its last label, else the dialogue's; `None`: none is stated."""
    labels = [label.ser for turn in reversed(block) for label in turn.emotions]
    whole = dialogue.emotion.ser if dialogue.emotion else None
    return next((ser for ser in (*labels, whole) if ser), None)


def _has_voice(turn: Turn) -> bool:
    return any(m.kind == "audio" and m.status == "ok" for m in turn.media)


def _word(emotion: str | None, dialogue: Dialogue) -> str:
    """The emotion in the dialogue's language."""
    if emotion is None:
        return ""
    return ZH[emotion] if dialogue.lang == "zh" else emotion.lower()


def _person(dialogue: Dialogue) -> str:
    """What the source states of the seeker's age and gender."""
    seeker = next((s for s in dialogue.speakers if s.role == "seeker"), None)
    told = {} if seeker is None else {key.lower(): value for key, value in seeker.attributes.items()}
    found = [str(told[key]) for key in ("gender", "sex", "age") if isinstance(told.get(key), str | int)]
    return ", ".join(text for text in found if len(text) <= _LONGEST_ATTRIBUTE)
