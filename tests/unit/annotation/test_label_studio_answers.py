"""What Label Studio sends back is checked: it keeps invalid labels, answers twice, and whatever its API was sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.label_studio.answers import read_annotation
from ser_toolkit.errors import RecordError


def chosen(name: str, *words: str) -> dict[str, Any]:
    return {"from_name": name, "to_name": "x", "type": "choices", "value": {"choices": list(words)}}


def typed(name: str, *lines: str) -> dict[str, Any]:
    return {"from_name": name, "to_name": "x", "type": "textarea", "value": {"text": list(lines)}}


WHOLE = [chosen("step1", "True"), chosen("step2", "False"), typed("critique2", "Not said."), chosen("step3", "True")]
PAIR = [*WHOLE, chosen("verdict", "neither"), chosen("reasons", "safety", "fit"), typed("comment", "a", "b")]


def test_a_whole_answer_a_skip_and_a_critique_that_was_taken_back():
    said = read_annotation("v1", {"result": PAIR, "lead_time": 12.5})
    assert said.steps is not None
    assert [(m.label, m.critique) for m in said.steps] == [(True, ""), (False, "Not said."), (True, "")]
    assert (said.verdict, said.reasons, said.comment, said.seconds) == ("neither", ("safety", "fit"), "a\nb", 12.5)
    hidden = [typed("critique1", "old"), *PAIR]
    assert read_annotation("v1", {"result": hidden}).steps == said.steps, "a hidden field's text is no critique"
    skipped = read_annotation("v1", {"result": [chosen("skip", "distress"), *WHOLE[:1]], "was_cancelled": True})
    assert (skipped.skip, skipped.steps) == ("distress", None)
    assert read_annotation("v1", {"result": [], "was_cancelled": True}).skip == "other"


@pytest.mark.parametrize(
    "result, reason",
    [
        ([], "step 1 is not judged"),
        (PAIR[1:], "step 1 is not judged"),
        ([chosen("step1", "Maybe"), *PAIR[1:]], "neither True nor False"),
        ([chosen("step1", "True", "False"), *PAIR[1:]], "has 2 answers"),
        ([*PAIR, chosen("step1", "True")], "answered twice"),
        ([*WHOLE, chosen("verdict", "first")], "verdict"),
        ([*PAIR, chosen("sentiment", "Positive")], "nothing that was asked"),
        ([*PAIR, chosen("skip", "unclear")], "a reason to skip"),
        ([*WHOLE, chosen("reasons", "because")], "reasons"),
        ([*WHOLE, typed("comment", "x" * 10_001)], "comment"),
        ([{"from_name": "step1", "value": None}], "no words"),
        ([chosen("skip", "bored")], "a reason to skip"),
        ("text", "no list"),
        ([None], "nothing that was asked"),
    ],
)
def test_what_is_no_answer_is_told_and_never_read_as_one(result, reason):
    with pytest.raises(RecordError, match=reason) as caught:
        read_annotation("v1", {"result": result})
    assert caught.value.kind == "malformed" and "v1" in caught.value.reason


def test_a_skip_of_an_unknown_kind_is_none():
    with pytest.raises(RecordError, match="skip"):
        read_annotation("v1", {"result": [chosen("skip", "failed2")], "was_cancelled": True})


NAMES = st.sampled_from(["from_name", "value", "choices", "text", "x"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["step1", "True", "comment"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@given(JSON, st.booleans(), JSON)
def test_whatever_comes_it_is_an_answer_or_a_failure(result, is_skipped, seconds):
    try:
        said = read_annotation("v1", {"result": result, "was_cancelled": is_skipped, "lead_time": seconds})
    except RecordError:
        return
    assert said.view_id == "v1" and (said.skip is None) != (said.steps is None)
