"""The rules that every format shares: texts, empty turns, role tags, neighbours, one side, language, ids."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.sources.base import Imported, ReadContext
from pipelines.sources.finish import make_dialogue, member, read_records
from pipelines.sources.reading import Raw
from pipelines.sources.text_repair import clean_text, detect_lang, repair_mojibake
from pipelines.sources.turn_rules import merge_neighbours, role_of, split_role_tags
from ser_toolkit.errors import RecordError
from ser_toolkit.recipe import SourceSpec
from ser_toolkit.schema import Cue, Dialogue, Failure, Label, Media, Turn
from ser_toolkit.taxonomy import LabelMap

RAW = Raw({"id": "r", "x": 1}, "a.json", "record 3")
CUE = Cue(channel="face", text="smiles", source="corpus:x")
MEDIUM = Media(kind="image", path="a.png")


def seeker(text: str, **more: Any) -> Turn:
    return Turn(speaker="seeker", text=text, **more)


def supporter(text: str, **more: Any) -> Turn:
    return Turn(speaker="supporter", text=text, **more)


def finish(
    turns: Sequence[Turn], raw: Raw = RAW, own_id: str | None = "7", fields: Any = None, **spec: Any
) -> Imported:
    context = ReadContext(SourceSpec(format="x", **spec))
    (found,) = read_records(
        [raw],
        "x",
        lambda raw: make_dialogue(raw, "x", "MIT", context, turns=turns, own_id=own_id, **(fields or {})),
    )
    return found


def finished(turns: Sequence[Turn], **more: Any) -> Dialogue:
    found = finish(turns, **more)
    assert isinstance(found, Dialogue)
    return found


TALK = (seeker("I lost my job."), supporter("That is hard."))


# Ids, source, language


def test_a_dialogue_knows_where_it_comes_from() -> None:
    found = finished(TALK)
    assert (found.id, found.root_id) == ("x-7", "x-7")
    assert found.source.model_dump() == {"format": "x", "file": "a.json", "position": "record 3", "licence": "MIT"}
    assert finished(TALK, licence="CC0-1.0").source.licence == "CC0-1.0"


def test_a_record_without_an_id_gets_one_from_its_content() -> None:
    first = finished(TALK, own_id=None)
    assert first.id == finished(TALK, own_id=" ", raw=Raw({"x": 1, "id": "r"}, "b.json", "")).id
    assert first.id != finished(TALK, own_id=None, raw=Raw({"id": "r", "x": 2}, "a.json", "")).id


@pytest.mark.parametrize(
    ("text", "lang"),
    [
        ("I like 火锅 a lot, really.", "en"),
        ("我在 Google 上班，很累。", "zh"),
        ("", "en"),
        ("123 …", "en"),
        ("嗯", "zh"),
    ],
)
def test_the_language_is_told_from_the_characters(text: str, lang: str) -> None:
    assert detect_lang([text, ""]) == lang


def test_the_recipe_says_the_language() -> None:
    assert finished(TALK).lang == "en"
    assert finished(TALK, lang="zh").lang == "zh"


# Failures


def test_whatever_a_parser_meets_is_a_failure_of_its_record() -> None:
    def parse(raw: Raw) -> Dialogue:
        if raw.value == 0:
            raise RecordError("malformed", "no turns", text="x" * 900)
        if raw.value == 1:
            raise RecursionError
        return Dialogue(**raw.value)

    values = [0, 1, {"id": 5}, {"id": "a", "root_id": "a", "lang": "fr"}, 7]
    found = list(read_records([Raw(v, "a", f"record {n}") for n, v in enumerate(values)], "x", parse))
    assert [failure.kind for failure in found if isinstance(failure, Failure)] == ["malformed"] * 5
    assert [failure.position for failure in found if isinstance(failure, Failure)] == [f"record {n}" for n in range(5)]
    assert isinstance(found[0], Failure)
    assert len(found[0].text) == 500


def test_a_fault_of_ours_is_no_failure() -> None:
    def parse(raw: Raw) -> Dialogue:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(read_records([RAW], "x", parse))


def test_failures_of_reading_pass_through_in_their_place() -> None:
    bad = Failure(kind="unreadable", stage="import", reason="torn")
    context = ReadContext(SourceSpec(format="x"))
    found = read_records([bad, RAW, bad], "x", lambda raw: make_dialogue(raw, "x", "MIT", context, turns=TALK))
    assert [isinstance(record, Failure) for record in found] == [True, False, True]


def test_member_names_what_is_missing_and_where() -> None:
    assert member({"a": 5}, "a", int) == 5
    for record, kind in ((5, int), ({"b": 1, "c": 2}, int), ({"a": "x"}, int), ({"a": True}, int)):
        with pytest.raises(RecordError) as error:
            member(record, "a", kind, "turn 2")
        assert error.value.kind == "malformed"
        assert "turn 2" in error.value.reason
    with pytest.raises(RecordError, match="it has: b, c"):
        member({"b": 1, "c": 2}, "a", int)


# Empty, one-sided


def test_empty_turns_are_dropped_and_counted_unless_they_hold_something() -> None:
    found = finished([*TALK, seeker(" \n"), seeker("", cues=(CUE,)), supporter("", media=(MEDIUM,)), supporter("\t")])
    assert [turn.text for turn in found.turns] == ["I lost my job.", "That is hard.", "", ""]
    assert found.flags == ("empty_turns_dropped:2",)


@pytest.mark.parametrize("turns", [[], [seeker(" ")], [seeker("", cues=(CUE,))]])
def test_a_dialogue_without_a_text_is_empty(turns: list[Turn]) -> None:
    found = finish(turns)
    assert isinstance(found, Failure)
    assert (found.kind, found.record_id) == ("empty", "r")


@pytest.mark.parametrize("turns", [[seeker("Hello?"), seeker("Anyone?")], [supporter("Hi"), seeker("  ")]])
def test_a_dialogue_of_one_speaker_is_refused(turns: list[Turn]) -> None:
    found = finish(turns)
    assert isinstance(found, Failure)
    assert found.kind == "one_sided"
    assert turns[0].speaker in found.reason


# Texts


def test_outer_white_space_goes_and_the_raw_text_stays() -> None:
    found = finished([seeker("Hi, how was the move?\n"), supporter("Good.", raw="Good. [smiles]")])
    first = found.turns[0]
    assert (first.text, first.raw, first.flags) == ("Hi, how was the move?", "Hi, how was the move?\n", ())
    assert found.turns[1].raw == "Good. [smiles]"


def test_a_mended_situation_is_flagged_and_kept_raw() -> None:
    found = finished(TALK, fields={"situation": "It\u00e2\u20ac\u2122s over. "})
    assert found.situation == "It’s over."
    assert found.flags == ("situation_mojibake_repaired",)
    assert found.meta == {"situation_raw": "It\u00e2\u20ac\u2122s over. "}


@pytest.mark.parametrize(
    ("broken", "whole"),
    [
        ("I\u00e2\u20ac\u2122m", "I’m"),
        (r"I\xe2\x80\x99m \xe5\xa5\xbd", "I’m 好"),
        ("CafÃ© and naÃ¯ve", "Café and naïve"),
        ("ä½\xa0å¥½", "你好"),
    ],
)
def test_mojibake_is_read_rightly(broken: str, whole: str) -> None:
    assert repair_mojibake(broken) == whole
    assert repair_mojibake(whole) == whole


@pytest.mark.parametrize(
    "clean",
    [
        "我很难过，“真的”……ＡＢＣ１２３　😀👩‍👩‍👧 〜～",
        "It’s “fine” — really… ﬁne ™ ½ é ñ",
        "C:\\xampp \\x41 \\xe2 (a lone byte)",
        "ｆｕｌｌ width １２３！？",
        "Привет, Ελλάδα, ça va?",
        "<b>&amp; &lt;</b>",
    ],
)
def test_a_clean_text_is_never_mended(clean: str) -> None:
    assert repair_mojibake(clean) == clean


@settings(deadline=None)
@given(
    st.text(
        st.characters(codec="utf-8", categories=("Lo", "So", "Po", "Pd", "Pi", "Pf")) | st.sampled_from("我很 abc‍😀\n")
    )
)
def test_chinese_and_emoji_of_any_kind_pass_untouched(text: str) -> None:
    han = "".join(c for c in text if c >= "\u2000" or c.isascii())
    assert repair_mojibake(han) == han


@settings(deadline=None)
@given(st.text())
def test_cleaning_is_done_once(text: str) -> None:
    once = clean_text(text, repair=False)
    again = clean_text(once.text, repair=False)
    assert again.text == once.text
    assert "control_chars_removed" not in again.flags


# Role tags

TAGGED = "I am sad.\nSupporter: Why?\n  **Seeker：** It is over.\nsupporter : Oh."


def test_role_tags_are_quarantined_with_the_text() -> None:
    found = finish([seeker(TAGGED), supporter("x")])
    assert isinstance(found, Failure)
    assert (found.kind, found.text) == ("role_tags", TAGGED)
    assert "role_tags: split" in found.reason


def test_role_tags_are_split_on_request_and_the_original_kept() -> None:
    strategy = (Label(original="Question"),)
    found = finished([seeker(TAGGED, feedback=4, cues=(CUE,)), supporter("x", strategies=strategy)], role_tags="split")
    assert [(turn.speaker, turn.text) for turn in found.turns] == [
        ("seeker", "I am sad."),
        ("supporter", "Why?"),
        ("seeker", "It is over."),
        ("supporter", "Oh."),
        ("supporter", "x"),
    ]
    first, second = found.turns[:2]
    assert (first.raw, first.feedback, first.cues, first.flags) == (TAGGED, 4, (CUE,), ("split_from_role_tags",))
    assert (second.raw, second.feedback, second.cues) == (None, None, ())
    assert found.turns[-1].strategies == strategy


def test_labels_go_to_the_part_of_the_turns_own_speaker() -> None:
    parts = split_role_tags(supporter("来访者：我很累\n心理咨询师: 怎么了？", strategies=(Label(original="Q"),)))
    assert [(part.speaker, part.text, len(part.strategies)) for part in parts] == [
        ("seeker", "我很累", 0),
        ("supporter", "怎么了？", 1),
    ]
    assert parts[0].raw == "来访者：我很累\n心理咨询师: 怎么了？"


@pytest.mark.parametrize(
    "text",
    [
        "Note: this is hard.",
        "My therapist: she is nice.",
        "I told him: user friendly it is not.",
        "The supporter said: hello",
        "Supporters: we need them",
        "Therapist or not, I go: now.",
        "我的咨询师：她很好",
        "at 10:30\nclient meeting: cancelled",
    ],
)
def test_a_genuine_sentence_is_no_role_tag(text: str) -> None:
    assert split_role_tags(seeker(text)) == (seeker(text),)


def test_the_recipes_own_role_words_are_tags_too() -> None:
    parts = split_role_tags(seeker("Hi\nHelper A: yes"), {"Helper A": "supporter"})
    assert [(part.speaker, part.text) for part in parts] == [("seeker", "Hi"), ("supporter", "yes")]


def test_a_turn_of_nothing_but_a_tag_is_dropped_when_split() -> None:
    found = finished([seeker("Seeker: "), *TALK], role_tags="split")
    assert [turn.text for turn in found.turns] == [turn.text for turn in TALK]


# Neighbours

TURNS = st.lists(
    st.builds(
        Turn,
        speaker=st.sampled_from(["seeker", "supporter"]),
        text=st.text("ab \n", max_size=5),
        strategies=st.lists(st.builds(Label, original=st.sampled_from("PQ")), max_size=2).map(tuple),
        emotions=st.lists(st.builds(Label, original=st.sampled_from("EF")), max_size=2).map(tuple),
        feedback=st.none() | st.integers(1, 5),
        cues=st.sampled_from([(), (CUE,)]),
        media=st.sampled_from([(), (MEDIUM,)]),
    ),
    max_size=8,
)


@settings(deadline=None)
@given(TURNS)
def test_merging_loses_no_label_cue_medium_or_word(turns: list[Turn]) -> None:
    merged = merge_neighbours(turns)
    assert all(a.speaker != b.speaker for a, b in pairwise(merged))
    for name in ("strategies", "emotions", "cues", "media"):
        before = [entry for turn in turns for entry in getattr(turn, name)]
        assert [entry for turn in merged for entry in getattr(turn, name)] == before
    assert "".join(t.text for t in merged).replace("\n", "") == "".join(t.text for t in turns).replace("\n", "")
    assert merge_neighbours(merged) == merged


def test_merging_keeps_the_last_feedback_and_says_so() -> None:
    one, several = (
        merge_neighbours([seeker("a", feedback=3), seeker("b")]),
        merge_neighbours(
            [
                seeker("a", feedback=3, start_s=1.0, end_s=2.0),
                seeker("b", feedback=5, raw="b\n", start_s=2.0, end_s=4.0),
            ]
        ),
    )
    assert (one[0].feedback, one[0].flags, one[0].raw, one[0].text) == (3, (), None, "a\nb")
    assert (several[0].feedback, several[0].flags, several[0].raw) == (5, ("feedback_merged",), "a\nb\n")
    assert (several[0].start_s, several[0].end_s) == (1.0, 4.0)


def test_neighbours_are_kept_unless_the_recipe_merges() -> None:
    turns = [seeker("a"), seeker("b"), supporter("c")]
    assert len(finished(turns).turns) == 3
    assert [turn.text for turn in finished(turns, neighbours="merge").turns] == ["a\nb", "c"]


# Speakers


def test_a_speaker_is_told_by_recipe_then_map_then_common_words() -> None:
    labels = LabelMap(speakers={"guide": "supporter", "narrator": "system", "user": "supporter"})
    assert role_of("Client", "turn 1", {}, LabelMap()) == "seeker"
    assert role_of("USER", "turn 1", {}, labels) == "supporter"
    assert role_of("Guide", "turn 1", {"guide": "seeker"}, labels) == "seeker"
    assert role_of("Narrator", "turn 1", {}, labels) == "system"
    assert role_of("心理咨询师", "turn 1", {}, labels) == "supporter"
    assert role_of(0, "turn 1", {"0": "seeker"}, labels) == "seeker"
    with pytest.raises(RecordError) as error:
        role_of("Zorg", "turn 4", {}, labels)
    assert (error.value.kind, error.value.text) == ("unknown_speaker", "Zorg")
    assert "turn 4" in error.value.reason
    assert "roles: {Zorg: seeker}" in error.value.reason
