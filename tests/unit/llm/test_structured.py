from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ser_toolkit.errors import RecordError
from ser_toolkit.llm.chat import Message, Reply, Request
from ser_toolkit.llm.structured import ask_json, extract_json

STEP = {
    "type": "object",
    "properties": {"claim": {"type": "string"}, "verdict": {"type": "boolean"}},
    "required": ["claim", "verdict"],
}
SCHEMA = {
    "type": "object",
    "properties": {"steps": {"type": "array", "items": STEP}, "reply": {"type": "string"}},
    "required": ["steps", "reply"],
}
VALUE = {"steps": [{"claim": "She is tired.", "verdict": True}], "reply": "Rest a little."}
TICKS = {"steps": [{"claim": "She wrote ```help``` twice.", "verdict": False}], "reply": "``` is no word.\n```"}
GOOD = json.dumps(VALUE)
RAW_OUTPUTS = [
    Reply(f"```json\n{json.dumps(VALUE, indent=2)}\n```"),
    Reply(f"Here is what {{you}} asked for:\n\n```json\n{GOOD}\n```\nI hope it helps."),
    Reply(f"```\n{json.dumps(TICKS)}\n```"),
    Reply(GOOD[:45], "length"),
    Reply("", "content_filter"),
]


class Scripted:
    """Answers from a list, and keeps what it was asked."""

    identity, model, vision, context_tokens, languages = "here", "m", False, None, frozenset()

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.asked: list[Request] = []

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        return self.replies.pop(0)

    async def aclose(self) -> None: ...


def kind_of(reply: Reply, schema=SCHEMA) -> str:
    with pytest.raises(RecordError) as caught:
        extract_json(reply, schema)
    return caught.value.kind


def test_field_case_6_raw_model_output():
    """FIELD_CASES C6: parsed exactly, backticks kept; a cut one is never repaired; one bad item stops nothing."""
    got = []
    for reply in RAW_OUTPUTS:
        try:
            got.append(extract_json(reply, SCHEMA))
        except RecordError as exc:
            got.append(exc.kind)
    assert got == [VALUE, VALUE, TICKS, "truncated", "filtered"]


def test_a_cut_reply_is_not_repaired_even_where_it_could_be():
    cut = GOOD[:-1]
    assert kind_of(Reply(cut, "length")) == "truncated"
    assert extract_json(Reply(cut, "stop"), SCHEMA) == VALUE


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace('"', "'"),
        GOOD[:-1] + ",}",
        "```json\n" + GOOD.replace("true", "True") + "\n```",
        "Sure! " + GOOD.removesuffix("}"),
    ],
)
def test_small_faults_are_mended(text):
    assert extract_json(Reply(text), SCHEMA) == VALUE


@pytest.mark.parametrize(
    "text",
    [
        "I cannot do that.",
        "{}",
        "[]",
        '{"steps": "none", "reply": 3}',
        "{" * 5000,
        "[" * 100_000,
        "{}" * 3000,
        "}" * 200 + "{" * 5000,
    ],
)
def test_what_does_not_follow_the_schema_is_a_failure_with_its_text(text):
    assert kind_of(Reply(text)) == "schema"
    with pytest.raises(RecordError) as caught:
        extract_json(Reply(text, request_key="k1"), SCHEMA)
    assert (caught.value.text, caught.value.request_key) == (text, "k1")


def test_an_empty_reply_is_its_own_failure():
    assert kind_of(Reply("  \n")) == "empty_reply"


def test_thought_aloud_the_last_valid_value_counts():
    first = json.dumps({**VALUE, "reply": "a draft"})
    assert extract_json(Reply(f"Perhaps {first}? No: {GOOD}"), SCHEMA) == VALUE


def test_nan_is_no_number():
    assert kind_of(Reply('{"x": NaN}'), {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]})


def test_other_shapes_than_objects():
    assert extract_json(Reply("The scores are [1, 2, 5]."), {"type": "array", "items": {"type": "integer"}}) == [
        1,
        2,
        5,
    ]
    assert extract_json(Reply("4"), {"type": "integer", "minimum": 1, "maximum": 5}) == 4
    assert kind_of(Reply("9"), {"type": "integer", "minimum": 1, "maximum": 5}) == "schema"


@given(
    value=st.fixed_dictionaries(
        {
            "steps": st.lists(st.fixed_dictionaries({"claim": st.text(), "verdict": st.booleans()}), max_size=3),
            "reply": st.text(),
        }
    ),
    before=st.sampled_from(["", "Here you are: ", "```json\n", "Thinking...\n\n```\n"]),
    ascii_only=st.booleans(),
)
def test_whatever_json_was_written_is_read_exactly(value, before, ascii_only):
    after = "\n```" if "```" in before else ""
    text = before + json.dumps(value, ensure_ascii=ascii_only) + after
    assert extract_json(Reply(text), SCHEMA) == value


@given(st.text())
def test_any_text_is_read_or_refused_and_never_raises_otherwise(text):
    try:
        extract_json(Reply(text), SCHEMA)
    except RecordError as exc:
        assert exc.kind in ("schema", "empty_reply")


REQUEST = Request((Message("user", "Judge."),), seed=5)


async def test_the_request_carries_the_schema_and_a_good_reply_is_final():
    chat = Scripted(Reply(GOOD))
    value, reply = await ask_json(chat, REQUEST, SCHEMA)
    assert value == VALUE and reply.text == GOOD
    assert [r.schema for r in chat.asked] == [SCHEMA]


@pytest.mark.parametrize("bad", [Reply("no"), Reply(GOOD[:30], "length"), Reply("")])
async def test_a_bad_reply_is_asked_for_again_once(bad):
    chat = Scripted(bad, Reply(GOOD))
    assert (await ask_json(chat, REQUEST, SCHEMA))[0] == VALUE
    assert [(r.attempt, r.seed) for r in chat.asked] == [(1, 5), (2, 6)]


async def test_twice_bad_is_a_failure():
    chat = Scripted(Reply(GOOD[:30], "length"), Reply("no"), Reply(GOOD))
    with pytest.raises(RecordError) as caught:
        await ask_json(chat, REQUEST, SCHEMA)
    assert caught.value.kind == "schema" and len(chat.asked) == 2


async def test_a_withheld_reply_is_not_asked_for_again():
    chat = Scripted(Reply("", "content_filter"), Reply(GOOD))
    with pytest.raises(RecordError) as caught:
        await ask_json(chat, REQUEST, SCHEMA)
    assert caught.value.kind == "filtered" and len(chat.asked) == 1
