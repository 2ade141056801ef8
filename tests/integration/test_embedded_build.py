"""The main job with the real embedded model, on the bundled seeds and on real corpora."""

import pytest

from pipelines import build
from ser_toolkit import load_release
from ser_toolkit.schema import Trace
from ser_toolkit.store import read_table
from ser_toolkit.workspace import Workspace

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("embedded")]
SHORT = ["sample.rounds=1"]


def test_seeds_become_a_release_and_again_without_a_call(tmp_path):
    first = build(tmp_path, limit=2, sets=SHORT, quiet=True)
    assert first.calls > 0 and first.failures == {}
    release = load_release(first.export.made.path)
    assert release.frame("traces").height == 2
    assert release.manifest["machinery_only"] is True
    assert "It is no training data" in (first.export.made.path / "README.md").read_text()
    again = build(tmp_path, limit=2, sets=SHORT, quiet=True)
    assert (again.calls, again.replayed) == (0, first.calls)
    assert again.export.made.content_hash == first.export.made.content_hash


def test_a_mixed_build_of_real_corpora(tmp_path, shared_data):
    sources = [
        f"esconv:{shared_data / 'esconv' / 'FailedESConv.json'}",
        f"escot:{shared_data / 'escot' / 'val.json'}",
        f"mesc:{shared_data / 'mesc' / 'test.txt'}",
        f"smilechat:{shared_data / 'smilechat'}",
    ]
    sets = [*SHORT, "filter.enabled=false", "llm.context_tokens=700", "failures.max_share=0.5"]
    sets.append("protect.imitate_crisis=true")  # the first of smilechat is marked
    result = build(tmp_path, sources=sources, limit=1, sets=sets, quiet=True)
    traces = list(read_table(Workspace(tmp_path).table("traces"), Trace))
    made = {t.dialogue_id.split("-")[0] for t in traces}
    assert made >= {"esconv", "escot", "mesc"}, "Chinese may fail on an English model, and is then counted"
    assert len(made) + sum(result.failures.values()) == 4
    assert all(t.strategy and t.sentiment and t.reply for t in traces)
    licences = set(load_release(result.export.made.path).frame("dialogues")["licence"])
    assert {"CC-BY-NC-4.0", "unknown"} <= licences
