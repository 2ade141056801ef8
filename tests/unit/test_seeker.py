"""The simulated seeker: what its view of the talk keeps, and what gives its role away."""

import json
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ser_toolkit.errors import RecordError
from ser_toolkit.history import estimate_tokens
from ser_toolkit.llm.chat import Message, Reply, Request
from ser_toolkit.llm.meter import UsageMeter
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Llm, Recipe
from ser_toolkit.schema import Cue, Label, Scenario, Source, Turn
from ser_toolkit.seeker import Seeker, SeekerTurn, chat_view, spoken
from ser_toolkit.seeker_checks import (
    acts_as_helper,
    circles_goodbye,
    find_faults,
    loops,
    repeats,
    says_goodbye,
    split_marker,
)

CUES = {"face": "eyes down", "voice": "flat"}
LARGE = Recipe(seed=5, llm=Llm(model="openai:m"))


class Lines:
    """Speaks the given lines in turn, answers every request for cues alike, and keeps what it was asked."""

    identity, model, vision, languages = "here", "m", False, frozenset()

    def __init__(self, *lines: str | Reply, cues: object = CUES, context_tokens: int | None = None) -> None:
        self.lines, self.cues, self.context_tokens = list(lines), cues, context_tokens
        self.asked: list[Request] = []
        self.meter = UsageMeter()

    async def complete(self, request: Request) -> Reply:
        if request.schema is not None:
            return Reply(json.dumps(self.cues))
        self.asked.append(request)
        line = self.lines.pop(0)
        return line if isinstance(line, Reply) else Reply(line)

    async def aclose(self) -> None: ...


def scenario(**fields) -> Scenario:
    given = {
        "id": "s1",
        "lang": "en",
        "source": Source(format="seeds"),
        "situation": "I failed an exam.",
        "emotion": Label(original="Shame", ser="Shame"),
        "hidden_intention": "wants to be told that one exam is not a life",
        "opening": "I failed it again.",
    }
    return Scenario(**{**given, **fields})


def turns(*texts: str) -> list[Turn]:
    return [Turn(speaker="supporter" if i % 2 else "seeker", text=t) for i, t in enumerate(texts)]


TALK = turns("I failed it again.", "What happened?", "I froze.", "That is hard.", "Yes, it was awful.", "I see.")


def seeker(chat: Lines, recipe: Recipe = LARGE, **fields) -> Seeker:
    return Seeker(scenario(**fields), chat, recipe, Prompts(), "synthesize")


# ---- the flipped view


def test_the_flipped_view_keeps_the_opening_behind_a_first_question():
    frame = (Message("system", "Play."), Message("user", "What brings you here?"))
    talk = [*TALK[:3], Turn(speaker="supporter", text="Oh.")]
    assert [(m.role, m.text) for m in chat_view(frame, talk, "seeker", "en", None)] == [
        ("system", "Play."),
        ("user", "What brings you here?"),
        ("assistant", "I failed it again."),
        ("user", "What happened?"),
        ("assistant", "I froze."),
        ("user", "Oh."),
    ]
    assert [m.role for m in chat_view(frame, TALK[:3], "supporter", "en", None)] == [
        *("system", "user", "assistant", "user"),
    ]


def test_neighbouring_turns_become_one_message_and_cues_are_seen_by_the_other_alone():
    cue = Cue(channel="face", text="pale", source="x")
    talk = [Turn(speaker="seeker", text="a", cues=(cue,)), Turn(speaker="seeker", text="b")]
    frame = (Message("system", "s"), Message("user", "u"))
    assert chat_view(frame, talk, "supporter", "en", None)[1:] == (Message("user", "a [face: pale] b"),)
    assert chat_view(frame, talk, "seeker", "en", None)[1:] == (Message("user", "u"), Message("assistant", "a b"))


