"""AvaMERG, hand-written in the two shapes that the importer knows."""

from pipelines.sources.avamerg import FORMAT
from ser_toolkit.schema import Dialogue, Failure, Label, Media

SPOKEN = [
    ("speaker", "My dog ran off last night."),
    ("listener", "Oh no. Did you find him?"),
    ("speaker", "Not yet. I keep calling."),
    ("listener", "I hope he comes back soon."),
]
SAID = [{"index": i, "role": who, "utterance": text} for i, (who, text) in enumerate(SPOKEN)]
ROUNDS = {
    "conversation_id": "00042",
    "speaker_profile": {"age": "young", "gender": "female", "timbre": "low", "ID": 3},
    "listener_profile": {"age": "elderly", "gender": "male", "timbre": "high", "ID": 5},
    "topic": "Pets",
    "turns": [
        {
            "turn_id": "0",
            "dialogue_history": SAID[:1],
            "response": SPOKEN[1][1],
            "chain_of_empathy": {"speaker_emotion": "anxious", "event_scenario": "a lost dog"},
        },
        {
            "turn_id": "1",
            "dialogue_history": SAID[:3],
            "response": SPOKEN[3][1],
            "chain_of_empathy": {"speaker_emotion": "surprised"},
        },
    ],
}


def test_rounds_become_one_dialogue_with_an_emotion_where_it_was_felt(importing):
    (dialogue,) = importing(FORMAT, {"train.json": [ROUNDS]})
    assert isinstance(dialogue, Dialogue) and dialogue.id == "avamerg-00042"
    assert [turn.text for turn in dialogue.turns] == [text for _, text in SPOKEN]
    assert [turn.speaker for turn in dialogue.turns] == ["seeker", "supporter"] * 2
    assert [turn.emotions for turn in dialogue.turns] == [
        (Label(original="anxious", corpus="anxious", ser="Anxiety"),),
        (),
        (Label(original="surprised", corpus="surprised", ser=None),),
        (),
    ]
    assert dialogue.emotion is not None and dialogue.emotion.ser == "Anxiety"
    assert [(s.role, s.attributes["timbre"]) for s in dialogue.speakers] == [("seeker", "low"), ("supporter", "high")]
    assert dialogue.meta["shape"] == "rounds" and len(dialogue.meta["chain_of_empathy"]) == 2
    assert dialogue.flags == ("no_media",) and dialogue.problem == "Pets"


def test_sound_and_video_are_found_by_name_beside_the_file(importing):
    files = {"train.json": [ROUNDS], "audio/dia00042utt0_3.wav": "-", "dia00042utt1_5.mp4": "-"}
    (dialogue,) = importing(FORMAT, files)
    assert [turn.media for turn in dialogue.turns] == [
        (Media(kind="audio", path="audio/dia00042utt0_3.wav"),),
        (Media(kind="video", path="dia00042utt1_5.mp4"),),
        (),
        (),
    ]
    assert dialogue.flags == ()


def test_a_name_that_leads_elsewhere_is_not_followed(importing):
    (dialogue,) = importing(FORMAT, {"train.json": [{**ROUNDS, "conversation_id": "../../x"}]})
    assert dialogue.flags == ("no_media",)


def test_a_plain_list_of_utterances(importing):
    record = {
        "id": 9,
        "emotion": "lonely",
        "situation": "New in town.",
        "dialogue": [
            {"speaker": "speaker", "text": "I eat alone.", "emotion": "sad"},
            {"speaker": "listener", "text": "Every day?"},
        ],
    }
    (dialogue,) = importing(FORMAT, {"test.json": [record]})
    assert dialogue.id == "avamerg-9" and dialogue.meta == {"shape": "utterances"}
    assert dialogue.emotion == Label(original="lonely", corpus="lonely", ser="Sadness")
    assert dialogue.turns[0].emotions[0].ser == "Sadness" and dialogue.situation == "New in town."


def test_rounds_that_contradict_each_other_are_flagged_and_the_later_counts(importing):
    other = [{**SAID[0], "utterance": "My cat ran off."}, *SAID[1:3]]
    turns = [ROUNDS["turns"][0], {**ROUNDS["turns"][1], "dialogue_history": other}]
    (dialogue,) = importing(FORMAT, {"train.json": [{**ROUNDS, "turns": turns}]})
    assert dialogue.turns[0].text == "My cat ran off." and "histories_differ" in dialogue.flags


def test_what_is_no_conversation_is_a_failure(importing):
    records = [{"conversation_id": "1"}, {"turns": [{"role": "speaker"}]}, {"turns": ["hello"]}, []]
    results = importing(FORMAT, {"train.json": records})
    assert [(type(r), r.kind) for r in results] == [(Failure, "malformed")] * 4
