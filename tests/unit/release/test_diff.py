"""What changed between two releases."""

from __future__ import annotations

import json
from pathlib import Path

from ser_toolkit.releases.diff import diff_releases
from tests.unit.release.making import crowd, make, trace

ALL = (1.0, 0.0, 0.0)


def test_a_release_is_equal_to_itself(tmp_path: Path):
    made = make(tmp_path, crowd(5))
    diff = diff_releases(made.path, made.path)
    assert diff.is_equal and not diff.lineage
    assert all(c.added.count == c.removed.count == c.changed.count == c.moved.count == 0 for c in diff.configs)
    assert "the same content" in diff.render()


def test_rows_added_removed_changed_and_lineage(tmp_path: Path):
    dialogues = crowd(5)
    before = {"recipe": {"seed": 1, "llm": {"model": "x"}}, "models": [{"m": 1}]}
    one = make(tmp_path, dialogues[:4], ratios=ALL, lineage=before)
    changed = trace(dialogues[1]).model_copy(update={"reply": "And what else?"})
    two = make(
        tmp_path,
        dialogues[1:],
        traces=[changed, *map(trace, dialogues[2:])],
        ratios=ALL,
        lineage={"recipe": {"seed": 2, "llm": {"model": "x"}}, "models": [{"m": 1}], "note": "n"},
    )
    diff = diff_releases(one.path, two.path)
    by_config = {c.config: c for c in diff.configs}
    traces = by_config["traces"]
    assert (traces.a, traces.b) == (4, 4)
    assert traces.added.examples == ["d004-t3"] and traces.removed.examples == ["d000-t3"]
    assert traces.changed.examples == ["d001-t3"] and traces.columns == ["completion", "reply"]
    assert by_config["dialogues"].changed.count == 0 and by_config["dialogues"].added.examples == ["d004"]
    assert diff.lineage == {"recipe.seed": [1, 2], "note": [None, "n"]}
    text = diff.render()
    assert "ser-0.1.0 -> ser-0.1.1" in text and "1 changed: d001-t3" in text and "recipe.seed: 1 -> 2" in text
    assert json.loads(json.dumps(diff.to_json()))["lineage"]["recipe.seed"] == [1, 2]


def test_examples_are_few_and_counts_whole(tmp_path: Path):
    one, two = make(tmp_path, crowd(2), ratios=ALL), make(tmp_path, crowd(30), ratios=ALL)
    [added] = [c.added for c in diff_releases(one.path, two.path).configs if c.config == "traces"]
    assert added.count == 28 and len(added.examples) == 5


def test_other_ratios_show_as_moved_rows(tmp_path: Path):
    one, two = make(tmp_path, crowd(8), ratios=ALL), make(tmp_path, crowd(8), ratios=(0.0, 0.0, 1.0))
    diff = diff_releases(one.path, two.path)
    assert [c.moved.count for c in diff.configs if c.config == "dialogues"] == [8]
    assert not diff.is_equal
