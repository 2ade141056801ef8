"""ExTES, in the shapes in which files write its turns (FIELD_CASES C1)."""

from collections import Counter

from pipelines.sources.extes import FORMAT
from ser_toolkit.schema import Dialogue, Failure, Label

C1 = [
    {"id": "a", "content": [{"User": "My flat feels empty."}, {"AI": "That sounds lonely."}]},
    {
        "id": "b",
        "content": [
            {"User": "I failed again.", "AI": "That hurts."},
            {"User": "Yes.", "AI": "What weighs most?"},
        ],
    },
    {"id": "c", "content": [{"User": "Can't sleep.", "AI": {"AI": "Since when?"}}]},
    {"id": "d", "content": [{"User": "Hm.", "AI": ["x", "y"]}]},
]


def test_three_shapes_are_read_and_the_fourth_is_refused_at_its_place(importing):
    results = importing(FORMAT, {"shapes.json": C1})
    dialogues = [r for r in results if isinstance(r, Dialogue)]
    assert [(d.id, len(d.turns)) for d in dialogues] == [("extes-a", 2), ("extes-b", 4), ("extes-c", 2)]
    assert dialogues[2].turns[1].text == "Since when?"
    shapes = Counter(d.meta["shape"] for d in dialogues)
    assert len(shapes) == 3 and set(shapes.values()) == {1}
    failure = results[3]
    assert isinstance(failure, Failure)
    assert (failure.record_id, failure.kind, failure.position) == ("d", "malformed", "record 4")


def test_scene_description_and_strategies(importing):
    record = {
        "scene": "Breakups or Divorce",
        "description": "He left in June.",
        "content": [
            {"User": "He left."},
            {"AI": "You miss him.", "AI Strategy": "Reflective Statements"},
            {"User": "I do."},
            {"AI": "Shall we make a list?", "AI Strategy": "List Making"},
        ],
    }
    (dialogue,) = importing(FORMAT, {"extes.json": [record]})
    assert (dialogue.situation, dialogue.problem) == ("He left in June.", "Breakups or Divorce")
    assert [turn.strategies for turn in dialogue.turns] == [
        (),
        (Label(original="Reflective Statements", corpus="Reflective Statements", ser="Content Restatement"),),
        (),
        (Label(original="List Making"),),
    ]
    assert dialogue.id == dialogue.root_id and dialogue.id.startswith("extes-")


def test_a_record_without_content_is_a_failure(importing):
    (failure,) = importing(FORMAT, {"extes.json": [{"scene": "Work"}]})
    assert isinstance(failure, Failure) and failure.kind == "malformed" and "content" in failure.reason
