"""Turn by turn: a scenario is played into a dialogue that says where each turn comes from, and why it ended."""

from pathlib import Path

import pytest

from pipelines.stages.synthesis.casting import Draw
from pipelines.stages.synthesis.checks import SupporterRules
from pipelines.stages.synthesis.play import play
from ser_toolkit.errors import RecordError
from ser_toolkit.llm.chat import Reply
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Llm, Protect, Recipe
from ser_toolkit.recipe_synthesis import Synthesize
from ser_toolkit.schema import Cue, Label, Speaker
from tests.synthesis_samples import Players, scenario

SEEKER = ["I keep thinking of Monday.", "He used to wait for me.", "It is so quiet.", "Thank you, that helps. [END]"]
HELPER = ["What happened then?", "You miss him a lot.", "Quiet rooms can be loud.", "Come back any time you like."]


async def made(players, draw=None, *, model="openai:m", protect=True, **settings):
    recipe = Recipe(llm=Llm(model=model), synthesize=Synthesize(**settings), protect=Protect(enabled=protect))
    rules = SupporterRules(recipe, Path())
    dialogue, _ = await play(draw or Draw(scenario=scenario()), players, recipe, Prompts(), rules)
    return dialogue


def told(dialogue):
    return dialogue.meta["synthesis"]


async def test_the_dialogue_keeps_the_scenario_and_each_turns_origin():
    draw = Draw(scenario=scenario(opening="My dog died last week.", intensity="Intense", culture="Norway"))
    dialogue = await made(Players(SEEKER, HELPER), draw, max_rounds=3)
    assert (dialogue.id, dialogue.root_id, dialogue.scenario_id) == ("syn-seeds-dog", "syn-seeds-dog", "seeds-dog")
    assert dialogue.source == scenario().source
    assert (dialogue.situation, dialogue.problem) == ("My dog died.", "bereavement")
    assert dialogue.emotion == Label(original="Sadness", ser="Sadness")
    assert [(t.speaker, t.text, t.origin) for t in dialogue.turns] == [
        ("seeker", "My dog died last week.", "corpus"),
        ("supporter", HELPER[0], "model:m"),
        ("seeker", SEEKER[0], "model:m"),
        ("supporter", HELPER[1], "model:m"),
        ("seeker", SEEKER[1], "model:m"),
        ("supporter", HELPER[2], "model:m"),
    ]
    for turn in dialogue.turns:
        seen = (Cue(channel="face", text="pale", source="model:m"),) if turn.speaker == "seeker" else ()
        assert turn.cues == seen
    assert told(dialogue) == {
        "mode": "turns", "ending": "max_rounds", "feelings": [30, 30, 30], "number": 1, "attempt": 0,
        "intensity": "Intense", "culture": "Norway",
    }  # fmt: skip


async def test_the_seekers_goodbye_ends_the_talk():
    dialogue = await made(Players(SEEKER, HELPER))
    assert [t.text for t in dialogue.turns][-2:] == [HELPER[2], "Thank you, that helps."]
    assert (len(dialogue.turns), told(dialogue)["ending"]) == (7, "goodbye")


async def test_a_stop_without_words_adds_no_turn():
    dialogue = await made(Players([*SEEKER[:2], "[END]"], HELPER))
    assert [t.speaker for t in dialogue.turns] == ["seeker", "supporter", "seeker", "supporter"]
    assert told(dialogue)["ending"] == "goodbye"


@pytest.mark.parametrize(
    ("feelings", "ending", "rounds"),
    [
        ([30, 45, 69, 71, 99], "moved", 4),
        ([99, 99, 70, 70], "moved", 3),
        ([30, 20, 10, 0, 50], "gave_up", 4),
        ([30, 40, 50, 60, 69], "max_rounds", 5),
    ],
)
async def test_the_talk_ends_when_the_seekers_state_has_moved(feelings, ending, rounds):
    lines = [f"{n} {w}, so I stayed there for hours." for n, w in enumerate("abcde")]
    answers = [f"{w} {n}: tell what comes to mind when you think of it" for n, w in enumerate("klmno")]
    dialogue = await made(Players(lines, answers, feelings), max_rounds=5)
    assert told(dialogue)["ending"] == ending
    assert told(dialogue)["feelings"] == feelings[:rounds]
    assert dialogue.turns[-1].speaker == "supporter" and len(dialogue.turns) == 2 * rounds


async def test_the_feeling_so_far_goes_into_the_next_question_for_it():
    players = Players(SEEKER, HELPER, [35, 50, 42])
    draw = Draw(scenario=scenario(intensity="Intense"))
    await made(players, draw, max_rounds=3)
    asked = [r.messages[-1].text for who, r in players.asked if who == "cues"]
    assert [next(n for n in (15, 35, 50) if f"it was {n}." in text) for text in asked] == [15, 35, 50]


