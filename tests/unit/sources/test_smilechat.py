"""SmileChat: one JSON file a dialogue."""

from pipelines.sources.smilechat import FORMAT
from ser_toolkit.schema import Dialogue, Failure, Label

TURNS = [
    {
        "role": "client",
        "content": "室友总是很吵。我不敢说。",
        "annotation": [{"sentence": "室友总是很吵。", "label": ""}, {"sentence": "我不敢说。", "label": ""}],
    },
    {
        "role": "counselor",
        "content": "你担心说了会吵架。可以先约个时间。",
        "annotation": [
            {"sentence": "你担心说了会吵架。", "label": "情感反映"},
            {"sentence": "可以先约个时间。", "label": "情感反映"},
        ],
    },
]


def test_a_file_is_a_dialogue_named_after_it(importing):
    first, second = importing(
        FORMAT, {"1.json": TURNS, "more/2.json": [TURNS[0], {"role": "counselor", "content": "嗯。"}]}
    )
    assert isinstance(first, Dialogue) and (first.id, second.id) == ("smilechat-1", "smilechat-more-2")
    assert [turn.speaker for turn in first.turns] == ["seeker", "supporter"]
    assert first.lang == "zh" and first.source.licence == "CC0-1.0" and first.source.file == "1.json"


def test_a_label_is_kept_once_a_turn_and_an_empty_one_is_missing(importing):
    (dialogue,) = importing(FORMAT, {"1.json": TURNS})
    assert [turn.strategies for turn in dialogue.turns] == [(), (Label(original="情感反映"),)]


def test_files_that_are_no_dialogue(importing):
    results = importing(
        FORMAT,
        {"1.json": TURNS, "2.json": {"role": "client"}, "3.json": [{"role": "host", "content": "喂"}], "4.json": "[{"},
    )
    assert [(r.kind, r.file) for r in results[1:] if isinstance(r, Failure)] == [
        ("malformed", "2.json"),
        ("unknown_speaker", "3.json"),
        ("unreadable", "4.json"),
    ]
