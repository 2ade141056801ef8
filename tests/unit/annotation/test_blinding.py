"""Blinding: undone it gives the truth, it is balanced, and a view tells nothing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.blinding import blind, fraction, generated_position, unblind, view_id
from annotation.items import Response, StepMark, build_items
from ser_toolkit.errors import RecordError
from ser_toolkit.schema import Cue
from ser_toolkit.taxonomy import VERDICTS
from ser_toolkit.verdicts import as_shown, read_verdict, unblinded
from tests.unit.annotation.answering import a_round, says, some_items
from tests.unit.release.making import dialogue, trace

KEYS = st.binary(min_size=32, max_size=32)
NAMES = st.text(min_size=1, max_size=12)
BETTER = st.sampled_from(["generated", "reference", "almost_equal", "neither"])
MARKS = (StepMark(label=True), StepMark(label=False, critique="no"), StepMark(label=True))


@given(BETTER, st.sampled_from([1, 2]))
def test_shown_and_unblinded_are_inverse(better, position):
    assert unblinded(as_shown(better, position), position) == better


@given(KEYS, NAMES, st.integers(0, 1), BETTER)
def test_undoing_gives_back_the_truth(key, name, repeat, better):
    """Whoever prefers a reply by its text is recorded as preferring that reply, wherever it stood."""
    item = some_items(1)[0]
    view = blind(item, key, name, repeat)
    position = view.replies.index(item.generated) + 1
    response = Response(view_id=view.id, steps=MARKS, verdict=as_shown(better, position))
    answer = unblind(item, key, name, response, source="person", repeat=repeat, route="x", time="")
    assert (answer.better, answer.generated_position) == (better, position)
    assert [answer.label(p) for p in ("step1", "step2", "step3", "reply")] == ["True", "False", "True", better]


@given(KEYS)
def test_the_generated_reply_stands_first_half_of_the_time(key):
    first = sum(generated_position(key, f"item-{n}", f"p{n % 3}") == 1 for n in range(400))
    assert 140 <= first <= 260  # six standard deviations


def test_the_order_differs_from_person_to_person_and_from_time_to_time():
    key = b"k" * 32
    for draws in (
        {generated_position(key, "item", f"p{n}") for n in range(40)},
        {generated_position(key, "item", "p", n) for n in range(40)},
    ):
        assert draws == {1, 2}
    assert len({view_id(key, "item", "p", n) for n in range(40)}) == 40
    assert generated_position(key, "i", "p") == generated_position(key, "i", "p")
    assert 0.4 < sum(fraction(key, n) for n in range(500)) / 500 < 0.6


def test_a_view_tells_no_model_no_label_no_trace_and_nobody_else(tmp_path):
    """The view is serialised as a page or a server would get it, and searched for all that must not be there."""
    said = dialogue(
        "secret-dialogue", "I am tired.", "Tell me more.", "Work is heavy.", "Rest helps.", origin="model:secret-model",
        cues=[Cue(channel="face", text="eyes down", source="model:secret-vlm")],
    )  # fmt: skip
    labels = {"stage": "SecretStage", "strategy": "SecretStrategy", "emotions": ("SecretEmotion",)}
    written = {"model": "secret-reasoner", "prompt": "secret-prompt", "notes": ("secret-note",)}
    made = trace(said, id="secret-trace").model_copy(update={**labels, **written})
    with a_round(tmp_path, list(build_items([said], [made])), people="ada ben secret-colleague") as ledger:
        task = ledger.next_task("ben")
        ledger.accept(says(task, "fft", ledger=ledger).model_copy(update={"comment": "secret-comment"}))
        view = ledger.next_task("ada").view
        text = json.dumps(view.model_dump(mode="json"), ensure_ascii=False)
        for hidden in ("secret", "Secret", "model", "corpus", "generated", "reference", "gold", "repeat", "ada", "ben"):
            assert hidden not in text, hidden
        assert "eyes down" in text and made.reply in text and made.reference in text
        item = ledger.item(next(iter(ledger.state.items)))
        assert item.id not in text and ledger.state.key.hex() not in text


def test_a_response_that_does_not_fit_is_refused():
    item = some_items(1)[0]
    key = b"k" * 32
    view = blind(item, key, "ada")

    def try_with(**change):
        response = Response(**{"view_id": view.id, "steps": MARKS, "verdict": "neither", **change})
        return unblind(item, key, "ada", response, source="person", route="x", time="")

    assert try_with().better == "neither"
    with pytest.raises(RecordError, match="verdict on the two replies is missing"):
        try_with(verdict=None)
    with pytest.raises(RecordError, match="is not what ada was shown"):
        try_with(view_id=view_id(key, item.id, "ben"))
    alone = item.model_copy(update={"reference": item.generated + " "})
    assert blind(alone, key, "ada").replies is None, "a reply is not compared with itself"


@pytest.mark.parametrize(
    ("word", "verdict"),
    [
        ("first better", "first_better"), ("Second-Better.", "second_better"), ("almost good", "almost_equal"),
        ("Almost equally good", "almost_equal"), ("available", "neither"), ("Neither available", "neither"),
        ("neither acceptable", "neither"), ("差不多", "almost_equal"), *((v, v) for v in VERDICTS),
    ],
)  # fmt: skip
def test_spellings_of_published_data_are_read(word, verdict):
    assert read_verdict(word) == verdict


@pytest.mark.parametrize("word", ["", "good", "first or second", "not neither", "3"])
def test_a_verdict_that_cannot_be_read_is_none(word):
    with pytest.raises(RecordError):
        read_verdict(word)
