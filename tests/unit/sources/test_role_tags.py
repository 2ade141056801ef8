"""Role tags inside a line: glued turns are found, and what only looks like a tag is not."""

from __future__ import annotations

import pytest

from pipelines.sources.base import ReadContext
from pipelines.sources.finish import make_dialogue
from pipelines.sources.reading import Raw
from pipelines.sources.turn_rules import split_role_tags
from ser_toolkit.errors import RecordError
from ser_toolkit.recipe import SourceSpec
from ser_toolkit.schema import Dialogue, Turn


def parts(text: str, speaker: str = "seeker", **roles: str) -> list[tuple[str, str]]:
    turn = Turn.model_validate({"speaker": speaker, "text": text})
    return [(t.speaker, t.text) for t in split_role_tags(turn, roles)]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("Hi. Supporter: hello", [("seeker", "Hi."), ("supporter", "hello")]),
        ("I can't sleep!Therapist: Since when?", [("seeker", "I can't sleep!"), ("supporter", "Since when?")]),
        (
            "Nobody calls. **Counselor:** Who used to? Client: My sister.",
            [("seeker", "Nobody calls."), ("supporter", "Who used to?"), ("seeker", "My sister.")],
        ),
        ("Hi. supporter: hello", [("seeker", "Hi."), ("supporter", "hello")]),
        (
            "我睡不着。咨询师：多久了？来访者：一个月。",
            [("seeker", "我睡不着。"), ("supporter", "多久了？"), ("seeker", "一个月。")],
        ),
        ("One.\nSupporter: Two. Seeker: Three.", [("seeker", "One."), ("supporter", "Two."), ("seeker", "Three.")]),
    ],
)
def test_a_tag_behind_a_sentence_is_found(text, cut):
    assert parts(text) == cut


@pytest.mark.parametrize(
    "text",
    [
        "I told my therapist: leave me alone.",
        "It has two parts. model: the body, and sound: the voice.",
        "I wrote to support. User: that is all they called me.",
        'She typed "Assistant: hello" and laughed.',
        "Dear Supporter: thank you.",
        "Look there. Assistant://open is the link.",
        "我对咨询师说：我很累。",
        "Here is why. Because: reasons.",
        "It is late. 12:30 already.",
    ],
)
def test_what_only_looks_like_a_tag_is_left_alone(text):
    assert parts(text) == [("seeker", text)]


def test_the_recipe_s_own_words_count():
    assert parts("Hi. Coach: hello", coach="supporter") == [("seeker", "Hi."), ("supporter", "hello")]
    assert parts("Hi. Coach: hello") == [("seeker", "Hi. Coach: hello")]


def made(policy: str) -> Dialogue:
    spec = SourceSpec.model_validate({"format": "json", "role_tags": policy})
    turns = [Turn(speaker="seeker", text="Hi. Supporter: hello"), Turn(speaker="supporter", text="How are you?")]
    return make_dialogue(Raw({}, "a.json", "record 1"), "json", "unknown", ReadContext(spec), turns=turns)


def test_quarantined_unless_a_split_is_asked_for_and_the_original_is_kept():
    with pytest.raises(RecordError, match="turn 1 holds role tags") as caught:
        made("quarantine")
    assert (caught.value.kind, caught.value.text) == ("role_tags", "Hi. Supporter: hello")
    turns = made("split").turns
    assert [(t.speaker, t.text) for t in turns] == [
        ("seeker", "Hi."),
        ("supporter", "hello"),
        ("supporter", "How are you?"),
    ]
    assert turns[0].raw == "Hi. Supporter: hello" and "split_from_role_tags" in turns[1].flags