@given(st.lists(st.tuples(st.booleans(), st.text("ab \n", min_size=1, max_size=60)), max_size=14), st.booleans())
def test_any_view_alternates_and_starts_with_a_user(rows, is_cut):
    talk = [Turn(speaker="seeker" if mine else "supporter", text=text) for mine, text in rows]
    frame = (Message("system", "s"), Message("user", "u"))
    for role in ("seeker", "supporter"):
        roles = [m.role for m in chat_view(frame, talk, role, "en", 300 if is_cut else None)]
        assert roles[:2] == ["system", "user"]
        assert all(a != b for a, b in pairwise(roles))


def test_a_long_talk_is_cut_in_front_but_keeps_the_opening():
    talk = turns("It began in May.", *(f"line {n} " + "word " * 40 for n in range(30)), "What now?")
    frame = (Message("system", "s"), Message("user", "u"))
    view = chat_view(frame, talk, "seeker", "en", 700)
    assert sum(estimate_tokens(m.text) for m in view) < 700
    assert "It began in May." in view[2].text and view[2].role == "assistant"
    assert "What now?" in view[-1].text
    assert not any("line 3 " in m.text for m in view)


# ---- the rules

HELPER = {
    "en": [
        "How can I help you today?",
        "I'm here for you, whatever happens.",
        "I’m always here to listen.",
        "I'm so sorry to hear that.",
        "What brings you here today?",
        "Would you like to talk about it?",
        "You are not alone in this.",
        "It's completely normal to feel that way.",
        "Your feelings are valid.",
        "Have you tried talking to a professional?",
        "You should try a warm bath before bed.",
        "I would suggest that you call her.",
        "I understand how you feel.",
        "As an AI, I cannot feel that.",
        "Tell me more about how you feel.",
    ],
    "zh": [
        "我能帮你做些什么？",
        "有什么可以帮到你的吗？",
        "我会一直陪着你。",
        "听到你这样说，我很难过。",
        "愿意和我说说吗？",
        "你不是一个人。",
        "你可以试试深呼吸。",
        "我建议你找朋友聊聊。",
        "我非常理解你的感受。",
        "作为一名支持者，我在听。",
    ],
}
SEEKER = {
    "en": [
        "What should I do?",
        "Do you think I should leave him?",
        "Can you help me?",
        "How do you cope with something like that?",
        "Have you ever felt like that?",
        "Should I try talking to her?",
        'My mum always says "you should try harder".',
        "You should have seen his face.",
        "I'm sorry you have to listen to this.",
        "I'm sorry, I can't stop crying.",
        "I don't know how to help myself.",
        "I feel so alone.",
        "How can I help him if he won't talk?",
        "Is it normal to feel nothing at all?",
        "I know what you mean.",
        "He told me he was here to stay.",
    ],
    "zh": [
        "我该怎么办？",
        "你觉得我应该告诉他吗？",
        "你能帮帮我吗？",
        "我是不是太敏感了？",
        "我妈总说“你可以试试早点睡”。",
        "我试过很多办法，都没有用。",
        "你有没有过这种感觉？",
        "没有人理解我。",
    ],
}


@pytest.mark.parametrize(("lang", "line"), [(lang, line) for lang, lines in HELPER.items() for line in lines])
def test_the_helpers_words_are_found(lang, line):
    assert acts_as_helper(line, lang)
    assert find_faults(line, [], [], lang) == ["it acts as the helper"]


@pytest.mark.parametrize(("lang", "line"), [(lang, line) for lang, lines in SEEKER.items() for line in lines])
def test_a_seekers_own_question_is_no_change_of_role(lang, line):
    assert not acts_as_helper(line, lang)
    assert find_faults(line, [], [], lang) == []


@pytest.mark.parametrize(
    ("raw", "text", "is_end"),
    [
        ("Thanks, that helps.[END]", "Thanks, that helps.", True),
        ("Thanks, that helps. [end]", "Thanks, that helps.", True),
        ("[END]", "", True),
        ("Bye.【结束】", "Bye.", True),
        ("Thank you <END> really", "Thank you really", True),
        ("Thank you. END", "Thank you.", True),
        ("That was the end.", "That was the end.", False),
        ("It is the end", "It is the end", False),
        ("My LEGEND", "My LEGEND", False),
        ("I went to bed (in the end).", "I went to bed (in the end).", False),
    ],
)
def test_a_glued_stop_marker_leaves_the_text(raw, text, is_end):
    assert split_marker(raw) == (text, is_end)


