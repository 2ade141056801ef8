"""Synthesize: a scenario is played turn by turn into a dialogue that says where each turn comes from."""

import json
from collections.abc import Sequence

import pytest

from pipelines.stages.synthesize import synthesize
from ser_toolkit.errors import RecordError
from ser_toolkit.llm.chat import Reply, Request
from ser_toolkit.llm.meter import UsageMeter
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Llm, Recipe, Synthesize
from ser_toolkit.schema import Cue, Label, Scenario, Source, Speaker

SEEKER = ["I keep thinking of Monday.", "He used to wait for me.", "It is so quiet.", "Thank you, that helps. [END]"]
HELPER = ["What happened?", "You miss him.", "Quiet rooms can be loud.", "Come back any time."]


class Players:
    """Both speakers in one: told apart, as a model would, by what the system prompt says."""

    identity, model, vision, languages = "here", "m", False, frozenset()
    context_tokens: int | None = None

    def __init__(self, seeker: Sequence[str | Reply], helper: Sequence[str | Reply]) -> None:
        self.seeker, self.helper = list(seeker), list(helper)
        self.asked: list[tuple[str, Request]] = []
        self.meter = UsageMeter()

    async def complete(self, request: Request) -> Reply:
        if request.schema is not None:
            return Reply(json.dumps({"face": "pale", "voice": ""}))
        who = "seeker" if "You are not the supporter" in request.messages[0].text else "helper"
        self.asked.append((who, request))
        line = getattr(self, who).pop(0)
        return line if isinstance(line, Reply) else Reply(line)

    async def aclose(self) -> None: ...


def scenario(**fields) -> Scenario:
    given = {
        "id": "seeds-dog",
        "lang": "en",
        "source": Source(format="sage", file="p.jsonl", position="line 3", licence="MIT"),
        "situation": "My dog died.",
        "problem": "bereavement",
        "emotion": Label(original="Sadness", ser="Sadness"),
        "speakers": (Speaker(role="seeker", persona="A widower."),),
        "hidden_intention": "wants to tell one good story",
    }
    return Scenario(**{**given, **fields})


async def play(players: Players, max_rounds: int = 6, **fields):
    recipe = Recipe(llm=Llm(model="openai:m"), synthesize=Synthesize(max_rounds=max_rounds))
    (dialogue,) = await synthesize(scenario(**fields), players, recipe, Prompts())
    return dialogue


async def test_the_dialogue_keeps_the_scenario_and_each_turns_origin():
    dialogue = await play(Players(SEEKER, HELPER), opening="My dog died last week.", max_rounds=3)
    assert (dialogue.id, dialogue.root_id, dialogue.scenario_id) == ("syn-seeds-dog", "syn-seeds-dog", "seeds-dog")
    assert dialogue.source == scenario().source
    assert (dialogue.situation, dialogue.problem, dialogue.emotion) == (
        "My dog died.",
        "bereavement",
        Label(original="Sadness", ser="Sadness"),
    )
    assert [(t.speaker, t.text, t.origin) for t in dialogue.turns] == [
        ("seeker", "My dog died last week.", "corpus"),
        ("supporter", "What happened?", "model:m"),
        ("seeker", "I keep thinking of Monday.", "model:m"),
        ("supporter", "You miss him.", "model:m"),
        ("seeker", "He used to wait for me.", "model:m"),
        ("supporter", "Quiet rooms can be loud.", "model:m"),
    ]
    for turn in dialogue.turns:
        seen = (Cue(channel="face", text="pale", source="model:m"),) if turn.speaker == "seeker" else ()
        assert turn.cues == seen


async def test_the_seekers_goodbye_ends_the_talk():
    dialogue = await play(Players(SEEKER, HELPER))
    assert [t.text for t in dialogue.turns][-2:] == ["Quiet rooms can be loud.", "Thank you, that helps."]
    assert len(dialogue.turns) == 7


async def test_a_stop_without_words_adds_no_turn():
    dialogue = await play(Players([*SEEKER[:2], "[END]"], HELPER))
    assert [t.speaker for t in dialogue.turns] == ["seeker", "supporter", "seeker", "supporter"]


async def test_each_sees_the_talk_from_its_own_side_and_the_secret_stays_with_the_seeker():
    players = Players(SEEKER, HELPER)
    await play(players, max_rounds=2)
    views = {who: request.messages for who, request in players.asked}
    assert [(m.role, m.text) for m in views["seeker"][2:]] == [("assistant", SEEKER[0]), ("user", HELPER[0])]
    assert [(m.role, m.text) for m in views["helper"][1:]] == [
        ("user", f"{SEEKER[0]} [face: pale]"),
        ("assistant", HELPER[0]),
        ("user", f"{SEEKER[1]} [face: pale]"),
    ]
    assert "one good story" in views["seeker"][0].text
    assert not any("one good story" in m.text for m in views["helper"])


async def test_every_call_has_a_seed_of_its_own_and_repeats_exactly():
    first, again = Players(SEEKER, HELPER), Players(SEEKER, HELPER)
    assert await play(first) == await play(again)
    seeds = [request.seed for _, request in first.asked]
    assert len(set(seeds)) == len(seeds)
    assert first.asked == again.asked


async def test_the_seeker_that_turns_helper_is_asked_again_then_the_record_fails():
    helped = "How can I help you today?"
    dialogue = await play(Players([SEEKER[0], helped, SEEKER[1]], HELPER), max_rounds=2)
    assert [t.text for t in dialogue.turns if t.speaker == "seeker"] == SEEKER[:2]
    with pytest.raises(RecordError) as caught:
        await play(Players([SEEKER[0], helped, helped], HELPER))
    assert caught.value.kind == "seeker_role"


async def test_the_supporters_cut_line_is_asked_for_again_then_the_record_fails():
    cut = Reply("I am so", "length")
    dialogue = await play(Players(SEEKER, [cut, "What happened?"]), max_rounds=1)
    assert dialogue.turns[1].text == "What happened?"
    with pytest.raises(RecordError) as caught:
        await play(Players(SEEKER, [cut, cut]))
    assert caught.value.kind == "truncated"


async def test_a_supporters_line_of_nothing_but_gestures_is_no_turn():
    with pytest.raises(RecordError) as caught:
        await play(Players(SEEKER, ["*nods*", "[nods]"]))
    assert caught.value.kind == "empty_reply"
