"""What all importers of corpora share; and that no JSON whatever makes one of them raise."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.sources import avamerg, cpsycoun, esconv, escot, extes, mesc, profiles, smilechat
from pipelines.sources.base import ReadContext
from pipelines.sources.words import Words, own_id, score
from ser_toolkit.errors import RecordError
from ser_toolkit.recipe import SourceSpec
from ser_toolkit.schema import Dialogue, Failure, Label, Scenario

FORMATS = [
    *(m.FORMAT for m in (avamerg, cpsycoun, escot, esconv, extes, mesc, smilechat)),
    profiles.SAGE,
    profiles.ESC_EVAL,
    profiles.ESC_JUDGE,
]


@pytest.mark.parametrize(
    ("value", "number"),
    [("4", 4), (" 4 ", 4), (4, 4), (4.0, 4), (None, None), ("", None), ("None", None), ("nan", None), ("-1", -1)],
)
def test_a_score_is_a_whole_number_or_missing(value, number):
    assert score({"x": value}, "x") == number and score({}, "x") is None


@pytest.mark.parametrize("value", ["four", "4.5", 4.5, True, [4], {}])
def test_a_score_that_is_no_whole_number_is_no_score(value):
    with pytest.raises(RecordError, match="'x'"):
        score({"x": value}, "x")


def test_an_id_is_a_text_or_a_number():
    assert [own_id(v) for v in ("a", 7, True, None, [1])] == ["a", "7", None, None, None]


def test_words_of_the_recipe_and_a_workspace_go_before_the_map(tmp_path):
    (tmp_path / "esconv.toml").write_text('[speakers]\nseeker = ["caller"]\n', encoding="utf-8")
    words = Words("esconv", ReadContext(SourceSpec(format="esconv", roles={"speaker": "supporter"}), tmp_path))
    assert [words.role(w, "turn 1") for w in ("caller", "Speaker", "listener")] == ["seeker", "supporter", "supporter"]
    assert words.known_role("nobody") is None
    for nobody in ("nobody", "system"):
        with pytest.raises(RecordError) as caught:
            words.role(nobody, "turn 1")
        assert (caught.value.kind, caught.value.text) == ("unknown_speaker", nobody)


def test_labels_come_from_a_word_a_list_or_nothing():
    words = Words("esconv", ReadContext(SourceSpec(format="esconv")))
    question = Label(original="Question", corpus="Question", ser="Progressive Questioning")
    assert words.strategies("Question") == words.strategies(["Question", None, "n/a"]) == (question,)
    assert words.strategies(None) == words.strategies([]) == words.emotions("") == ()
    assert (words.problem("Job Crisis"), words.problem("moving"), words.problem(None)) == ("job crisis", "moving", "")


KEYS = st.sampled_from(
    [
        "dialog",
        "original_data",
        "cot_data",
        "content",
        "speaker",
        "role",
        "text",
        "annotation",
        "strategy",
        "feedback",
        "survey_score",
        "seeker",
        "User",
        "AI",
        "turns",
        "dialogue_history",
        "utterance",
        "response",
        "chain_of_empathy",
        "speaker_profile",
        "conversation_id",
        "id",
        "player",
        "scene",
        "task",
        "base",
        "language",
        "challenge",
        "pid",
        "label",
        "emotion",
        "problem_type",
    ]
)
LEAVES = st.sampled_from(
    [None, True, 0, 7, 1.5, "", "x", "seeker", "supporter", "client", "来访者：嗯", "Question", "3"]
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=20
)


@pytest.mark.parametrize("format", FORMATS, ids=lambda f: f.name)
@given(records=st.lists(VALUES, min_size=1, max_size=4))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_every_record_becomes_one_result_and_nothing_raises(tmp_path, format, records):
    file = tmp_path / "a.json"
    file.write_text(json.dumps(records), encoding="utf-8")
    results = list(format.read(file, ReadContext(SourceSpec(format=format.name))))
    assert all(isinstance(r, Dialogue | Scenario | Failure) for r in results)
    assert len(results) == (1 if format.name == "smilechat" else len(records))
