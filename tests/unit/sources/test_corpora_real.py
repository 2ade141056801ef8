"""The importers on files as other people published them: all understood, nothing left out, nothing unmapped."""

from collections import Counter
from importlib import import_module

import pytest

from pipelines.sources.base import ReadContext
from ser_toolkit.recipe import SourceSpec
from ser_toolkit.schema import Dialogue, Failure, Scenario
from ser_toolkit.taxonomy import load_map

CORPORA = [
    ("esconv", "esconv:FORMAT", "esconv/FailedESConv.json", {"en": 196}),
    ("mesc", "mesc:FORMAT", "mesc/test.txt", {"en": 102}),
    ("escot", "escot:FORMAT", "escot/val.json", {"en": 172}),
    ("cpsycoun", "cpsycoun:FORMAT", "cpsycoun", {"zh": 60}),
    ("smilechat", "smilechat:FORMAT", "smilechat", {"zh": 49}),
    ("sage", "profiles:SAGE", "sage/test_profile.jsonl", {"zh": 100}),
    ("esc-eval", "profiles:ESC_EVAL", "esc_eval", {"en": 331, "zh": 324}),
    ("esc-judge", "profiles:ESC_JUDGE", "esc_judge/roles-v1.json", {"en": 100}),
]


@pytest.fixture
def real(shared_data):
    """`real(corpus)` -> all that the importer yields of the corpus' real file."""

    def run(corpus: str, **spec):
        _, where, file, _ = next(row for row in CORPORA if row[0] == corpus)
        module, attribute = where.split(":")
        format = getattr(import_module(f"pipelines.sources.{module}"), attribute)
        path = shared_data / file
        if not path.exists():
            pytest.skip(f"no {file} among the shared corpora")
        return list(format.read(path, ReadContext(SourceSpec(format=corpus, path=str(path), **spec))))

    return run


@pytest.mark.parametrize(("corpus", "languages"), [(row[0], row[3]) for row in CORPORA])
def test_every_record_is_understood(real, corpus, languages):
    records = real(corpus)
    assert [r for r in records if isinstance(r, Failure)] == []
    assert Counter(r.lang for r in records) == languages
    assert len({r.id for r in records}) == len(records)
    for record in records:
        if isinstance(record, Dialogue):
            assert {turn.speaker for turn in record.turns} == {"seeker", "supporter"}
            assert all(turn.text for turn in record.turns)
            assert not [flag for flag in record.flags if flag.startswith("empty_turns")]
        else:
            assert isinstance(record, Scenario) and record.situation and record.speakers[0].persona


@pytest.mark.parametrize("corpus", ["esconv", "mesc", "escot"])
def test_no_label_is_left_unmapped(real, corpus):
    words = load_map(corpus)
    dialogues = real(corpus)
    labels = [label for d in dialogues for turn in d.turns for label in (*turn.strategies, *turn.emotions)]
    labels += [d.emotion for d in dialogues if d.emotion]
    assert labels and [label.original for label in labels if label.corpus is None] == []
    problems = [words.problem(d.problem) for d in dialogues if d.problem]
    assert [label.original for label in problems if label and label.corpus is None] == []
    # Every supporter turn of ESConv and MESC carries its strategy.
    if corpus != "escot":
        assert all(turn.strategies for d in dialogues for turn in d.turns if turn.speaker == "supporter")


def test_esconv_turns_feedback_and_surveys(real):
    dialogues = real("esconv")
    assert sum(len(d.turns) for d in dialogues) == 5230
    assert sum(d.is_supporter_first for d in dialogues) == 71
    assert sum(turn.feedback is not None for d in dialogues for turn in d.turns) == 987
    assert sum(d.survey.supporter_relevance is not None for d in dialogues) == 126
    assert sum(d.survey.intensity_change is not None for d in dialogues) == 142


def test_mesc_clues_leave_and_what_was_said_stays(real):
    turns = [turn for d in real("mesc") for turn in d.turns]
    assert len(turns) == 2922
    assert all(turn.cues and turn.raw and turn.raw.startswith(turn.text) for turn in turns)
    assert not [turn.text for turn in turns if "The speaker" in turn.text or "emotion state" in turn.text]
    # Nothing is lost: said text and cues make up the original, white space aside.
    for turn in turns:
        parts = turn.text + "".join(cue.text for cue in turn.cues)
        assert "".join(parts.split()) == "".join((turn.raw or "").split())


def test_escot_replies_and_chains(real):
    dialogues = real("escot")
    assert all(d.turns[-1].flags == ("escot_response",) and d.turns[-1].strategies for d in dialogues)
    assert all(d.meta["cot_data"]["recognized_strategy"] == d.turns[-1].strategies[0].original for d in dialogues)
    assert sum("response_after_supporter" in d.flags for d in dialogues) == 2


def test_cpsycoun_names_and_continued_lines(real):
    dialogues = real("cpsycoun")
    # One file is a couple's: both are the seeker, and each keeps a name.
    assert [len(d.speakers) for d in dialogues if "several_seekers" in d.flags] == [2]
    assert sum(any("\n" in turn.text for turn in d.turns) for d in dialogues) == 14
    assert not [d.situation for d in dialogues if d.situation]


def test_sage_scenes_do_not_tell_the_hidden_theme(real):
    for scenario in real("sage"):
        assert scenario.hidden_intention and scenario.opening
        assert scenario.hidden_intention not in scenario.situation and "hidden_theme" not in scenario.meta


@pytest.mark.parametrize("corpus", ["esconv", "cpsycoun"])
def test_merging_neighbours_leaves_no_two_turns_of_one_speaker(real, corpus):
    for dialogue in real(corpus, neighbours="merge"):
        pairs = zip(dialogue.turns, dialogue.turns[1:], strict=False)
        assert all(a.speaker != b.speaker for a, b in pairs)
