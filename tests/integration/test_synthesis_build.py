"""Synthesis in whole builds, against a model server that misbehaves in every way: nothing bad stays, none is lost."""

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from pipelines import build
from pipelines.exporting import export
from pipelines.showing import find, render
from pipelines.withdrawing import withdraw
from ser_toolkit import load_release, stock_phrases
from ser_toolkit.errors import DataError, UsageError
from ser_toolkit.near_duplicates import Repeats
from ser_toolkit.releases.splits import check_leakage
from ser_toolkit.schema import Dialogue, Failure, Scenario
from ser_toolkit.seeker_checks import END_MARKER, acts_as_helper
from ser_toolkit.store import read_table
from ser_toolkit.taxonomy import STRATEGIES
from ser_toolkit.workspace import Workspace
from tests.servers.openai_stand_in import StandIn
from tests.servers.synthesis_replies import QUESTION, SEEKS, said

REPLIES = Path(__file__).parents[1] / "servers" / "synthesis_replies.py"
QUICK = ("filter.enabled=false", "sample.rounds=1", "synthesize.max_rounds=2", "failures.max_share=0.1")
MIX = {
    "problem": {"work": 0.35, "family": 0.3, "health": 0.25},
    "emotion": {"Anxiety": 0.4, "Sadness": 0.35, "Anger": 0.25},
    "intensity": {"Mild": 0.2, "Moderate": 0.5, "Intense": 0.3},
    "culture": {"coast": 0.2},
    "lang": {"en": 0.6, "zh": 0.4},
}


def write_scenarios(folder: Path, count: int, lang: str | None = None) -> str:
    """Hand-made scenario seeds of all kinds, mostly of one, as people's seeds are."""
    folder.mkdir()
    draw = random.Random(5)
    rows = []
    for n in range(count):
        tongue = lang or draw.choices(("en", "zh"), (3, 1))[0]
        rows.append(
            {
                "id": f"s{n}", "lang": tongue, "situation": said(draw, tongue, 12), "persona": said(draw, tongue, 5),
                "problem": draw.choices((*MIX["problem"], "other"), (6, 2, 1, 1))[0],
                "emotion": draw.choices(("Sadness", "Anxiety", "Anger", "Shame"), (5, 2, 1, 1))[0],
                "intensity": draw.choices(("Intense", "Moderate", "Mild"), (4, 2, 1))[0],
                "culture": draw.choice(("", "coast", "hills")), "hidden_intention": said(draw, tongue, 5),
                "opening": said(draw, tongue),
            }
        )  # fmt: skip
    (folder / "scenarios.json").write_text(json.dumps(rows), encoding="utf-8")
    return f"seeds:{folder}"


def run(home: Path, server: StandIn, source: str, *sets: str, **options):
    common = [f"llm.base_url={server.base_url}", "llm.identity=here", *QUICK]
    return build(home, sources=[source], model="openai:m", sets=[*common, *sets], quiet=True, **options)


def made(home: Path) -> list[Dialogue]:
    return list(read_table(Workspace(home).table("synthesized"), Dialogue))


def told(dialogue: Dialogue) -> dict:
    return dialogue.meta["synthesis"]  # type: ignore[return-value]


def values(home: Path) -> dict[str, Counter]:
    """The dialogues by what their scenarios say."""
    tables = ("scenarios", "invented")
    scenarios = {s.id: s for t in tables for s in read_table(Workspace(home).table(t), Scenario)}
    of = [scenarios[d.scenario_id or ""] for d in made(home)]
    emotions = Counter(s.emotion.ser for s in of if s.emotion)
    return {"emotion": emotions} | {d: Counter(getattr(s, d) for s in of) for d in MIX if d != "emotion"}


def check_talks(dialogues: list[Dialogue]) -> None:
    """Nothing of what the server does wrong is left."""
    repeats = Repeats()
    for dialogue in dialogues:
        assert repeats.take_dialogue(dialogue) is None, dialogue.id
        for role in ("seeker", "supporter"):
            lines = [t.text for t in dialogue.turns if t.speaker == role]
            assert len(set(lines)) == len(lines), "somebody repeats itself"
        for turn in dialogue.turns:
            assert turn.text and END_MARKER not in turn.text
            if turn.speaker == "seeker":
                assert not acts_as_helper(turn.text, dialogue.lang)
            else:
                assert SEEKS[dialogue.lang] not in turn.text and "Seeker:" not in turn.text
                assert turn.strategies[0].ser in STRATEGIES and turn.flags[:1] == ("planned_strategy",)
        supporter = [t.text for t in dialogue.turns if t.speaker == "supporter"]
        assert sum(len(stock_phrases.find_phrases(t, dialogue.lang)) for t in supporter) <= 1
    by_split = {d.id: ("train", "test")[n % 2] for n, d in enumerate(dialogues)}
    for group in check_leakage(dialogues, by_split).straddling:
        assert group.reasons == ("same root",), "of one scenario, and no copies"