@pytest.mark.parametrize(
    ("lang", "line"),
    [
        ("en", "Okay, bye!"),
        ("en", "Thank you so much. Goodbye."),
        ("en", "Thanks for listening, take care of yourself."),
        ("en", "I have to go now. Talk to you later!"),
        ("en", "Well, have a good evening"),
        ("zh", "谢谢你，再见！"),
        ("zh", "我好多了。那就先这样吧，拜拜"),
        ("zh", "嗯，下次再聊。"),
    ],
)
def test_a_farewell_is_found(lang, line):
    assert says_goodbye(line, lang)


@pytest.mark.parametrize(
    ("lang", "line"),
    [
        ("en", "I never got to say goodbye to her."),
        ("en", "I can't take care of my kids any more."),
        ("en", "He said bye and hung up on me after all those years of us together."),
        ("en", "Take care of my mother? Nobody does."),
        ("zh", "我没来得及和他说再见。"),
        ("zh", "他走的时候连一句再见都没有。"),
    ],
)
def test_a_goodbye_that_is_told_of_is_none(lang, line):
    assert not says_goodbye(line, lang)


def test_goodbyes_in_circles():
    assert circles_goodbye(["I feel better.", "Thanks, bye!", "Bye, take care!"], "en")
    assert not circles_goodbye(["Thanks, bye!", "Wait, one more thing."], "en")
    assert find_faults("Bye now!", ["Thank you. Goodbye!"], [], "en") == ["it says goodbye in circles"]


def test_repetition_of_the_opening_of_itself_and_of_the_supporter():
    said = ["My dog died last week, and the house is silent.", "He waited at the door every evening."]
    assert find_faults("My dog died last week and the house is silent!", said, [], "en") == ["it repeats its opening"]
    assert find_faults("He waited at the door, every evening.", said, [], "en") == ["it repeats itself"]
    assert find_faults("What was he like to live with?", said, ["What was he like to live with?"], "en") == [
        "it repeats the supporter"
    ]
    assert find_faults("The house is so quiet that I leave the radio on.", said, [], "en") == []
    assert repeats("我又没考上，差了六分。", ["我又没考上差了六分"]) and not repeats("我不敢回家。", ["我又没考上"])
    assert not repeats("Yes.", ["Yes."])
    assert loops("I am tired. I am tired. I am tired!") and not loops("I am tired. Very. I am tired.")


@given(st.text(), st.lists(st.text(), max_size=3), st.sampled_from(["en", "zh"]))
def test_any_line_can_be_checked(text, said, lang):
    faults = find_faults(text, said, said, lang)
    assert all(isinstance(f, str) for f in faults)
    marked, _ = split_marker(text)
    assert "[END]" not in marked
    spoken(text)


@pytest.mark.parametrize(
    "piece", ["thanks, ", "[", "(", '"', "you ", "bye ", "i am here ", "谢谢你，", "好的", "*", "END "]
)
def test_a_long_line_takes_no_time(piece):
    line = piece * (30_000 // len(piece))
    began = time.process_time()
    find_faults(spoken(split_marker(line)[0]), [line], [], "en")
    find_faults(line, [], [line], "zh")
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("Seeker: I am tired.", "I am tired."),
        ("求助者：我累了。", "我累了。"),
        ('"I am tired."', "I am tired."),
        ('"No," she said, "never."', '"No," she said, "never."'),
        ("I am tired. [face: pale]", "I am tired."),
        ("*sighs* I am tired.", "I am tired."),
        ("(sighs) I am tired (really).", "I am tired (really)."),
    ],
)
def test_what_is_spoken_stands_alone(raw, text):
    assert spoken(raw) == text


# ---- speaking


async def test_the_scenarios_opening_comes_first_without_a_call():
    chat = Lines()
    turn = await seeker(chat).speak([])
    cues = tuple(Cue(channel=c, text=CUES[c], source="model:m") for c in ("face", "voice"))
    assert turn == SeekerTurn("I failed it again.", cues, False)
    assert chat.asked == []


