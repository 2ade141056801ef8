"""A release in an interactive session is a line, not its manifest."""

from __future__ import annotations

from pathlib import Path

from ser_toolkit.releases.load import load_release
from tests.unit.release.making import crowd, make


def test_a_release_shows_its_path_and_its_splits(tmp_path: Path):
    made = make(tmp_path, crowd(30))
    shown = repr(load_release(made.path))
    assert shown.startswith(f"Release({str(made.path)!r}, ") and "traces (train" in shown
    assert len(shown) < len(str(made.path)) + 200
