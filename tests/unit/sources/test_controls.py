"""A control character that leaves a text leaves a flag, whatever the format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.sources.check import check_source
from ser_toolkit.recipe import SourceSpec

BAD = "I am \x07tired\x0b of it\x1c."
FILES: dict[str, tuple[str, Any]] = {
    "esconv": ("a.json", [{"dialog": [{"speaker": "seeker", "annotation": {}, "content": BAD},
                                      {"speaker": "supporter", "annotation": {}, "content": "Oh."}]}]),
    "mesc": ("a.jsonl", [{"dialog": [{"speaker": "user", "text": BAD}, {"speaker": "sys", "text": "Oh."}]}]),
    "escot": ("a.json", [{"original_data": {"dialog": [{"speaker": "seeker", "content": BAD}], "response": "Oh."}}]),
    "extes": ("a.json", [{"content": [{"User": BAD}, {"AI": "Oh."}]}]),
    "smilechat": ("a.json", [{"role": "client", "content": BAD}, {"role": "counselor", "content": "Oh."}]),
    "cpsycoun": ("a.txt", f"来访者：我{BAD}\n咨询师：嗯\n"),
    "messages": ("a.jsonl", [{"messages": [{"role": "user", "content": BAD},
                                           {"role": "assistant", "content": "Oh."}]}]),
    "json": ("a.json", [{"turns": [{"speaker": "user", "text": BAD}, {"speaker": "ai", "text": "Oh."}]}]),
    "csv": ("a.csv", f'dialogue_id,speaker,text\n1,user,"{BAD}"\n1,ai,Oh.\n'),
    "sage": ("a.jsonl", [{"id": "1", "player": BAD, "scene": "s", "task": "t", "first_talk": "f", "main_cha": "m",
                          "cha_group": ["c"]}]),
    "esc-judge": ("a.jsonl", [{"pid": "1", "role": BAD, "challenge": "c", "life_events": "l",
                               "behavioral_traits": "b", "final_persona": "p"}]),
}  # fmt: skip


@pytest.mark.parametrize("format", FILES)
def test_removed_control_characters_are_flagged_alike(tmp_path: Path, format: str):
    name, content = FILES[format]
    path = tmp_path / name
    if name.endswith(".jsonl"):
        content = "".join(json.dumps(row) + "\n" for row in content)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8", newline="")
    report = check_source(SourceSpec(format=format, path=str(path)))
    assert (report.dialogues + report.scenarios, report.failures) == (1, 0), report.first_failures
    assert report.flags.get("control_chars_removed") == 1
