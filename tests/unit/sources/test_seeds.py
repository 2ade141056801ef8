"""The bundled seeds, and one's own in the same form."""

from pathlib import Path

import pytest

from pipelines.sources.base import ReadContext
from pipelines.sources.seeds import BUNDLED, FORMAT
from ser_toolkit.errors import UsageError
from ser_toolkit.recipe import SourceSpec
from ser_toolkit.schema import Dialogue, Failure, Scenario
from ser_toolkit.taxonomy import EMOTIONS, INTENSITIES, STRATEGIES


@pytest.fixture(scope="module")
def seeds() -> list[Dialogue | Scenario | Failure]:
    return list(FORMAT.read(Path(), ReadContext(SourceSpec(format="seeds"))))


def test_all_bundled_seeds_are_read(seeds):
    assert not [r for r in seeds if isinstance(r, Failure)]
    dialogues = [r for r in seeds if isinstance(r, Dialogue)]
    scenarios = [r for r in seeds if isinstance(r, Scenario)]
    assert len({r.id for r in seeds}) == len(dialogues) + len(scenarios) == len(seeds)
    for lang, n_dialogues, n_scenarios in (("en", 4, 1), ("zh", 2, 1)):
        assert sum(d.lang == lang for d in dialogues) >= n_dialogues
        assert sum(s.lang == lang for s in scenarios) >= n_scenarios


def test_they_may_be_used_by_anyone_and_hold_no_corpus(seeds):
    assert {r.source.licence for r in seeds} == {"Apache-2.0"}
    assert {t.origin for r in seeds if isinstance(r, Dialogue) for t in r.turns} == {"person"}
    assert BUNDLED.is_relative_to(Path(FORMAT.read.__code__.co_filename).parents[1])


def test_their_labels_are_sers_own_words(seeds):
    for record in seeds:
        assert record.emotion is None or record.emotion.ser in EMOTIONS
        if isinstance(record, Scenario):
            assert record.intensity in (None, *INTENSITIES)
            assert record.situation and record.hidden_intention
            continue
        assert 8 <= len(record.turns) <= 12
        assert {t.speaker for t in record.turns} == {"seeker", "supporter"}
        assert all(label.ser in STRATEGIES for t in record.turns for label in t.strategies)
        assert all(t.strategies for t in record.turns if t.speaker == "supporter")
        assert any(t.cues for t in record.turns)
        assert all(c.source == "corpus:seeds" for t in record.turns for c in t.cues)


def test_ones_own_folder_is_read_in_the_same_form(importing):
    turns = [
        {"speaker": "seeker", "text": "I am late again.", "cues": {"face": "pale"}},
        {"speaker": "supporter", "text": "What happened?", "strategy": "Progressive Questioning"},
    ]
    records = importing(
        FORMAT,
        {
            "dialogues.json": [{"id": "a", "lang": "en", "turns": turns}, {"id": "b", "lang": "en"}],
            "scenarios.json": [{"id": "s", "lang": "en", "situation": "Late for work."}],
        },
    )
    good, bad, scenario = records
    assert good.id == "seeds-a" and good.turns[0].cues[0].text == "pale"
    assert good.turns[1].strategies[0].ser == "Progressive Questioning"
    assert isinstance(bad, Failure) and bad.kind == "malformed" and "turns" in bad.reason
    assert scenario.id == "seeds-s" and scenario.situation == "Late for work."


def test_a_folder_without_seeds_is_told(tmp_path):
    with pytest.raises(UsageError, match=r"dialogues\.json"):
        list(FORMAT.read(tmp_path, ReadContext(SourceSpec(format="seeds", path=str(tmp_path)))))
