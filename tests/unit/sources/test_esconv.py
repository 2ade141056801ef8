"""ESConv, in both namings of its speakers."""

import pytest

from pipelines.sources.esconv import FORMAT
from ser_toolkit.schema import Dialogue, Failure, Label, Survey

C2 = {
    "experience_type": "Current",
    "emotion_type": "fear",
    "problem_type": "moving",
    "situation": "New town",
    "survey_score": {
        "seeker": {
            "initial_emotion_intensity": "4",
            "final_emotion_intensity": None,
            "empathy": None,
            "relevance": None,
        },
        "supporter": {},
    },
    "dialog": [
        {"speaker": "listener", "annotation": {"strategy": "Questions"}, "content": "Hi, how was the move?\n"},
        {"speaker": "speaker", "annotation": {}, "content": "I know nobody here.\n"},
        {"speaker": "speaker", "annotation": {"feedback": "2"}, "content": "It scares me.\n"},
        {
            "speaker": "listener",
            "annotation": {"strategy": "Approval and Reassurance"},
            "content": "That is understandable.",
        },
        {"speaker": "listener", "annotation": {"strategy": "Other"}, "content": "Take your time."},
        {"speaker": "listener", "annotation": {"strategy": "Cheering up"}, "content": "Nice weather too."},
    ],
}

PLAIN = {
    "experience_type": "Previous Experience",
    "emotion_type": "sadness",
    "problem_type": "Job Crisis",
    "situation": "My contract ends in May.",
    "survey_score": {
        "seeker": {
            "initial_emotion_intensity": "5",
            "final_emotion_intensity": "2",
            "empathy": "4",
            "relevance": "5",
        },
        "supporter": {"relevance": "3"},
    },
    "dialog": [
        {"speaker": "seeker", "annotation": {}, "content": "They will not keep me."},
        {"speaker": "supporter", "annotation": {"strategy": "Reflection of feelings"}, "content": "That stings."},
    ],
}


def test_one_object_in_a_file_with_every_oddity_of_c2(importing):
    (dialogue,) = importing(FORMAT, {"c2.json": C2})
    assert isinstance(dialogue, Dialogue)
    assert [turn.speaker for turn in dialogue.turns] == ["supporter", "seeker", "seeker"] + ["supporter"] * 3
    assert [turn.strategies for turn in dialogue.turns] == [
        (Label(original="Questions", corpus="Question", ser="Progressive Questioning"),),
        (),
        (),
        (
            Label(
                original="Approval and Reassurance",
                corpus="Affirmation and Reassurance",
                ser="Affirmation and Comfort",
            ),
        ),
        (Label(original="Other", corpus="Others", ser=None),),
        (Label(original="Cheering up", corpus=None, ser=None),),
    ]
    assert dialogue.turns[0].text == "Hi, how was the move?" and dialogue.turns[0].raw == "Hi, how was the move?\n"
    assert [turn.feedback for turn in dialogue.turns] == [None, None, 2, None, None, None]
    assert dialogue.survey == Survey(initial_intensity=4) and dialogue.survey.intensity_change is None
    assert dialogue.emotion == Label(original="fear", corpus="fear", ser="Fear")
    assert (dialogue.problem, dialogue.situation, dialogue.meta) == (
        "moving",
        "New town",
        {"experience_type": "Current"},
    )
    assert dialogue.is_supporter_first and dialogue.source.licence == "CC-BY-NC-4.0" and dialogue.lang == "en"


def test_merging_neighbours_keeps_every_label(importing):
    (dialogue,) = importing(FORMAT, {"c2.json": C2}, neighbours="merge")
    assert [[label.corpus for label in turn.strategies] for turn in dialogue.turns] == [
        ["Question"],
        [],
        ["Affirmation and Reassurance", "Others", None],
    ]
    assert dialogue.turns[1].text == "I know nobody here.\nIt scares me." and dialogue.turns[1].feedback == 2


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_a_list_or_json_lines_of_seeker_and_supporter(importing, name):
    dialogues = importing(FORMAT, {name: [PLAIN, C2]})
    assert [type(d) for d in dialogues] == [Dialogue, Dialogue]
    first = dialogues[0]
    assert [turn.speaker for turn in first.turns] == ["seeker", "supporter"]
    assert first.problem == "job crisis"
    assert first.survey == Survey(initial_intensity=5, final_intensity=2, empathy=4, relevance=5, supporter_relevance=3)
    assert first.survey.intensity_change == -3
    assert first.source.position == ("record 1" if name == "a.json" else "line 1")


def test_the_licence_and_further_speakers_come_from_the_recipe(importing):
    odd = {**PLAIN, "dialog": [{**PLAIN["dialog"][0], "speaker": "caller"}, PLAIN["dialog"][1]]}
    (failure,) = importing(FORMAT, {"a.json": [odd]})
    assert isinstance(failure, Failure) and failure.kind == "unknown_speaker" and "caller" in failure.reason
    (dialogue,) = importing(FORMAT, {"a.json": [odd]}, roles={"caller": "seeker"}, licence="CC0-1.0")
    assert dialogue.turns[0].speaker == "seeker" and dialogue.source.licence == "CC0-1.0"


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"dialog": []}, "empty"),
        ({"dialog": [{"speaker": "seeker", "content": "  \n"}]}, "empty"),
        ({"dialog": PLAIN["dialog"][:1]}, "one_sided"),
        ({"dialog": "Hello"}, "malformed"),
        ({"dialog": [{"speaker": "seeker", "annotation": {}}]}, "malformed"),
        ({"dialog": [{"speaker": "seeker", "content": "x", "annotation": {"feedback": "good"}}]}, "malformed"),
        ({"dialog": [{"speaker": "seeker", "content": "x", "annotation": {"strategy": 3}}]}, "malformed"),
        ({"dialog": [{"speaker": "seeker", "content": "x", "annotation": ["Question"]}]}, "malformed"),
        ({"survey_score": {"seeker": {"empathy": 2.5}}}, "malformed"),
        ({"situation": 7}, "malformed"),
    ],
)
def test_a_bad_record_is_a_failure_at_its_place_and_the_next_is_read(importing, change, kind):
    failure, dialogue = importing(FORMAT, {"a.json": [{**PLAIN, **change}, C2]})
    assert isinstance(failure, Failure) and isinstance(dialogue, Dialogue)
    assert (failure.kind, failure.position, failure.file) == (kind, "record 1", "a.json")


def test_an_absent_survey_and_annotation_are_missing_not_zero(importing):
    bare = {"dialog": [{"speaker": "seeker", "content": "Hm."}, {"speaker": "supporter", "content": "Yes?"}]}
    (dialogue,) = importing(FORMAT, {"a.json": [bare]})
    assert dialogue.survey == Survey() and dialogue.emotion is None and dialogue.problem == ""
    assert all(turn.feedback is None and turn.strategies == () for turn in dialogue.turns)
