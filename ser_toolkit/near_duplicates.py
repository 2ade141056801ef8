"""Which texts repeat one another: the same opening, or nearly the same words, in English and Chinese alike.

A text is compared by a MinHash sketch of its letters, five at a time, so neither spaces nor punctuation count and
Chinese needs no words. What is here is shared by the splits of a release, which look at all dialogues at once
(`releases/splits.py`), and by synthesis, which asks of each new one whether it stands already (`Repeats`). May import:
the vocabulary, numpy, rensa.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from rensa import RMinHash  # pyright: ignore[reportAttributeAccessIssue]  (a compiled module)

from .schema import Dialogue

NEAR = 0.8
"""Estimated Jaccard similarity from which two texts are near duplicates."""
PERMUTATIONS = 128
"""Numbers in a sketch."""

_SHINGLE, _SEED = 5, 20601
_BAND = 4  # equal numbers in a row that make two sketches worth comparing: hardly a pair above 0.6 is missed
_TEXT_LIMIT = 4000  # characters of a text that are compared
_TURN_LIMIT = 1000  # characters of a turn that count for the opening
_UNSPOKEN = re.compile(r"[\W_]+")
_WIDE = re.compile(r"[\u2e80-\U0003ffff]")
_MIN_OPENING = 8  # letters that an opening must have beside its greeting; a Chinese character counts as 3

_GREETINGS = re.compile(
    r"\b(?:hi|hello|hey|hiya|there|good (?:morning|afternoon|evening|day)"
    r"|nice to meet you|how (?:are|r) (?:you|u)(?: doing)?(?: today)?|how is it going"
    r"|i(?:['’]?m| am) (?:good|fine|ok|okay)"
    r"|(?:fine|good|great|well|not bad)?\W*(?:and|what about|how about) you(?:rself)?|thanks|thank you|yes|ok|okay)\b"
    r"|你好|您好|嗨|哈喽|哈啰|早上好|下午好|晚上好|在吗|老师|医生|谢谢"
)


def normalise(text: str) -> str:
    """Letters and digits alone, in one width and case: what remains is what was said."""
    return _UNSPOKEN.sub("", unicodedata.normalize("NFKC", text).casefold())


def opening_key(dialogue: Dialogue) -> str:
    """What the seeker opens with, normalised, greetings left out.

    "Hi, how are you?" opens half of all chats and would tie them into one group, so turns are added until the seeker
    has said something of its own. A seeker who never does is compared by the whole of what it says.
    """
    return opening_of(turn.text for turn in dialogue.turns if turn.speaker == "seeker")


def opening_of(lines: Iterable[str]) -> str:
    """`opening_key` of what one speaker says, in order."""
    said = whole = ""
    for line in lines:
        whole += line
        folded = unicodedata.normalize("NFKC", line[:_TURN_LIMIT]).casefold()
        said += normalise(_GREETINGS.sub(" ", folded))
        if len(said) + 2 * len(_WIDE.findall(said)) >= _MIN_OPENING:
            return said
    return normalise(whole)


def said_in(dialogue: Dialogue) -> str:
    """All words of a dialogue, for its sketch."""
    return "".join(t.text for t in dialogue.turns)


def sketch(text: str, id: str) -> list[int]:
    """A MinHash of the text, (PERMUTATIONS,) numbers of 32 bits: equal ones are as many as the texts have in common.

    A text that is too short for one shingle stands for itself, an empty one for its `id`: empty texts are no copies.
    """
    folded = normalise(text[:_TEXT_LIMIT])
    minhash = RMinHash(num_perm=PERMUTATIONS, seed=_SEED)
    minhash.update([folded[i : i + _SHINGLE] for i in range(len(folded) - _SHINGLE + 1)] or [folded or id])
    return minhash.digest()


@dataclass(frozen=True, slots=True)
class Repeat:
    """The earlier text that a new one repeats, and in what: "same opening" or "near duplicate"."""

    id: str
    reason: str


class Repeats:
    """The texts so far, about 6 kB for each. While few are alike, asking takes as long whatever their number."""

    def __init__(self, near: float = NEAR) -> None:
        self._near = near
        self._ids: list[str] = []
        self._sketches = np.zeros((256, PERMUTATIONS), dtype=np.uint32)  # room for more than there are
        self._openings: dict[str, str] = {}
        self._bands: dict[bytes, list[int]] = defaultdict(list)

    def take(self, id: str, text: str, opening: str) -> Repeat | None:
        """What of the earlier texts this one repeats; where it repeats none, it is one of them from now on.

        `opening` as `opening_of` gives it; an empty one is nobody's.
        """
        if opening in self._openings:
            return Repeat(self._openings[opening], "same opening")
        mine = np.array(sketch(text, id), dtype=np.uint32)
        bands = [mine[at : at + _BAND].tobytes() + bytes([at]) for at in range(0, PERMUTATIONS, _BAND)]
        maybe = sorted({n for band in bands for n in self._bands.get(band, ())})
        alike = np.mean(self._sketches[maybe] == mine, axis=1) >= self._near
        if alike.any():
            return Repeat(self._ids[maybe[int(alike.argmax())]], "near duplicate")
        for band in bands:
            self._bands[band].append(len(self._ids))
        if len(self._ids) == len(self._sketches):
            self._sketches = np.concatenate([self._sketches, np.zeros_like(self._sketches)])
        self._sketches[len(self._ids)] = mine
        self._ids.append(id)
        if opening:
            self._openings[opening] = id
        return None

    def take_dialogue(self, dialogue: Dialogue) -> Repeat | None:
        """`take` for a dialogue."""
        return self.take(dialogue.id, said_in(dialogue), opening_key(dialogue))
