"""The label maps that ship, and how a map is read, overridden and refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ser_toolkit.errors import UsageError
from ser_toolkit.schema import Label
from ser_toolkit.taxonomy import EMOTIONS, MAPS, STAGE_OF, STAGES, STRATEGIES, ZH, fold, load_map

SHIPPED = sorted(file.stem for file in MAPS.glob("*.toml"))


def test_eight_strategies_in_three_stages_each_with_a_chinese_word():
    assert (len(STRATEGIES), len(set(STRATEGIES)), len(STAGES), len(EMOTIONS)) == (8, 8, 3, 11)
    assert STAGE_OF["Emotional Mapping"] == "Reassurance"
    assert all(word in ZH for word in (*STAGES, *STRATEGIES, *EMOTIONS))
    assert len(set(ZH.values())) == len(ZH)


def test_a_map_ships_for_each_corpus():
    assert set(SHIPPED) >= {"esconv", "mesc", "escot", "extes", "cpsycoun", "smilechat", "avamerg"}


@pytest.mark.parametrize("corpus", SHIPPED)
def test_every_shipped_map_loads_and_names_both_speakers(corpus):
    labels = load_map(corpus)
    assert {"seeker", "supporter"} <= set(labels.speakers.values()) or corpus == "photos"  # names of folders alone
    assert {ser for _, ser in labels.strategies.values()} <= {*STRATEGIES, None}
    assert {ser for _, ser in labels.emotions.values()} <= {*EMOTIONS, None}
    assert not labels.missing & {*labels.strategies, *labels.emotions, *labels.problems}


@pytest.mark.parametrize(
    ("word", "corpus", "ser"),
    [
        ("Questions", "Question", "Progressive Questioning"),
        ("Approval and Reassurance", "Affirmation and Reassurance", "Affirmation and Comfort"),
        ("Restatement", "Restatement or Paraphrasing", "Content Restatement"),
        ("Reflection of feelings", "Reflection of feelings", "Emotional Mapping"),
        ("Self-disclosure", "Self-disclosure", "Self-Disclosure"),
        ("Direct Guidance", "Providing Suggestions", "Provide Suggestions"),
        ("Information", "Information", "Provide Information"),
        ("Other", "Others", None),
        ("Cheering up", None, None),
    ],
)
def test_esconv_strategies_with_their_aliases_and_an_unknown_one(word, corpus, ser):
    assert load_map("esconv").strategy(word) == Label(original=word, corpus=corpus, ser=ser)


def test_esconv_emotions_and_problems():
    labels = load_map("esconv")
    assert labels.emotion("fear") == Label(original="fear", corpus="fear", ser="Fear")
    assert labels.problem("moving") == Label(original="moving", corpus=None, ser=None)
    assert labels.problem("Job Crisis") == Label(original="Job Crisis", corpus="job crisis", ser=None)


@pytest.mark.parametrize(
    ("word", "role"),
    [("speaker", "seeker"), ("Listener", "supporter"), ("sys", "supporter"), ("nobody", None)],
)
def test_esconv_speakers(word, role):
    assert load_map("esconv").speaker(word) == role


@pytest.mark.parametrize(
    ("word", "corpus"),
    [
        ("Emotional Transference or Infidelity ", "Emotional Transference or Infidelity"),
        ("Childhood shadow", "Childhood Shadow"),
        (
            "Self-Assessment or Assessment of Others or evaluation of others",
            "Self-Assessment or Assessment of Others",
        ),
    ],
)
def test_mesc_problem_spellings_fall_together(word, corpus):
    label = load_map("mesc").problem(word)
    assert label is not None and label.corpus == corpus and label.original == word.strip()


def test_a_word_for_no_label_is_missing_not_unknown():
    assert load_map("mesc").strategy("undefined") is None
    assert load_map("mesc").strategy("") is None
    assert load_map("mesc").strategy(None) is None
    assert load_map("mesc").strategy("open question") == Label(
        original="open question", corpus="Open question", ser="Progressive Questioning"
    )


def test_the_thirteen_escot_sixteen_extes_strategies_and_thirty_two_emotions():
    assert len({canonical for canonical, _ in load_map("escot").strategies.values()}) == 13
    assert len({canonical for canonical, _ in load_map("extes").strategies.values()}) == 16
    assert len({canonical for canonical, _ in load_map("avamerg").emotions.values()}) == 32


def test_a_workspace_lays_its_own_map_over_ours(tmp_path: Path):
    (tmp_path / "esconv.toml").write_text(
        '[strategies]\n"Others" = {ser = "Small Talk", aliases = ["Other", "Cheering up"]}\n'
        '[speakers]\nseeker = ["caller"]\n',
        encoding="utf-8",
    )
    labels = load_map("esconv", tmp_path)
    assert labels.strategy("Cheering up") == Label(original="Cheering up", corpus="Others", ser="Small Talk")
    assert labels.strategy("Questions") == Label(original="Questions", corpus="Question", ser="Progressive Questioning")
    assert (labels.speaker("caller"), labels.speaker("listener")) == ("seeker", "supporter")


def test_an_unknown_format_has_an_empty_map():
    labels = load_map("no-such-corpus")
    assert labels.strategy("Question") == Label(original="Question")
    assert labels.speaker("seeker") is None


@pytest.mark.parametrize(
    "text",
    [
        '[strategies]\n"Question" = {ser = "Interrogation"}\n',
        '[emotions]\n"calm" = {ser = "Calm"}\n',
        "not toml",
    ],
)
def test_a_wrong_map_is_refused_with_its_file(tmp_path: Path, text: str):
    (tmp_path / "esconv.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"esconv\.toml"):
        load_map("esconv", tmp_path)


@given(
    st.sampled_from(sorted(load_map("esconv").strategies)),
    st.sampled_from([str.upper, str.title, lambda s: f"  {s.replace(' ', '_')} "]),
)
def test_case_spaces_and_hyphens_do_not_count(word, spell):
    labels = load_map("esconv")
    plain, spelt = labels.strategy(word), labels.strategy(spell(word))
    assert plain is not None and spelt is not None and spelt.corpus == plain.corpus and fold(spell(word)) == fold(word)
