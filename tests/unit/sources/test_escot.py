"""ESCoT: the reply that the chain of thought explains is the last turn."""

from copy import deepcopy

from pipelines.sources.escot import FORMAT
from ser_toolkit.schema import Dialogue, Failure, Label

RECORD = {
    "id": 7,
    "original_data": {
        "dialog": [
            {"speaker": "supporter", "content": "Hello, what brings you here?"},
            {"speaker": "seeker", "content": "My sister stopped calling."},
        ],
        "strategy": "Specify",
        "response": "When did you last hear from her?",
    },
    "cot_data": {
        "emotion": "The seeker feels left alone.",
        "emotion_stimuli": "A sister who no longer calls.",
        "individual_appraisal": "The seeker thinks it is their fault.",
        "recognized_strategy": "Specify",
        "strategy_reason": "To learn when it began.",
    },
}


def test_the_reply_becomes_the_last_turn_and_the_chain_is_kept_whole(importing):
    (dialogue,) = importing(FORMAT, {"val.json": [RECORD]})
    assert isinstance(dialogue, Dialogue) and dialogue.id == "escot-7"
    assert [turn.speaker for turn in dialogue.turns] == ["supporter", "seeker", "supporter"]
    reply = dialogue.turns[-1]
    assert reply.text == "When did you last hear from her?" and reply.flags == ("escot_response",)
    assert reply.strategies == (Label(original="Specify", corpus="Specify", ser="Progressive Questioning"),)
    assert reply.origin == "corpus" and dialogue.flags == ()
    assert dialogue.meta["cot_data"] == RECORD["cot_data"]


def test_where_the_supporter_spoke_last_the_reply_goes_on_and_is_flagged(importing):
    record = deepcopy(RECORD)
    record["original_data"]["dialog"].append({"speaker": "supporter", "content": "That must hurt."})
    (dialogue,) = importing(FORMAT, {"val.json": [record]})
    assert [turn.text for turn in dialogue.turns[-2:]] == ["That must hurt.", "When did you last hear from her?"]
    assert dialogue.flags == ("response_after_supporter",)
    (merged,) = importing(FORMAT, {"val.json": [record]}, neighbours="merge")
    assert merged.turns[-1].text == "That must hurt.\nWhen did you last hear from her?"
    assert [label.original for label in merged.turns[-1].strategies] == ["Specify"]


def test_records_without_reply_or_chain_and_an_unknown_strategy(importing):
    plain = {
        "id": 8,
        "original_data": {
            "dialog": [
                {"speaker": "seeker", "content": "I moved."},
                {"speaker": "supporter", "content": "Far?"},
                {"speaker": "supporter", "content": "Or near?"},
            ]
        },
    }
    odd = deepcopy(RECORD)
    odd["original_data"]["strategy"] = "Humour"
    dialogue, unknown = importing(FORMAT, {"val.json": [plain, odd]})
    assert len(dialogue.turns) == 3 and dialogue.meta == {} and dialogue.flags == ()
    assert unknown.turns[-1].strategies == (Label(original="Humour"),)


def test_a_repeated_id_and_a_missing_field_are_failures(importing):
    results = importing(FORMAT, {"val.json": [RECORD, RECORD, {"id": 9, "cot_data": {}}]})
    assert [getattr(r, "kind", "ok") for r in results] == ["ok", "duplicate_id", "malformed"]
    assert (
        isinstance(results[2], Failure) and "original_data" in results[2].reason and results[2].position == "record 3"
    )
