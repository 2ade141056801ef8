"""Machine-made clue sentences glued to an utterance, taken apart from what was said.

MESC's captioners added their findings to the text with no mark: "It was my brother. The speaker appears to be
calm.The speaker's emotional expression could be due to ..." In the real file every clue stands at the end of
its turn, opens with "The speaker" in the present tense, and runs to the end in the third person. So:

* a clue opens with one of the wordings of `OPENINGS`, wherever the speech before it ends or breaks off;
* from there to the turn's end all is clue, if no word of the first or second person follows: such a word
  means that somebody goes on talking, and then the text stays whole and is flagged;
* something must have been said before it: a turn that is all clue stays whole and is flagged;
* "The speaker is" with other words ("... is engaged in", but also "... is late") is a clue where a certain
  one follows it; alone it stays in the text, flagged.

"The speaker at the funeral was kind." fits no opening: it is somebody's own sentence.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from ser_toolkit.schema import Cue

KEPT = "cue_kept_in_text"
"""The flag of a turn whose text still holds what looks like a clue."""


def _any(words: str) -> str:
    return f"(?:{'|'.join(words.split())})"


_SIGN = _any("emotion emotional facial tone voice vocal body expression gaze posture")
_MOOD = _any(
    "calm relaxed sad happy angry upset serious anxious nervous tense tearful emotional quiet silent "
    "thoughtful confused surprised afraid frustrated"
)
_PERSON = _any("man woman girl boy person lady")
_ACT = _any(
    "looks leans nods smiles laughs sighs frowns cries weeps sobs sits stands shrugs shakes rubs touches "
    "holds clenches crosses folds lowers raises turns glances stares gazes blinks avoids pauses whispers "
    "shouts speaks talks trembles fidgets gestures bites covers wipes"
)
_FILM = _any("video picture image audio")

OPENINGS: dict[str, str] = {
    # "The speaker's emotional expression could be due to ...", "The emotion state of the speaker is ..."
    "speaker_expression": rf"speaker['’]s {_SIGN}\w*\b|emotion(?:al)? (?:state|expression) of the speaker\b",
    # "The speaker seems to be in a state of contemplation ...", "The speaker in the video appears ..."
    "speaker_state": rf"speaker (?:in th(?:e|is) {_FILM}|seems?|appears?|might|may|could)\b",
    # "The speaker is sitting on a couch ...", "The speaker is calm ...", "The speaker is a young woman ..."
    "speaker_is": rf"speaker is (?:\w+ing|in an?|in the|an? (?:[\w-]+ ){{0,3}}{_PERSON}|{_MOOD})\b",
    # "The speaker leans forward.", "The speaker slowly looks at the floor ..."
    "speaker_act": rf"speaker (?:\w+ly )?{_ACT}\b",
}
"""Rule name -> how the clue opens, after its "The ". The name stands in `Cue.source` as "rule:<name>"."""

_CERTAIN = re.compile(r"\bThe (?:" + "|".join(f"(?P<{rule}>{words})" for rule, words in OPENINGS.items()) + ")")
_DOUBTFUL = re.compile(r"\bThe speaker (?:is|has|does)\b")
_BLOCK = re.compile(r"(?<=[.!?])\s*(?=The (?:speaker|emotion)\b)")
_TALKING = re.compile(rf"\b{_any('I me my mine we us our you your yours')}\b", re.IGNORECASE)

Channel = Literal["face", "voice", "body", "scene", "mixed"]
_PEOPLE: dict[Channel, re.Pattern[str]] = {
    "face": re.compile(r"\b(?:fac(?:e|ial)|smil\w+|frown\w*|cry\w*|cries|tear\w*|eyes?|gaz\w+|weep\w*)\b", re.I),
    "voice": re.compile(r"\b(?:voice|vocal|tone|audio|laugh\w*|sigh\w*|whisper\w*|shout\w*|yell\w*|speaks)\b", re.I),
    "body": re.compile(
        r"\b(?:body|posture|gestur\w+|hands?|arms?|shoulders?|sit\w*|seated|stand\w*|lean\w*|lying|nod\w*)\b",
        re.I,
    ),
}
_SCENE = re.compile(r"\b(?:wear\w*|room|camera|dressed|background|scene)\b", re.I)


class Split(NamedTuple):
    """What was said, the clues after it, and whether a clue had to stay in `said`."""

    said: str
    cues: tuple[Cue, ...]
    kept: bool


def split_cues(text: str) -> Split:
    """Part an utterance from the clue sentences at its end.

    `said` is a prefix of `text`, less white space. Where parting is not safe, `said` is the whole text
    and `kept` is true; where there is no clue, `kept` is false.
    """
    openings = [found.start() for rule in (_CERTAIN, _DOUBTFUL) if (found := rule.search(text))]
    if not openings:
        return Split(text, (), False)
    said, tail = text[: min(openings)].rstrip(), text[min(openings) :]
    if not said or _TALKING.search(tail) or not _CERTAIN.search(tail):
        return Split(text, (), True)
    return Split(said, tuple(_cue(block) for block in _BLOCK.split(tail)), False)


def _cue(block: str) -> Cue:
    opening = _CERTAIN.match(block)
    rule = opening.lastgroup if opening else "speaker_other"
    return Cue(channel=_channel(block), text=block.strip(), source=f"rule:{rule}")


def _channel(text: str) -> Channel:
    """The one channel that the words speak of, else "mixed"; what is seen of the room counts only alone."""
    found: list[Channel] = [channel for channel, words in _PEOPLE.items() if words.search(text)]
    if not found and _SCENE.search(text):
        return "scene"
    return found[0] if len(found) == 1 else "mixed"