@pytest.mark.parametrize("mode", ["turns", "whole"])
def test_500_dialogues_to_a_mix_without_a_near_duplicate(tmp_path, mode):
    source = write_scenarios(tmp_path / "seeds", 60)
    sets = [f"synthesize.mode={mode}", "synthesize.count=500", "synthesize.per_scenario=6", "seed=3"]
    sets.append(f"synthesize.mix={json.dumps(MIX)}")
    with StandIn(reply=f"{REPLIES}:wild", keep_bodies=False) as server:
        result = run(tmp_path / "w", server, source, *sets, "sample.keep=target", "reason.parts=whole")
        dialogues = made(tmp_path / "w")
        check_talks(dialogues)
        assert 490 <= len(dialogues) <= 500
        found = values(tmp_path / "w")
        for dimension, shares in MIX.items():
            for word, share in shares.items():
                have = found[dimension][word] / len(dialogues)
                assert abs(have - share) <= 0.1 * share, (dimension, word, have)
        assert not any("mix is not met" in n for n in result.notes)
        synthesis = load_release(result.export.made.path).manifest["lineage"]["synthesis"]
        assert (synthesis["planned"], synthesis["made"]) == (500, len(dialogues))
        assert synthesis["invented"] > 50 and synthesis["played_anew"]["near_duplicate"] > 5
        assert sum(synthesis["endings"].values()) == len(dialogues)
        assert {d.lang for d in dialogues} == {"en", "zh"}
        if mode == "turns":
            asked = [t.text for d in dialogues for t in d.turns if any(q in t.text for q in QUESTION.values())]
            assert len(asked) > 10, "a genuine question by a seeker is no change of role"
        before = {p.name: p.read_bytes() for p in (tmp_path / "w" / "tables").glob("*.parquet")}
        again = run(tmp_path / "w", server, source, *sets, "llm.concurrency=3")
        assert (again.calls, again.export.made.content_hash) == (0, result.export.made.content_hash)
        assert {p.name: p.read_bytes() for p in (tmp_path / "w" / "tables").glob("*.parquet")} == before


def test_concurrency_changes_nothing_and_an_interrupted_build_makes_no_second_call(tmp_path):
    source = write_scenarios(tmp_path / "seeds", 12)
    sets = ["synthesize.count=40", "synthesize.per_scenario=3", "synthesize.mix={lang: {zh: 0.5, en: 0.5}}"]
    tables = []
    with StandIn(reply=f"{REPLIES}:wild", keep_bodies=False) as server:
        for name, places in (("a", 1), ("b", 24)):
            whole = run(tmp_path / name, server, source, *sets, f"llm.concurrency={places}")
            tables.append((tmp_path / name / "tables" / "synthesized.parquet").read_bytes())
        calls = server.stats()["calls"] // 2
        assert whole.calls == calls
        server.reset(faults={}, script=["ok"] * 90 + ["401"])  # an end in the middle of it all
        with pytest.raises(Exception, match="401"):
            run(tmp_path / "c", server, source, *sets)
        paid = run(tmp_path / "c", server, source, *sets)
        tables.append((tmp_path / "c" / "tables" / "synthesized.parquet").read_bytes())
        assert paid.calls + paid.replayed == calls
        assert 60 <= paid.replayed < calls  # 90, and what was under way came home
    assert tables[0] == tables[1] == tables[2]


def test_what_is_rejected_to_the_end_is_a_failure_of_its_kind(tmp_path):
    source = write_scenarios(tmp_path / "seeds", 6, "en")
    with StandIn(reply=f"{REPLIES}:broken") as server:
        with pytest.raises(DataError, match="no dialogue to release"):
            run(tmp_path / "w", server, source, "failures.max_share=1", "synthesize.retries=1")
        failures = list(read_table(Workspace(tmp_path / "w").table("failures"), Failure))
        assert Counter(f.kind for f in failures) == {"stock_phrase": 6}
        assert all(f.request_key and "i'm here for you" in f.reason and f.stage == "synthesize" for f in failures)
        keys = [json.dumps(b, sort_keys=True) for b in server.bodies()]
        assert len(set(keys)) == len(keys), "no request is ever sent twice"


def test_the_same_story_over_and_over_is_rejected_not_served_again(tmp_path):
    same = tmp_path / "same.py"
    same.write_text(
        "import json\n\n\ndef reply(body):\n"
        "    form = body['response_format']['json_schema']['schema']['properties']\n"
        "    one = {'seeker': 'I lost my keys on Monday.', 'face': '', 'voice': '', 'feeling': 40, 'strategy':\n"
        "           'Small Talk', 'supporter': 'Where did you look for them?'}\n"
        "    two = {**one, 'seeker': 'On the way to the station.', 'supporter': 'And who was with you there?'}\n"
        "    return json.dumps({'exchanges': [one, two]} if 'exchanges' in form else {})\n",
        encoding="utf-8",
    )
    source = write_scenarios(tmp_path / "seeds", 3, "en")
    sets = ["synthesize.mode=whole", "synthesize.per_scenario=2", "failures.max_share=1", "reason.parts=whole"]
    with StandIn(reply=f"{same}:reply") as server:
        run(tmp_path / "w", server, source, *sets)
        found = list(read_table(Workspace(tmp_path / "w").table("failures"), Failure))
    kinds = Counter(f.kind for f in found if f.stage == "synthesize")
    first = [d.id for d in made(tmp_path / "w")]
    assert first[:3] == ["syn-seeds-s0", "syn-seeds-s0--2"][: len(first)] or len(first) <= 4
    assert kinds["near_duplicate"] == 6 - len(first) and kinds["near_duplicate"] >= 2
    assert all("as in syn-" in f.reason for f in found if f.kind == "near_duplicate")


