"""A talk with a simulated seeker: who speaks when, how the feeling moves, and why it ends."""

from __future__ import annotations

import json

import pytest

from ser_toolkit.errors import RecordError
from ser_toolkit.llm.chat import Reply, Request
from ser_toolkit.llm.meter import UsageMeter
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Llm, Recipe
from ser_toolkit.schema import Scenario, Source, Speaker
from ser_toolkit.seeker import Seeker
from ser_toolkit.talks import Talk

LINES = ["I froze in there.", "My father will hear of it.", "Thank you, that helps.", "I slept badly too."]


class Feels:
    """A seeker's model: lines in turn, feelings in turn; keeps what it was asked."""

    identity, model, vision, languages, context_tokens = "here", "m", False, frozenset(), None

    def __init__(self, feelings=(), lines=LINES) -> None:
        self.feelings, self.lines = list(feelings), list(lines)
        self.asked: list[Request] = []
        self.meter = UsageMeter()

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        if request.schema is None:
            return Reply(self.lines.pop(0))
        feeling = self.feelings.pop(0)
        return Reply("?") if feeling is None else Reply(json.dumps({"thought": "hm", "feeling": feeling}))

    async def aclose(self) -> None: ...


def talk(chat: Feels, rounds: int = 5, start: int | None = 30, lang="en") -> Talk:
    scenario = Scenario(
        id="s1",
        lang=lang,
        source=Source(format="sage"),
        situation="I failed an exam.",
        speakers=(Speaker(role="seeker", persona="A student of 20."),),
        hidden_intention="to hear that one exam is not a life",
        opening="I failed it again.",
    )
    return Talk(Seeker(scenario, chat, Recipe(llm=Llm(model="openai:m")), Prompts(), "evaluate"), rounds, start)


async def play(talk: Talk, *replies: str) -> Talk:
    await talk.open()
    for reply in replies:
        await talk.hear(reply)
    return talk


async def test_it_feels_before_it_speaks_and_knows_what_it_hides():
    chat = Feels([41])
    done = await play(talk(chat), "What happened?")
    assert [t.text for t in done.turns] == ["I failed it again.", "What happened?", "I froze in there."]
    felt, said = chat.asked
    about = felt.messages[-1].text
    assert "to hear that one exam is not a life" in about and "stood at 30" in about and "A student of 20." in about
    assert "stand at 41" in said.messages[0].text
    assert (done.feelings, done.feeling, done.end) == ([41], 41, None)


@pytest.mark.parametrize(("lang", "before"), [("en", "stood at 0"), ("zh", "之前是 0")])
async def test_a_feeling_of_zero_is_told_as_zero(lang, before):
    chat = Feels([0])
    done = await play(talk(chat, start=0, lang=lang), "Well.")
    assert before in chat.asked[0].messages[-1].text and done.end == "gave_up"


async def test_it_ends_at_either_end_of_the_scale_without_another_line():
    up = await play(talk(Feels([100])), "I see.")
    down = await play(talk(Feels([0])), "So what?")
    assert (up.end, up.final_feeling, len(up.turns)) == ("relieved", 100, 2)
    assert (down.end, down.final_feeling, len(down.turns)) == ("gave_up", 0, 2)


async def test_it_ends_on_a_farewell_and_at_the_limit_whose_last_reply_is_felt_too():
    bye = await play(talk(Feels([40, 50], ["I froze in there.", "Thank you, goodbye. [END]"])), "Oh.", "I see.")
    assert (bye.end, bye.final_feeling, bye.turns[-1].text) == ("goodbye", 50, "Thank you, goodbye.")
    limit = await play(talk(Feels([40, 55]), rounds=2), "Oh.", "I see.")
    assert (limit.end, limit.final_feeling, limit.turns[-1].speaker) == ("limit", 55, "supporter")


async def test_a_feeling_that_cannot_be_read_is_missing_and_the_last_one_goes_on():
    chat = Feels([40, None, None, 52])
    done = await play(talk(chat), "Oh.", "I see.", "And then?")
    assert done.feelings == [40, None, 52]
    assert "stood at 40" in chat.asked[-2].messages[-1].text
    last = await play(talk(Feels([None, None]), rounds=1), "Oh.")
    assert last.final_feeling is None and last.end == "limit"


async def test_untracked_it_costs_a_line_a_round_and_silence_ends_it():
    chat = Feels()
    done = await play(talk(chat, start=None), "Oh.", "I see.")
    assert len(chat.asked) == 2 and done.final_feeling is None
    silent = await play(talk(Feels()))
    silent.fall_silent()
    assert (silent.end, silent.final_feeling) == ("no_reply", 0)


async def test_a_seeker_that_turns_helper_ends_it_with_a_failure():
    with pytest.raises(RecordError, match="acts as the helper"):
        await play(talk(Feels([40], ["How can I help you?", "I am here for you."])), "Oh.")
