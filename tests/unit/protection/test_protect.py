"""The stage: nothing private is left anywhere in a record, crises are marked, and a second pass changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.sources import cpsycoun, esconv, mesc
from pipelines.sources.base import ReadContext, SourceFormat
from pipelines.stages.protect import ProtectCounts, protect, supporter_may_be_imitated
from ser_toolkit.recipe import Protect, SourceSpec
from ser_toolkit.schema import Cue, Dialogue, Failure, Json, Label, Scenario, Source, Speaker, Turn
from ser_toolkit.store import read_table, write_table

ON = Protect()
SOURCE = Source(format="test", file="a.json", position="record 1")
SECRETS = ("Zebediah", "zebediah", "Quux", "quux", "5552671", "555-2671", "Elm Street", "wolf_2020")


def dialogue(*texts: str, **fields: object) -> Dialogue:
    turns = tuple(
        Turn(speaker="supporter" if i % 2 else "seeker", text=text) if isinstance(text, str) else text
        for i, text in enumerate(texts)
    )
    base = {"id": "d1", "root_id": "d1", "lang": "en", "source": SOURCE, "turns": turns}
    return Dialogue.model_validate({**base, **fields})


META: Json = {
    "survey": {"note": "Zebediah was upset, 415-555-2671"},
    "handles": ["@wolf_2020", 3, None, True],
    "name": "zebediah quux",
    "count": 7,
}


def test_nothing_private_is_left_in_any_field_of_a_dialogue():
    record = dialogue(
        "Hi, I'm Zebediah.",
        "Hello Zebediah, what happened?",
        situation="Zebediah Quux lives at 22 Elm Street.",
        problem="breakup, mail z.quux@example.org",
        emotion=Label(original="sad about Zebediah"),
        speakers=(Speaker(role="seeker", persona="name: zebediah quux", attributes={"name": "Zebediah Quux"}),),
        meta=META,
    )
    turn = record.turns[0].model_copy(
        update={
            "raw": "Hi, I'm Zebediah.\n",
            "cues": (Cue(channel="face", text="Zebediah frowns.", source="rule:x"),),
            "strategies": (Label(original="asks Zebediah"),),
        }
    )
    made, counts = protect(record.model_copy(update={"turns": (turn, *record.turns[1:])}), ON)
    text = made.model_dump_json()
    assert not [s for s in SECRETS if s in text]
    assert made.turns[0].text == "Hi, I'm [NAME_1]." and made.turns[0].raw == "Hi, I'm [NAME_1].\n"
    assert made.turns[1].text == "Hello [NAME_1], what happened?"
    assert made.speakers[0].attributes == {"name": "[NAME_1]"}
    assert made.meta["count"] == 7 and made.meta["handles"] == ["[HANDLE_1]", 3, None, True]
    assert "pii_redacted" in made.turns[0].flags
    assert counts.spans["name"] >= 6 and counts.spans["phone"] == 1 and counts.spans["address"] == 1


def test_a_record_without_anything_private_comes_back_equal():
    record = dialogue("I failed my exam.", "That hurts. What weighs most?", meta={"k": ["v", {"n": 1}]})
    made, counts = protect(record, ON)
    assert made == record
    assert made.turns[0] is record.turns[0]
    assert counts == ProtectCounts()


def test_raw_that_hides_a_find_is_dropped_and_said_so():
    turn = Turn(speaker="seeker", text="I’m José Quux.", raw="Iâ€™m JosÃ© Qu\\x75x.", flags=("mojibake_repaired",))
    made, counts = protect(dialogue(turn), ON)  # type: ignore[arg-type]
    assert made.turns[0].text == "I’m [NAME_1]." and made.turns[0].raw is None
    assert made.turns[0].flags == ("mojibake_repaired", "pii_redacted", "raw_dropped")
    assert counts.raw_dropped == 1


def test_raw_with_a_glued_cue_keeps_its_shape():
    turn = Turn(
        speaker="seeker",
        text="I miss Sarah.",
        raw="I miss Sarah. The speaker thinks of Sarah.",
        cues=(Cue(channel="mixed", text="The speaker thinks of Sarah.", source="rule:x"),),
    )
    made, _ = protect(dialogue(turn), ON)  # type: ignore[arg-type]
    assert made.turns[0].raw == "I miss [NAME_1]. The speaker thinks of [NAME_1]."


def test_crisis_is_marked_by_turn_and_by_dialogue():
    made, counts = protect(
        dialogue("I feel bad.", "Are you thinking of killing yourself?", "I can't go on. I want to die, Tom."), ON
    )
    assert made.turns[0].risk is None
    risk = made.turns[2].risk
    assert risk is not None and (risk.level, risk.category) == ("high", "self_harm")
    assert made.turns[2].text[risk.start : risk.end] == "want to die"
    assert made.risk == "high" and counts.risk == {"high": 1}


def test_a_supporter_that_asks_is_a_concern_at_most():
    made, _ = protect(dialogue("I feel bad.", "Do you want to die? Are you suicidal?"), ON)
    assert made.turns[1].risk is not None and made.turns[1].risk.level == "high"
    assert made.risk == "concern"


def test_imitation_is_the_recipes_choice():
    made, _ = protect(dialogue("I want to die."), ON)
    assert not supporter_may_be_imitated(made, ON)
    assert supporter_may_be_imitated(made, Protect(imitate_crisis=True))
    assert supporter_may_be_imitated(dialogue("I failed my exam."), ON)


def test_a_scenario():
    record = Scenario(
        id="s1",
        lang="zh",
        source=SOURCE,
        situation="林雨欣最近总是失眠，电话13812345678。",
        opening="我不想活了。",
        hidden_intention="希望有人理解林雨欣",
        speakers=(Speaker(role="seeker", persona="* 姓名：林雨欣\n* 年龄：22岁", attributes={"姓名": "林雨欣"}),),
        meta={"player": "雨欣"},
    )
    made, counts = protect(record, ON)
    assert "雨欣" not in made.model_dump_json() and "138" not in made.model_dump_json()
    assert made.speakers[0].persona == "* 姓名：[NAME_1]\n* 年龄：22岁"
    assert made.risk == "high" and counts.risk == {"high": 1}


@pytest.mark.parametrize(
    ("text", "left", "dropped"),
    [
        ("user: I'm Zebediah, 415-555-2671", "user: I'm [NAME_1], [PHONE_1]", 0),
        ('{"User": "\\u6211\\u53eb\\u738b\\u5c0f\\u660e"}', "", 1),
        ("I\\xe2\\x80\\x99m Zebediah", "", 1),
        ("I'm Zebediah \ufffd", "", 1),
        ("", "", 0),
    ],
)
def test_a_failure_keeps_file_and_position_and_no_more(text: str, left: str, dropped: int):
    record = Failure(
        kind="unknown_speaker", stage="import", reason="turn 3: 'Sarah' is no speaker", file="a.json",
        position="record 3", text=text, record_id="d1",
    )  # fmt: skip
    made, counts = protect(record, ON)
    assert made.text == left and counts.text_dropped == dropped
    assert "Sarah" not in made.reason and made.reason.startswith("turn 3: '[NAME_")
    assert (made.file, made.position, made.record_id) == ("a.json", "record 3", "d1")


def test_a_failures_risk_is_kept_or_found():
    base = Failure(kind="filtered", stage="reason", reason="withheld", risk="imminent")
    assert protect(base, ON)[0].risk == "imminent"
    assert protect(base.model_copy(update={"risk": None, "text": "I want to die"}), ON)[0].risk == "high"


def test_switched_off_the_record_is_left_alone():
    record = dialogue("I'm Zebediah and I want to die.")
    made, counts = protect(record, Protect(enabled=False))
    assert made is record and counts == ProtectCounts()


def test_counts_add_up():
    total = ProtectCounts()
    for text in ("I'm Tom.", "I want to die.", "I'm Ann, 415-555-2671."):
        total += protect(dialogue(text), ON)[1]
    assert total.spans == {"name": 2, "phone": 1} and total.risk == {"high": 1}
    assert json.dumps(total.spans) == '{"name": 2, "phone": 1}'


def test_protected_records_fit_the_tables(tmp_path: Path):
    made, _ = protect(dialogue("I'm Zebediah. I want to die.", "I hear you.", meta=META), ON)
    write_table(tmp_path / "t.parquet", Dialogue, [made])
    assert list(read_table(tmp_path / "t.parquet", Dialogue)) == [made]


@pytest.mark.parametrize(("fmt", "name"), [(esconv.FORMAT, "esconv/FailedESConv.json"), (mesc.FORMAT, "mesc/test.txt")])
def test_real_dialogues_are_protected_once_and_for_all(shared_data: Path, fmt: SourceFormat, name: str):
    path = shared_data / name
    records = [*fmt.read(path, ReadContext(SourceSpec(format=fmt.name, path=str(path))))][:40]
    once = [protect(r, ON) for r in records]
    assert [protect(made, ON)[0] for made, _ in once] == [made for made, _ in once]
    assert [len(made.turns) for made, _ in once if isinstance(made, Dialogue)] == [
        len(r.turns) for r in records if isinstance(r, Dialogue)
    ]


def test_little_is_taken_from_real_chinese_dialogues_that_hold_few_names(shared_data: Path):
    path = shared_data / "cpsycoun"
    records = [*cpsycoun.FORMAT.read(path, ReadContext(SourceSpec(format="cpsycoun", path=str(path))))]
    total = ProtectCounts()
    for record in records:
        total += protect(record, ON)[1]
    turns = sum(len(r.turns) for r in records if isinstance(r, Dialogue))
    assert 0 < sum(total.spans.values()) < 0.12 * turns