def test_withdrawing_a_dialogue_or_an_invented_scenario_lasts(tmp_path):
    source = write_scenarios(tmp_path / "seeds", 3, "en")
    sets = ["synthesize.count=6", "synthesize.retries=3"]
    home = Workspace(tmp_path / "w")
    with StandIn(reply=f"{REPLIES}:good") as server:
        run(home.root, server, source, *sets)
        invented = [s.id for s in read_table(home.table("invented"), Scenario)]
        assert len(invented) == 3 and len(made(home.root)) == 6
        assert "invented" in render(find(home, invented[0])).replace("\n", " ")
        assert withdraw(home, "syn-seeds-s1").rows
        gone = withdraw(home, invented[0])
        assert gone.ids == tuple(sorted((invented[0], f"syn-{invented[0]}"))) and gone.replies > 2
        left = {d.id for d in made(home.root)}
        assert not left & {"syn-seeds-s1", *gone.ids} and len(left) == 4
        export(home)
        result = run(home.root, server, source, *sets)
        assert {d.id for d in made(home.root)} == left
        assert any("2 of 6 dialogues" in n and "withdrawn" in n for n in result.notes)


def test_an_invented_dialogue_is_released_with_its_licence(tmp_path):
    source = write_scenarios(tmp_path / "seeds", 1, "en")
    with StandIn(reply=f"{REPLIES}:good") as server:
        result = run(tmp_path / "w", server, source, "synthesize.count=4", "synthesize.licence=CC-BY-4.0")
    release = load_release(result.export.made.path)
    rows = {r["source_format"]: r for r in release.frame("dialogues").to_dicts()}
    assert (rows["seeds"]["licence"], rows["invented"]["licence"]) == ("Apache-2.0", "CC-BY-4.0")
    meta = json.loads(rows["invented"]["meta"])["synthesis"]
    assert meta["ending"] in {"max_rounds", "moved"} and meta["mode"] == "turns"
    assert "stock_phrases" in release.manifest["lineage"]["recipe"]["synthesize"]


def test_a_list_of_stock_phrases_that_is_not_there_is_told_before_any_call(tmp_path):
    source = write_scenarios(tmp_path / "seeds", 1, "en")
    with StandIn(reply=f"{REPLIES}:good") as server:
        with pytest.raises(UsageError, match=r"synthesize\.stock_phrases\.en"):
            run(tmp_path / "w", server, source, "synthesize.stock_phrases={en: none.txt}")
        assert server.stats()["calls"] == 0


@pytest.mark.parametrize(
    ("source", "lang", "has_opening", "has_intention"),
    [
        ("sage:sage/test_profile.jsonl", "zh", True, True),
        ("esc-eval:esc_eval/card_high_zh.json", "zh", False, False),
        ("esc-eval:esc_eval/card_high_en.json", "en", False, False),
        ("esc-judge:esc_judge/roles-v1.json", "en", False, False),
    ],
)
def test_profiles_and_cards_are_played_as_they_say(tmp_path, shared_data, source, lang, has_opening, has_intention):
    format, _, file = source.partition(":")
    with StandIn(reply=f"{REPLIES}:good") as server:
        run(tmp_path / "w", server, f"{format}:{shared_data / file}", limit=4)
        bodies = [b for b in server.bodies() if "response_format" not in b]
    scenarios = {s.id: s for s in read_table(Workspace(tmp_path / "w").table("scenarios"), Scenario)}
    dialogues = made(tmp_path / "w")
    assert len(dialogues) == len(scenarios) == 4
    systems = [b["messages"][0]["content"] for b in bodies]
    for dialogue in dialogues:
        scenario = scenarios[dialogue.scenario_id or ""]
        assert dialogue.lang == scenario.lang == lang and (dialogue.turns[0].origin == "corpus") is has_opening
        mine = [s for s in systems if " ".join(scenario.situation.split()) in s]
        persona = " ".join(scenario.speakers[0].persona.split())
        assert mine and all(persona in s for s in mine)
        if has_opening:
            assert dialogue.turns[0].text == " ".join(scenario.opening.split())
        assert bool(scenario.hidden_intention) is has_intention
        assert all(" ".join(scenario.hidden_intention.split()) in s for s in mine)
        if lang == "zh":
            assert all(c >= "\u4e00" for t in dialogue.turns for c in t.text if c.isalpha() and ord(c) > 255)
            assert not any(w in "".join(t.text for t in dialogue.turns) for w in ("the ", "and "))
