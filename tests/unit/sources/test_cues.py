"""Clue sentences of video and audio captioners, parted from what was said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.sources.cues import OPENINGS, split_cues


@pytest.mark.parametrize(
    ("text", "said", "rules", "channels"),
    [
        (
            "I guess so. The speaker looks at the floor and rubs both hands.",
            "I guess so.",
            ["speaker_act"],
            ["body"],
        ),
        ("It was my brother. The speaker appears calm.", "It was my brother.", ["speaker_state"], ["mixed"]),
        ("What was he like? The speaker leans forward.", "What was he like?", ["speaker_act"], ["body"]),
        # The next clue follows without a space, and its own sentences belong to it.
        (
            "No. The speaker seems sad. She cries.The speaker's emotional expression could be due to grief.",
            "No.",
            ["speaker_state", "speaker_expression"],
            ["face", "mixed"],
        ),
        # What was said broke off in mid-sentence.
        (
            "But I thought you said The speaker is calm throughout the video.",
            "But I thought you said",
            None,
            None,
        ),
        ("Wait, The emotion state of the speaker is calm.", "Wait,", ["speaker_expression"], ["mixed"]),
        ("Hm. The speaker speaks in a flat tone.", "Hm.", ["speaker_act"], ["voice"]),
        ("Hm. The speaker is wearing a suit.", "Hm.", ["speaker_is"], ["scene"]),
        # "is engaged" alone would be doubtful; a certain clue after it settles it.
        (
            "Go on. The speaker is engaged in a talk.The speaker appears sad.",
            "Go on.",
            ["speaker_other", "speaker_state"],
            ["mixed", "mixed"],
        ),
    ],
)
def test_clues_leave_and_what_was_said_stays_whole(text, said, rules, channels):
    split = split_cues(text)
    assert split.said == said and not split.kept
    assert rules is None or [cue.source for cue in split.cues] == [f"rule:{rule}" for rule in rules]
    assert channels is None or [cue.channel for cue in split.cues] == channels


@pytest.mark.parametrize(
    "text",
    [
        "The speaker at the funeral was kind.",
        "I liked it. The speaker was kind and looked at us.",
        "He is a good speaker. He seems to be calm.",
        "她看起来很平静。",
        "",
    ],
)
def test_what_is_no_clue_is_left_alone(text):
    assert split_cues(text) == (text, (), False)


@pytest.mark.parametrize(
    "text",
    [
        "The speaker seems to be calm.",  # nothing would be left
        "So what? The speaker is late.",  # somebody's own sentence, or not
        "Well. The speaker seems to be nice, I think.",  # somebody goes on talking
    ],
)
def test_where_it_is_not_safe_the_text_stays_and_is_flagged(text):
    assert split_cues(text) == (text, (), True)


def test_each_rule_has_an_example_above():
    examples = {
        "speaker_expression": "A. The speaker's facial expression suggests a smile.",
        "speaker_state": "A. The speaker in this video seems sad.",
        "speaker_is": "A. The speaker is a young woman who sits on a couch.",
        "speaker_act": "A. The speaker slowly nods.",
    }
    assert examples.keys() == OPENINGS.keys()
    for rule, text in examples.items():
        assert [cue.source for cue in split_cues(text).cues] == [f"rule:{rule}"]


CLUES = st.sampled_from(
    [
        "The speaker appears calm.",
        "The speaker's emotion state is not clear.",
        "The speaker leans back.",
        "He is sad.",
    ]
)


@given(st.text(max_size=60), st.lists(CLUES, max_size=4))
def test_no_character_is_lost_and_the_said_text_is_a_prefix(said, clues):
    text = said + " " + "".join(clues)
    split = split_cues(text)
    assert text.startswith(split.said)
    parts = split.said + "".join(cue.text for cue in split.cues)
    assert "".join(parts.split()) == "".join(text.split())
    assert not (split.kept and split.cues)
    if said.strip() and clues and clues[0] != "He is sad.":
        assert split.cues or split.kept
