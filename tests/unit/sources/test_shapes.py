"""Turns keyed by their speaker (FIELD_CASES C1)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.sources.shapes import turns_of
from ser_toolkit.errors import RecordError


@pytest.mark.parametrize(
    ("content", "turns", "shape"),
    [
        (
            [{"User": "My flat feels empty."}, {"AI": "That sounds lonely."}],
            [("seeker", "My flat feels empty.", None), ("supporter", "That sounds lonely.", None)],
            "single",
        ),
        (
            [{"User": "I failed again.", "AI": "That hurts."}, {"AI": "What weighs most?", "User": "Yes."}],
            [
                ("seeker", "I failed again.", None),
                ("supporter", "That hurts.", None),
                ("supporter", "What weighs most?", None),
                ("seeker", "Yes.", None),
            ],
            "paired",
        ),
        (
            [{"User": "Can't sleep.", "AI": {"AI": "Since when?", "AI Strategy": "Question"}}],
            [("seeker", "Can't sleep.", None), ("supporter", "Since when?", "Question")],
            "nested",
        ),
        (
            [{"user": "a", "AI": None}, {"Ai": "b", "ai_strategy": "Offer Hope", "Mood": 1}],
            [("seeker", "a", None), ("supporter", "b", "Offer Hope")],
            "single (unread: Mood)",
        ),
        (
            [{"User": "a"}, {"AI": "b", "User": "c"}],
            [("seeker", "a", None), ("supporter", "b", None), ("seeker", "c", None)],
            "paired+single",
        ),
        ([], [], ""),
    ],
)
def test_shapes(content: Any, turns: Any, shape: str) -> None:
    assert turns_of(content) == (turns, shape)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([{"User": "Hm.", "AI": ["x", "y"]}], "turn object 1: 'AI' is a list, not a text"),
        ([{"User": "Hm."}, {"AI": {"text": "x"}}], "turn object 2: 'AI' is missing, not a text"),
        ([{"User": "Hm."}, "x"], "turn object 2 is a text, not an object"),
        ([{"Human": "Hm."}], "turn object 1 has neither 'User' nor 'AI': Human"),
        ([{"AI": "x", "AI Strategy": ["y"]}], "turn object 1: 'AI Strategy' is a list, not a word"),
        ({"User": "x"}, "content is an object, not a list of turns"),
        ([{"User": 5}], "turn object 1: 'User' is a number, not a text"),
    ],
)
def test_what_is_no_turn_is_refused_at_its_place(content: Any, reason: str) -> None:
    with pytest.raises(RecordError) as error:
        turns_of(content)
    assert (error.value.kind, error.value.reason) == ("malformed", reason)


KEYS = st.sampled_from(["User", "AI", "AI Strategy", "x"])
ANY = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner),
    max_leaves=8,
)


@settings(deadline=None)
@given(ANY)
def test_anything_is_turns_or_a_record_error(content: Any) -> None:
    try:
        turns, _ = turns_of(content)
    except RecordError:
        return
    assert all(role in ("seeker", "supporter") and isinstance(text, str) for role, text, _ in turns)