async def test_a_feeling_that_cannot_be_read_is_missing_and_changes_nothing():
    players = Players(SEEKER, HELPER, [35, 500, 500, 45])
    dialogue = await made(players, max_rounds=3)
    assert told(dialogue)["feelings"] == [35, None, 45]
    assert "it was 35." in [r for who, r in players.asked if who == "cues"][-1].messages[-1].text


async def test_the_planned_strategy_is_the_turns_label_with_its_source():
    helper = [("Progressive Questioning", HELPER[0]), ("Emotional Mapping", HELPER[1])]
    players = Players(SEEKER, helper)
    dialogue = await made(players, max_rounds=2)
    turns = [t for t in dialogue.turns if t.speaker == "supporter"]
    assert [t.strategies[0].ser for t in turns] == ["Progressive Questioning", "Emotional Mapping"]
    assert all((t.flags, t.origin) == (("planned_strategy",), "model:m") for t in turns)
    assert sum(who == "helper" for who, _ in players.asked) == 2, "planning and speaking are one call"


async def test_without_a_plan_the_supporter_just_speaks():
    players = Players(SEEKER, HELPER)
    dialogue = await made(players, max_rounds=2, plan=False)
    assert [t.strategies for t in dialogue.turns] == [()] * 4 and dialogue.turns[1].flags == ()
    assert "strategy" not in next(r for who, r in players.asked if who == "helper").messages[0].text


async def test_each_sees_the_talk_from_its_own_side_and_the_secret_stays_with_the_seeker():
    players = Players(SEEKER, HELPER)
    people = (Speaker(role="seeker", persona="Dry."), Speaker(role="supporter", persona="Slow to speak."))
    draw = Draw(scenario=scenario(speakers=people))
    await made(players, draw, max_rounds=2)
    views = {who: request.messages for who, request in players.asked}
    assert [(m.role, m.text) for m in views["seeker"][2:]] == [("assistant", SEEKER[0]), ("user", HELPER[0])]
    assert [(m.role, m.text) for m in views["helper"][1:]] == [
        ("user", f"{SEEKER[0]} [face: pale]"),
        ("assistant", HELPER[0]),
        ("user", f"{SEEKER[1]} [face: pale]"),
    ]
    assert "one good story" in views["seeker"][0].text and "Dry." in views["seeker"][0].text
    assert "Slow to speak." in views["helper"][0].text
    assert not any("one good story" in m.text or "Dry." in m.text for m in views["helper"])


async def test_every_call_has_a_seed_of_its_own_and_repeats_exactly():
    first, again = Players(SEEKER, HELPER), Players(SEEKER, HELPER)
    assert await made(first) == await made(again)
    seeds = [request.seed for _, request in first.asked]
    assert len(set(seeds)) == len(seeds)
    assert first.asked == again.asked


async def test_another_play_of_a_scenario_has_other_seeds_manners_and_its_own_opening():
    first, second, retried = (Players([f"{w} is what I think of.", *SEEKER], HELPER) for w in ("Sun", "Rain", "Fog"))
    given = scenario(opening="My dog died last week.")
    one = await made(first, Draw(scenario=given), max_rounds=1)
    two = await made(second, Draw(scenario=given, number=2), max_rounds=1)
    three = await made(retried, Draw(scenario=given, number=2, attempt=1), max_rounds=1)
    assert (two.id, two.root_id, three.id) == ("syn-seeds-dog--2", "syn-seeds-dog", "syn-seeds-dog--2")
    assert (one.turns[0].text, two.turns[0].text) == ("My dog died last week.", "Rain is what I think of.")
    seeds = [{r.seed for _, r in p.asked} for p in (first, second, retried)]
    assert not seeds[0] & seeds[1] and not seeds[1] & seeds[2]
    assert (told(three)["number"], told(three)["attempt"]) == (2, 1)
    assert one.speakers[0].persona == "A widower." and two.speakers[0].persona.startswith("A widower. ")
    assert all(s.attributes["manner"] for s in (*two.speakers, one.speakers[1]))


SPOILT = {
    "seeker_role": (["How can I help you today?"] * 2, []),
    "repetition": ([SEEKER[0]] * 2, []),
    "supporter_role": ([], ["Thank you for listening to me."] * 3),
    "stock_phrase": ([], ["Your feelings are valid, and I'm here for you."] * 3),
    "truncated": ([], [Reply("{", "length")] * 3),
    "empty_reply": ([], ["*nods*", "[nods]", "[END]"]),
}


