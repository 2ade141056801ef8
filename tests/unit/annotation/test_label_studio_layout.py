"""What Label Studio is given: a configuration that its SDK takes, and texts that are nothing but text."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.blinding import blind
from annotation.items import Reason, ShownStep, SkipReason, View
from annotation.label_studio.layout import SEAL, VIEW, config, task_data
from ser_toolkit.errors import DataError
from ser_toolkit.schema import Cue, Turn
from ser_toolkit.verdicts import Shown
from ser_toolkit.visible import visible
from tests.annotation_samples import item, made_of, photo

KEY = b"k" * 32
NOWHERE = Path("nowhere")


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("has_pair", [True, False])
def test_the_configuration_asks_what_a_response_holds_under_our_own_words(lang, has_pair):
    tree = ET.fromstring(config(lang, has_pair))
    offered = {c.get("name"): [o.get("alias") for o in c] for c in tree.iter("Choices")}
    for step in ("step1", "step2", "step3"):
        assert offered.pop(step) == ["True", "False"]
    assert offered.pop("skip") == [r for r in get_args(SkipReason) if r != "failed"]
    assert offered == ({"verdict": list(get_args(Shown)), "reasons": list(get_args(Reason))} if has_pair else {})
    keys = [o.get("hotkey") for o in tree.iter("Choice") if o.get("hotkey")]
    assert len(set(keys)) == len(keys) == (17 if has_pair else 7)
    shown = {o.get("value") for o in tree.iter("Choice")}
    assert ("对" in shown) == (lang == "zh") and ("True" in shown) == (lang == "en")
    wanted = {c.get("value", "").removeprefix("$") for c in tree.iter("HyperText")}
    data = task_data(a_view(has_pair), NOWHERE)
    assert wanted == set(data) - {VIEW, SEAL}
    names = {e.get("name") for e in tree.iter() if e.get("name")}
    assert {e.get("toName") for e in tree.iter() if e.get("toName")} <= names


def test_the_sdk_takes_it():
    sdk = pytest.importorskip("label_studio_sdk.label_interface")
    for has_pair in (True, False):
        sdk.LabelInterface(config("en", has_pair)).validate()


def a_view(has_pair: bool = True) -> View:
    view = blind(item(0), KEY, "ann")
    return view if has_pair else view.model_copy(update={"replies": None})


class Read(HTMLParser):
    """The text that a reader sees, and every element and attribute."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.tags, self.names = "", set(), set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        self.text += "\n" if tag == "br" else ""

    def handle_data(self, data):
        self.text += data


TEXT = st.text(min_size=1).filter(str.strip) | st.sampled_from(
    ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "{{7*7}} $talk", "&lt;b&gt;", "a\r\nb", "\"'>"]
)


@given(TEXT, TEXT, TEXT)
def test_every_text_stays_text(said, step, reply):
    view = a_view()
    turns = tuple(t.model_copy(update={"text": said}) for t in view.history)
    steps = tuple(ShownStep(number=s.number, title=s.title, text=step) for s in view.steps)
    data = task_data(view.model_copy(update={"history": turns, "steps": steps, "replies": (reply, said)}), NOWHERE)
    for name, text in (("text1", step), ("reply1", reply), ("reply2", said)):
        found = Read(data[name])
        assert found.tags <= {"div", "br"} and found.names <= {"class"}
        assert found.text == visible(text)
    assert Read(data["talk"]).tags <= {"div", "i", "br"}


def test_nothing_of_the_item_leaves_but_the_view(tmp_path):
    made = item(1, photo=photo(tmp_path), risk="high")
    data = task_data(blind(made, KEY, "ann"), tmp_path / "media")
    text = "\n".join(data.values())
    assert not any(w in text for w in (made.id, made.trace_id, made.dialogue_id, "parrot-7b", "seer-9", "generated"))
    assert "crisis" in data["talk"] and "<details" in data["talk"] and "data:image/jpeg;base64," in data["talk"]
    with pytest.raises(DataError, match="is gone"):
        task_data(blind(item(1, photo="0" * 64), KEY, "ann"), tmp_path / "media")


def test_what_acts_on_a_screen_is_shown_as_an_escape():
    turns = (
        Turn(speaker="seeker", text="a\x1b[31mred\u202e<b>", cues=(Cue(channel="voice", text="<i>", source="x"),)),
        Turn(speaker="supporter", text="Yes."),
    )
    talk = task_data(blind(made_of(turns, ("1", "2", "3"), "r", "s", 1), KEY, "ann"), NOWHERE)["talk"]
    assert r"a\x1b[31mred\u202e&lt;b&gt;" in talk and "&lt;i&gt;" in talk
