"""What a person is shown of a text that nobody vouches for."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ser_toolkit.visible import visible, visible_json


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u202eb\u2066c\u2069", "a\\u202eb\\u2066c\\u2069"),
        ("zero\u200bwidth\ufeff", "zero\\u200bwidth\\ufeff"),
        ("\u00adsoft \x85 next", "\\xadsoft \\x85 next"),
        ("tag \U000e0041", "tag \\U000e0041"),
        ("half \ud83d", "half \\ud83d"),
        ("\u3164blank\u2028line", "\\u3164blank\\u2028line"),
    ],
)
def test_what_acts_or_hides_is_shown_as_an_escape(text, shown):
    assert visible(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "plain, 'quoted' — \u201ccurly\u201d\n\ttabbed",
        "我很难过。（他说）",
        "e\u0301 नमस्ते",
        "👨\u200d👩\u200d👧 ❤\ufe0f",
    ],
)
def test_what_people_write_stays(text):
    assert visible(text) == text


def test_a_joiner_that_joins_no_picture_is_shown():
    assert visible("pass\u200dword") == "pass\\u200dword"


def test_on_one_line_no_second_line_can_be_taken_for_ours():
    assert visible("a\nfailure b\t", one_line=True) == "a\\nfailure b\\t"


@given(st.text(st.characters(codec=None), max_size=40))
def test_nothing_that_acts_is_left_and_json_keeps_its_value(text):
    shown = visible(text)
    assert not [c for c in shown if c < " " and c not in "\n\t"] and "\u202e" not in shown
    shown.encode("utf-8")  # no lone surrogate is left to stop a stream
    written = visible_json(json.dumps({"k": text}, ensure_ascii=False))
    assert json.loads(written) == {"k": text}
    assert "\u202e" not in written
    written.encode("utf-8")
