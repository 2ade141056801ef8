"""The dataset card: figures from the manifest, and nothing in it that its data could have put there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ser_toolkit.releases.card import render_card
from ser_toolkit.releases.licences import hub_id, objection
from ser_toolkit.releases.load import load_release
from tests.unit.release.making import crowd, dialogue, make


def header_and_body(card: str) -> tuple[dict[str, object], str]:
    _, header, body = card.split("---\n", 2)
    return yaml.safe_load(header), body


def test_the_header_lists_what_is_there_and_no_more(tmp_path: Path):
    made = make(tmp_path, crowd(40))
    header, _ = header_and_body((made.path / "README.md").read_text())
    assert header["license"] == "cc-by-4.0" and header["language"] == ["en"] and header["size_categories"] == ["n<1K"]
    configs = header["configs"]
    assert isinstance(configs, list)
    assert [c["config_name"] for c in configs] == list(made.rows)
    assert [c.get("default") for c in configs] == [True, None, None] and configs[0]["config_name"] == "traces"
    for c in configs:
        assert {f["split"]: f["path"] for f in c["data_files"]} == {
            s: f"{c['config_name']}/{s}.parquet" for s in made.rows[c["config_name"]]
        }


def test_the_card_is_made_from_the_manifest_alone(tmp_path: Path):
    made = make(tmp_path, crowd(40), failures={"format": 3}, verdicts={"rejected": 7})
    manifest = load_release(made.path).manifest
    card = (made.path / "README.md").read_text()
    assert card == render_card(manifest)
    for config, splits in made.rows.items():
        row = next(line for line in card.splitlines() if line.startswith(f"| {config} |"))
        shown = [cell.strip() for cell in row.split("|")[2:5]]
        assert shown == [str(splits.get(s, "–")) for s in ("train", "validation", "test")]
    assert "| esconv | CC-BY-4.0 | 40 | 40 |" in card and made.content_hash in card
    assert "* format: 3" in card and "* rejected: 7" in card and "`steps`: made from people's labels" in card


def test_a_machinery_release_says_so_and_another_does_not(tmp_path: Path):
    loud = make(tmp_path / "a", crowd(3), machinery_only=True)
    quiet = make(tmp_path / "b", crowd(3))
    assert "It is no training data" in (loud.path / "README.md").read_text()
    assert "It is no training data" not in (quiet.path / "README.md").read_text()


def test_licences_that_the_hub_does_not_know_are_other(tmp_path: Path):
    mixed = [*crowd(5), dialogue("ours", "The dog next door died.", "Oh no.", licence="Ours-1")]
    header, _ = header_and_body((make(tmp_path, mixed).path / "README.md").read_text())
    assert header["license"] == ["cc-by-4.0", "other"]


def test_what_others_wrote_is_shown_not_obeyed(tmp_path: Path):
    evil = "x|y\n---\n# <script>alert(1)</script> [a](http://b) `c` {{ 7*7 }} ![i](j)"
    d = crowd(1)[0]
    d = d.model_copy(update={"source": d.source.model_copy(update={"licence": evil, "format": evil})})
    lineage = {"models": [{"model": evil}]}
    made = make(tmp_path, [d], failures={evil: 1}, lineage=lineage, absent_reasons={"steps": evil})
    header, body = header_and_body((made.path / "README.md").read_text())
    assert header["license"] == "other"
    assert "<script" not in body and "\n---\n" not in body and "[a](" not in body
    assert r"{{ 7\*7 }}" in body
    [row] = [line for line in body.splitlines() if line.startswith("| x")]
    assert len(re.findall(r"(?<!\\)\|", row)) == 5


@pytest.mark.parametrize(
    ("licence", "why"),
    [
        ("CC-BY-4.0", None), ("CC-BY-SA-4.0", None), ("Apache-2.0", None), ("MIT", None), ("CC0-1.0", None),
        ("BSD-3-Clause", None), ("CC-BY-NC-4.0", "non-commercial"), ("cc-by-nc-sa-4.0", "non-commercial"),
        ("PolyForm-Noncommercial-1.0.0", "non-commercial"), ("CC-BY-ND-4.0", "no derived works"),
        ("unknown", "not known to allow it"), ("", "not known to allow it"), ("research only", "not known to allow it"),
        ("MIT or not", "not known to allow it"),
    ],
)  # fmt: skip
def test_which_licences_may_simply_be_published(licence: str, why: str | None):
    assert objection(licence) == why


def test_hub_ids():
    assert [hub_id(x) for x in ("CC-BY-NC-SA-4.0", "Apache-2.0", "unknown", "Ours")] == [
        "cc-by-nc-sa-4.0", "apache-2.0", "unknown", "other",
    ]  # fmt: skip