@pytest.mark.parametrize("kind", SPOILT)
async def test_a_bad_line_is_asked_for_again_and_at_last_the_play_fails_by_its_kind(kind):
    seeker, helper = SPOILT[kind]
    first = [HELPER[0]] if seeker else []
    players = Players([SEEKER[0], *seeker[1:], *SEEKER[1:]], [*first, *helper[1:], *HELPER[1:]])
    dialogue = await made(players, max_rounds=2)
    assert [t.text for t in dialogue.turns if t.speaker == "seeker"] == SEEKER[:2]
    attempts = [r.attempt for who, r in players.asked if who == ("seeker" if seeker else "helper")]
    assert max(attempts) == (2 if seeker else 3) and len({r.seed for _, r in players.asked}) == len(players.asked)
    with pytest.raises(RecordError) as caught:
        await made(Players([SEEKER[0], *seeker], [*first, *helper]), max_rounds=2)
    assert caught.value.kind == kind


async def test_goodbye_in_circles_fails_by_its_own_kind():
    bye = ["I miss him.", "Thanks, goodbye!", "Okay, bye!", "Bye, take care!"]
    with pytest.raises(RecordError) as caught:  # an end before the second answer is not heard
        await made(Players([bye[1], *bye[2:]], HELPER), max_rounds=4)
    assert caught.value.kind == "goodbye_loop"


async def test_a_worn_phrase_is_named_when_the_line_is_asked_for_again():
    players = Players(SEEKER, ["Your feelings are valid, and I'm here for you.", HELPER[0]])
    await made(players, max_rounds=1)
    first, second = (r.messages[0].text for who, r in players.asked if who == "helper")
    assert "worn out" not in first and "your feelings are valid; i'm here for you" in second


async def test_stock_phrases_count_over_the_dialogue():
    worn = ["Your feelings are valid.", "I hear how quiet it is. I'm here for you.", "What is the kitchen like now?"]
    dialogue = await made(Players(SEEKER, worn), max_rounds=2)
    assert dialogue.turns[3].text == worn[2]
    dialogue = await made(Players(SEEKER, worn), max_rounds=2, max_stock_phrases=2)
    assert dialogue.turns[3].text == worn[1]


async def test_a_glued_stop_marker_leaves_the_supporters_words():
    dialogue = await made(Players(SEEKER, ["Tell me about him.[END]", HELPER[1]]), max_rounds=1)
    assert dialogue.turns[1].text == "Tell me about him."


async def test_a_withheld_line_is_not_asked_for_again():
    players = Players(SEEKER, [Reply("", "content_filter"), HELPER[0]])
    with pytest.raises(RecordError) as caught:
        await made(players)
    assert caught.value.kind == "filtered" and sum(who == "helper" for who, _ in players.asked) == 1


async def test_a_crisis_is_marked_and_may_not_be_refused():
    lines = ["Everyone would be better off without me."]
    refusal, warm = "I can't help with that.", "I am glad you said it. Are you safe right now?"
    dialogue = await made(Players(lines, [refusal, warm]), max_rounds=1)
    assert dialogue.turns[1].text == warm
    assert dialogue.risk == "high" and dialogue.turns[0].risk.category == "self_harm"
    with pytest.raises(RecordError) as caught:
        await made(Players(lines, [refusal] * 3), max_rounds=1)
    assert (caught.value.kind, caught.value.request_key) == ("crisis_reply", "key-5")
    dialogue = await made(Players(lines, [refusal]), max_rounds=1, protect=False)
    assert dialogue.risk is None


async def test_a_name_that_a_model_thinks_up_is_replaced_like_any_other():
    dialogue = await made(Players(["My brother Kevin Walsh never calls."], ["Does Kevin know?"]), max_rounds=1)
    assert [t.text for t in dialogue.turns] == ["My brother [NAME_1] never calls.", "Does [NAME_1] know?"]


async def test_the_small_model_is_asked_for_no_more_than_before():
    players = Players(["I froze", "I ran"], ["That is hard", "That is hard"])
    players.seeker = ["I froze", "I ran"]
    small = _SmallPlayers(players)
    dialogue = await made(small, max_rounds=2, model="embedded")
    assert small.kinds == ["line", "cues", "line", "line", "cues", "line"], "three calls a round"
    assert [t.text for t in dialogue.turns] == ["I froze.", "That is hard.", "I ran.", "That is hard."]
    assert dialogue.speakers == scenario().speakers and "feelings" not in told(dialogue)


class _SmallPlayers:
    """The embedded model's view: seeker and supporter speak in turn, cues are chosen."""

    identity, model, vision, languages, context_tokens = "here", "m", False, frozenset({"en"}), 2048

    def __init__(self, players):
        self.players, self.kinds, self.meter = players, [], players.meter

    async def complete(self, request):
        self.kinds.append("cues" if request.schema else "line")
        if request.schema:
            assert set(request.schema["properties"]) == {"face", "voice"}
            return Reply('{"face": "eyes down", "voice": "flat"}')
        lines = self.players.helper if self.kinds.count("line") % 2 == 0 else self.players.seeker
        return Reply(lines.pop(0))

    async def aclose(self): ...
