"""`check_source`: what a source holds, and what was not understood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.sources import check
from pipelines.sources.check import CheckReport, check_source, render_report
from ser_toolkit.errors import UsageError
from ser_toolkit.recipe import SourceSpec


def report(format: str, path: Path, value: Any) -> CheckReport:
    path.write_text(json.dumps(value), encoding="utf-8")
    return check_source(SourceSpec(format=format, path=str(path)))


def turns(*spoken: tuple[str, str], **more: Any) -> list[dict[str, Any]]:
    return [{"speaker": speaker, "text": text, **more} for speaker, text in spoken]


TALK = turns(("seeker", "Hi"), ("supporter", "Hello"))


def test_turn_shapes_are_counted_and_the_bad_record_named(tmp_path: Path) -> None:
    """FIELD_CASES C1, through the format that has this layout."""
    found = report(
        "extes",
        tmp_path / "shapes.json",
        [
            {"id": "a", "content": [{"User": "My flat feels empty."}, {"AI": "That sounds lonely."}]},
            {
                "id": "b",
                "content": [
                    {"User": "I failed again.", "AI": "That hurts."},
                    {"User": "Yes.", "AI": "What weighs most?"},
                ],
            },
            {"id": "c", "content": [{"User": "Can't sleep.", "AI": {"AI": "Since when?"}}]},
            {"id": "d", "content": [{"User": "Hm.", "AI": ["x", "y"]}]},
        ],
    )
    assert (found.records, found.dialogues, found.failures) == (4, 3, 1)
    assert sorted(found.shapes.values()) == [1, 1, 1]
    (failure,) = found.first_failures
    assert (failure.record_id, failure.position) == ("d", "record 4")


def test_labels_are_counted_and_unknown_words_listed(tmp_path: Path) -> None:
    record = {
        "emotion": "Fear",
        "turns": [
            {"speaker": "seeker", "text": "Hi", "emotion": ["Zorn", "fear"]},
            {"speaker": "supporter", "text": "Hello", "strategy": ["small talk", "Cheering up"]},
            {"speaker": "supporter", "text": "Nice weather.", "strategy": "Cheering up"},
        ],
    }
    rows = [record, {"turns": turns(("Guide", "x"), ("seeker", "y"))}, {"turns": TALK}, {"turns": TALK[:1]}]
    found = report("json", tmp_path / "a.json", rows)
    assert found.unmapped.model_dump() == {
        "strategies": {"Cheering up": 2},
        "emotions": {"Zorn": 1},
        "problems": {},
        "speakers": {"Guide": 1},
    }
    assert {kind: {w: (c.count, c.ser) for w, c in words.items()} for kind, words in found.labels.items()} == {
        "emotions": {"Fear": (2, "Fear")},
        "strategies": {"Small Talk": (1, "Small Talk")},
    }
    assert found.failure_kinds == {"unknown_speaker": 1, "one_sided": 1}
    assert found.records == found.dialogues + found.scenarios + found.failures == 4


def test_the_machine_readable_report_has_the_promised_keys(tmp_path: Path) -> None:
    tree = json.loads(report("json", tmp_path / "a.json", [{"turns": TALK}]).model_dump_json())
    assert {"format", "path", "records", "dialogues", "failures", "unmapped", "shapes"} <= tree.keys()
    assert (tree["dialogues"], tree["failures"], tree["shapes"]) == (1, 0, {"objects": 1})


def test_flags_are_counted(tmp_path: Path) -> None:
    said = turns(("seeker", "I\u00e2\u20ac\u2122m"), ("supporter", ""), ("supporter", "Oh\u0007"))
    found = report("json", tmp_path / "a.json", [{"turns": said}])
    assert found.flags == {"empty_turns_dropped": 1, "mojibake_repaired": 1, "control_chars_removed": 1}


def test_only_the_first_failures_and_words_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "WORDS_KEPT", 3)
    rows = [{"turns": turns((f"Zorg {n}", "x"), ("seeker", "y"))} for n in range(30)]
    found = report("json", tmp_path / "a.json", rows)
    assert (found.failures, len(found.first_failures)) == (30, check.FIRST_FAILURES)
    assert found.unmapped.speakers == {"Zorg 0": 1, "Zorg 1": 1, "Zorg 2": 1, check.OTHER_WORDS: 27}


def test_the_report_for_people_says_it_all(tmp_path: Path) -> None:
    rows = [
        {"turns": [TALK[0], {"speaker": "supporter", "text": "x", "strategy": "Cheering up"}]},
        {"id": "q", "turns": turns(("Guide", "x"), ("seeker", "y"))},
    ]
    text = render_report(report("json", tmp_path / "a.json", rows))
    for part in ("2 records: 1 dialogues", "Cheering up", "Guide", "a.json, record 2 [q]: unknown_speaker", "objects"):
        assert part in text


def test_scenarios_are_counted(tmp_path: Path) -> None:
    row = {
        "role": "r",
        "pid": "1",
        "life_events": "x",
        "challenge": "y",
        "behavioral_traits": "z",
        "final_persona": "p",
    }
    found = report("esc-judge", tmp_path / "a.json", [row])
    assert found.records == found.scenarios + found.failures == 1


def test_an_unknown_format_or_a_missing_path_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        check_source(SourceSpec(format="json", path=str(tmp_path / "nowhere")))
    with pytest.raises(UsageError, match="klingon"):
        check_source(SourceSpec(format="klingon", path=str(tmp_path)))
