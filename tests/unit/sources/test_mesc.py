"""MESC, as JSON Lines and as CSV, with clue sentences glued to the text."""

import pytest

from pipelines.sources.mesc import FORMAT
from ser_toolkit.errors import UsageError
from ser_toolkit.schema import Cue, Dialogue, Failure, Label

C5 = {
    "dialog": [
        {
            "speaker": "user",
            "emotion": "sadness",
            "text": "I guess so. The speaker looks at the floor and rubs both hands.",
        },
        {"speaker": "user", "emotion": "sadness", "text": "It was my brother. The speaker appears calm."},
        {
            "speaker": "sys",
            "emotion": "neutral",
            "strategy": "open question",
            "text": "What was he like? The speaker leans forward.",
        },
        {
            "speaker": "user",
            "emotion": "joy",
            "strategy": "undefined",
            "text": "The speaker at the funeral was kind.",
        },
    ]
}

ROWS = """\
Utterance,Speaker,Emotion,Strategy,Dialogue_ID,Utterance_ID,Season,Episode,StartTime,EndTime
I am late again.,Client,neutral,undefined,0,0,1,2,"00:01:02,500","00:01:04,000"
"Was it the train, or us?",Therapist,neutral,Open question,0,1,1,2,"00:01:05,000","01:00:00,250"
The train. The speaker seems to be tense.,Client,anger,undefined,1,0,1,2,,soon
Go on.,Therapist,puzzled,Humming,1,1,1,2,"00:02:00,000","00:02:01,5"
"""


def test_said_and_cue_are_parted_and_somebodys_own_sentence_stays(importing):
    (dialogue,) = importing(FORMAT, {"test.jsonl": [C5]})
    assert isinstance(dialogue, Dialogue)
    assert [turn.text for turn in dialogue.turns] == [
        "I guess so.",
        "It was my brother.",
        "What was he like?",
        "The speaker at the funeral was kind.",
    ]
    assert dialogue.turns[0].cues == (
        Cue(channel="body", text="The speaker looks at the floor and rubs both hands.", source="rule:speaker_act"),
    )
    assert [turn.cues[0].source for turn in dialogue.turns[1:3]] == ["rule:speaker_state", "rule:speaker_act"]
    assert [turn.raw for turn in dialogue.turns] == [*(turn["text"] for turn in C5["dialog"][:3]), None]
    assert dialogue.turns[3].cues == () and dialogue.turns[3].flags == ()
    assert [turn.strategies for turn in dialogue.turns[2:]] == [
        (Label(original="open question", corpus="Open question", ser="Progressive Questioning"),),
        (),
    ]
    assert [turn.emotions[0].ser for turn in dialogue.turns] == ["Sadness", "Sadness", "Neutral", "Joy"]
    assert "no_media" in dialogue.flags and all(turn.media == () for turn in dialogue.turns)


def test_a_turn_that_is_all_clue_is_kept_and_flagged(importing):
    record = {
        "problem_type": "Childhood shadow ",
        "situation": "A talk.",
        "dialog": [
            {"speaker": "user", "emotion": "neutral", "text": "The speaker seems to be calm."},
            {"speaker": "sys", "emotion": "neutral", "strategy": "Interpretation", "text": "So you came back."},
        ],
    }
    (dialogue,) = importing(FORMAT, {"test.txt": [record]})
    assert dialogue.turns[0].text == "The speaker seems to be calm."
    assert dialogue.turns[0].flags == ("cue_kept_in_text",) and dialogue.turns[0].raw is None
    assert dialogue.turns[1].strategies == (Label(original="Interpretation", corpus="Interpretation", ser=None),)
    assert (dialogue.problem, dialogue.situation) == ("Childhood Shadow", "A talk.")


def test_rows_of_a_csv_are_grouped_into_dialogues_with_their_times(importing):
    first, second = importing(FORMAT, {"train.csv": ROWS})
    assert (first.id, second.id) == ("mesc-train-1-2-0", "mesc-train-1-2-1")
    assert [turn.speaker for turn in first.turns] == ["seeker", "supporter"]
    assert first.turns[1].text == "Was it the train, or us?" and first.turns[0].strategies == ()
    assert [(turn.start_s, turn.end_s) for turn in first.turns] == [(62.5, 64.0), (65.0, 3600.25)]
    assert [(turn.start_s, turn.end_s) for turn in second.turns] == [(None, None), (120.0, 121.5)]
    assert first.meta == {"shape": "rows", "Season": "1", "Episode": "2", "Dialogue_ID": "0"}
    assert second.turns[0].text == "The train." and second.turns[0].cues[0].source == "rule:speaker_state"
    assert second.turns[1].strategies == (Label(original="Humming"),)
    assert second.turns[1].emotions == (Label(original="puzzled"),)
    assert (first.source.position, second.source.position) == ("line 2", "line 4")


def test_a_row_that_cannot_be_read_is_a_failure_and_its_dialogue_says_so(importing):
    broken = ROWS.replace('"Was it the train, or us?",', "Was it the train, or us?,")
    extra = '"You tell me.",Therapist,neutral,Approval,0,2,1,2,,\n'
    lines = broken.splitlines(keepends=True)
    results = importing(FORMAT, {"train.csv": "".join([*lines[:3], extra, *lines[3:]])})
    failures = [r for r in results if isinstance(r, Failure)]
    dialogues = [r for r in results if isinstance(r, Dialogue)]
    assert [(f.kind, f.position) for f in failures] == [("malformed", "line 3")]
    assert ["row_missing" in d.flags for d in dialogues] == [True, False]
    assert dialogues[0].turns[1].text == "You tell me."


def test_a_dialogue_whose_rows_stand_apart_is_no_second_dialogue(importing):
    again = ROWS + ROWS.split("\n", 1)[1].split("\n", 2)[0] + "\nNo.,Therapist,neutral,Approval,0,3,1,2,,\n"
    results = importing(FORMAT, {"train.csv": again})
    assert [type(r) for r in results] == [Dialogue, Dialogue, Failure]
    assert results[2].kind == "duplicate_id"


@pytest.mark.parametrize("column", ["Utterance", "Speaker", "Dialogue_ID"])
def test_a_missing_column_is_told_by_name_and_can_be_mapped(importing, column):
    field = {"Utterance": "text", "Speaker": "speaker", "Dialogue_ID": "dialogue_id"}[column]
    other = {"train.csv": ROWS.replace(column, "Other", 1)}
    with pytest.raises(UsageError, match=column):
        importing(FORMAT, other)
    assert len(importing(FORMAT, other, columns={field: "Other"})) == 2


def test_both_layouts_in_one_folder(importing):
    results = importing(FORMAT, {"a/test.jsonl": [C5], "b/train.csv": ROWS})
    assert [r.source.file for r in results] == ["a/test.jsonl", "b/train.csv", "b/train.csv"]