async def test_without_an_opening_the_model_is_asked_for_one():
    chat = Lines("Seeker: I failed my exam.")
    assert (await seeker(chat, opening="").speak([])).text == "I failed my exam."
    system, user = chat.asked[0].messages
    assert (system.role, user.role) == ("system", "user")
    assert "I failed an exam." in system.text and "one exam is not a life" in system.text
    assert "[END]" not in system.text


@pytest.mark.parametrize("bad", ["How can I help you?", "I failed it again, I failed it again.", "", "[END]"])
async def test_a_line_out_of_role_is_asked_for_once_more(bad):
    chat = Lines(bad, "I froze in the second part.")
    talk = turns("I failed it again, I failed it again.", "What happened?")
    assert (await seeker(chat).speak(talk)).text == "I froze in the second part."
    first, second = chat.asked
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.seed != second.seed


async def test_a_seeker_out_of_role_twice_is_a_failure():
    with pytest.raises(RecordError) as caught:
        await seeker(Lines("You are not alone.", "How may I help you?")).speak(TALK[:2])
    assert caught.value.kind == "seeker_role"
    assert (caught.value.reason, caught.value.text) == ("it acts as the helper", "How may I help you?")


async def test_a_cut_line_is_asked_for_again_and_a_withheld_one_is_not():
    chat = Lines(Reply("I was", "length"), "I was late.")
    assert (await seeker(chat).speak(TALK[:2])).text == "I was late."
    with pytest.raises(RecordError) as caught:
        await seeker(Lines(Reply("I was", "length"), Reply("I", "length"))).speak(TALK[:2])
    assert caught.value.kind == "truncated"
    chat = Lines(Reply("", "content_filter"), "I was late.")
    with pytest.raises(RecordError) as caught:
        await seeker(chat).speak(TALK[:2])
    assert caught.value.kind == "filtered" and len(chat.asked) == 1


@pytest.mark.parametrize(
    ("line", "text"), [("That helps. [END]", "That helps."), ("[END]", ""), ("Thank you. Bye!", "Thank you. Bye!")]
)
async def test_it_ends_by_marker_or_farewell_once_it_was_heard(line, text):
    turn = await seeker(Lines(line)).speak(TALK[:4])
    assert (turn.text, turn.is_end) == (text, True)


async def test_an_end_before_anything_was_said_is_not_heard():
    turn = await seeker(Lines("Never mind. [END]")).speak(TALK[:2])
    assert (turn.text, turn.is_end) == ("Never mind.", False)


async def test_cues_that_cannot_be_read_are_missing_not_invented():
    turn = await seeker(Lines("I froze.", cues={"face": 3})).speak(TALK[:2])
    assert turn == SeekerTurn("I froze.")


async def test_seeds_hang_on_scenario_turn_and_recipe():
    async def seeds(recipe: Recipe, talk: list[Turn], **fields) -> int | None:
        chat = Lines("I froze.")
        await seeker(chat, recipe, **fields).speak(talk)
        return chat.asked[0].seed

    first = await seeds(LARGE, TALK[:2])
    assert first == await seeds(LARGE, TALK[:2])
    others = {
        await seeds(LARGE, TALK[:4]),
        await seeds(LARGE, TALK[:2], id="s2"),
        await seeds(LARGE.model_copy(update={"seed": 6}), TALK[:2]),
    }
    assert first not in others and len(others) == 3


async def test_a_small_model_hears_one_line_and_is_stopped_after_a_sentence():
    chat = Lines("I froze")
    turn = await seeker(chat, Recipe(llm=Llm(model="embedded"))).speak(TALK[:2])
    assert turn.text == "I froze."
    request = chat.asked[0]
    assert ". " in request.stop
    assert "What happened?" in request.messages[-1].text and "Shame" in request.messages[0].text


async def test_a_chinese_seeker_is_told_in_chinese():
    chat = Lines("我考砸了。")
    await seeker(chat, lang="zh", opening="", situation="期末考试没及格。", intensity="Mild").speak([])
    assert "羞愧（轻微）" in chat.asked[0].messages[0].text
