"""A turn's pictures in words: what a model is told that sees them, and one that does not.

A picture takes the place of the words about the face; where no picture can be sent, the words are told, and where the
corpus has none, what the picture was chosen or made to show.
"""

from __future__ import annotations

from ser_toolkit.schema import Cue, Lang, Media, Turn

SEE: dict[Lang, str] = {"en": "see the picture", "zh": "见图"}


def pictures_of(turn: Turn) -> tuple[Media, ...]:
    """The turn's pictures that are at hand."""
    return tuple(m for m in turn.media if m.kind == "image" and m.status == "ok" and m.path)


def shown(turn: Turn, lang: Lang) -> Turn:
    """The turn for a model that sees its pictures: they stand for the face."""
    cues = tuple(c for c in turn.cues if c.channel != "face")
    return turn.model_copy(update={"cues": (Cue(channel="face", text=SEE[lang], source="media"), *cues)})


def told(turn: Turn) -> Turn:
    """The turn for a model that sees no pictures."""
    shows = next((m.shows for m in pictures_of(turn) if m.shows), "")
    if not shows or any(c.channel in ("face", "mixed") for c in turn.cues):
        return turn
    return turn.model_copy(update={"cues": (Cue(channel="face", text=shows, source="media"), *turn.cues)})
