"""Licences: which ones do not go together, by the readable table, and where a release says so."""

from pathlib import Path

import pytest

from ser_toolkit.releases.licences import conflicts
from tests.unit.release.making import crowd, dialogue, make


@pytest.mark.parametrize(
    ("licences", "found"),
    [
        ([], 0),
        (["CC-BY-4.0"], 0),
        (["unknown"], 0),
        (["CC-BY-4.0", "MIT", "CC0-1.0", "Apache-2.0"], 0),
        (["CC-BY-4.0", "CC-BY-NC-4.0"], 0),
        (["CC-BY-SA-4.0", "CC-BY-NC-4.0"], 1),
        (["CC-BY-SA-4.0", "CC-BY-SA-3.0"], 1),
        (["CC-BY-SA-4.0", "CC-BY-SA-4.0"], 0),
        (["cc-by-sa-4.0", "CC-BY-NC-SA-4.0", "GPL-3.0-only"], 3),
        (["CC-BY-4.0", "CC-BY-ND-4.0"], 1),
        (["CC-BY-4.0", "unknown"], 1),
        (["CC-BY-4.0", "a licence nobody knows"], 1),
    ],
)
def test_conflicts(licences: list[str], found: int):
    assert len(conflicts(licences)) == found


def test_a_release_lists_them_in_manifest_and_card(tmp_path: Path):
    mixed = [
        dialogue("sa", "My sister moved out last week.", "Oh.", licence="CC-BY-SA-4.0"),
        dialogue("nc", "I am afraid of the stairs now.", "Why?", licence="CC-BY-NC-4.0"),
    ]
    made = make(tmp_path, [*crowd(3), *mixed])
    (conflict,) = made.licence_conflicts
    assert "CC-BY-NC-4.0 and CC-BY-SA-4.0" in conflict and "commercial" in conflict
    assert "do not plainly go together" in (made.path / "README.md").read_text()
    plain = make(tmp_path / "b", crowd(3))
    assert plain.licence_conflicts == () and "go together" not in (plain.path / "README.md").read_text()
