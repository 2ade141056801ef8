"""What a policy is asked, and which reply comes out of what it writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_training.policy import Policy, read_answer
from ser_toolkit.errors import RecordError
from ser_toolkit.llm.chat import Reply, Request
from ser_toolkit.llm.meter import UsageMeter
from ser_toolkit.prompting import Prompts
from ser_toolkit.reasoning import render_trace
from ser_toolkit.recipe import Llm
from ser_toolkit.releases.prompting import INSTRUCTIONS
from ser_toolkit.schema import Turn

TRACE = render_trace(["It began at work.", "Sad.", "Listen."], "I hear you.", "en")


class Says:
    """Answers in turn, and keeps what it was asked."""

    identity, model, vision, languages = "here", "m", False, frozenset()

    def __init__(self, *replies: str | Reply, context_tokens: int | None = None) -> None:
        self.replies, self.context_tokens = list(replies), context_tokens
        self.asked: list[Request] = []
        self.meter = UsageMeter()

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        reply = self.replies.pop(0)
        return reply if isinstance(reply, Reply) else Reply(reply)

    async def aclose(self) -> None: ...


def policy(chat: Says, style="ser") -> Policy:
    return Policy(chat, Llm(max_tokens=64), Prompts(), style)


def turns(*texts: str) -> list[Turn]:
    return [Turn(speaker="supporter" if i % 2 else "seeker", text=t) for i, t in enumerate(texts)]


def test_the_reply_is_taken_out_of_the_four_parts():
    answer = read_answer(TRACE)
    assert answer.reply == "I hear you." and answer.is_formatted and answer.steps[2] == "Listen."


@pytest.mark.parametrize(
    ("text", "reply", "formatted"),
    [
        ("I hear you.", "I hear you.", False),
        (r"\boxed{I hear you.}", "I hear you.", False),
        (f"<think>what to say? Step 1. no\n</think>\n{TRACE}", "I hear you.", True),
        ("<think>I never end", None, False),
        ("Step 1. Analysis\nIt began at work.\nStep 2. State\nSad.", None, False),
        (TRACE.replace(r"\boxed{", "").replace("you.}", "you."), "I hear you.", False),
        ("  \n", None, False),
    ],
)
def test_what_counts_as_the_reply(text, reply, formatted):
    answer = read_answer(text)
    assert (answer.reply, answer.is_formatted) == (reply, formatted)


@given(st.text())
def test_any_text_is_read(text):
    answer = read_answer(text)
    assert answer.text == text and (answer.reply is None or answer.reply.strip())


async def test_it_is_asked_with_the_prompt_that_training_uses():
    chat = Says(TRACE)
    await policy(chat).answer(turns("I failed.", "When?", "Today. <|im_end|>"), "en", "s1")
    asked = [(m.role, m.text) for m in chat.asked[0].messages]
    assert asked[0] == ("system", INSTRUCTIONS["en"])
    assert asked[1:] == [("user", "I failed."), ("assistant", "When?"), ("user", "Today. < |im_end| >")]


async def test_the_plain_style_asks_for_no_steps_and_the_bare_one_for_nothing():
    plain, bare = Says("Oh no."), Says("Oh no.")
    await policy(plain, "plain").answer(turns("I failed."), "zh", "s1")
    await policy(bare, "bare").answer(turns("I failed."), "en", "s1")
    assert "步骤" not in plain.asked[0].messages[0].text and plain.asked[0].messages[0].role == "system"
    assert [m.role for m in bare.asked[0].messages] == ["user"]


async def test_silence_is_asked_once_more_and_then_told():
    chat = Says(Reply("", "stop"), TRACE)
    assert (await policy(chat).answer(turns("I failed."), "en", "s1")).reply == "I hear you."
    assert [r.attempt for r in chat.asked] == [1, 2]
    with pytest.raises(RecordError) as told:
        await policy(Says("Step 1. A\nb", "Step 1. A\nb")).answer(turns("I failed."), "en", "s1")
    assert told.value.kind == "format"
    withheld = Says(Reply("", "content_filter"))
    with pytest.raises(RecordError) as told:
        await policy(withheld).answer(turns("I failed."), "en", "s1")
    assert told.value.kind == "filtered" and len(withheld.asked) == 1


async def test_a_long_history_is_cut_at_turn_borders():
    chat = Says(TRACE, context_tokens=1024)
    long = [f"{'word ' * 60}{i}" for i in range(21)]
    await policy(chat).answer(turns(*long), "en", "s1")
    said = chat.asked[0].messages
    assert len(said) < 20 and said[-1].text == long[-1] and all(m.text in long for m in said[2:])
