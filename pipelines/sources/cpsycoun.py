"""CPsyCoun: Chinese counselling dialogues as lines "来访者：..." (the seeker) and "心理咨询师：..." (the supporter).

One text file a dialogue, or JSON lists of such texts. A line without a known prefix (a stage direction, a numbered
list) goes on with the turn before it; before the first turn it is the situation. A name in brackets after the
prefix ("来访者（王女士）") is kept as that speaker's attribute. Source: arXiv 2405.16433.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ser_toolkit.errors import RecordError
from ser_toolkit.schema import Dialogue, Role, Speaker, Turn

from .base import Imported, ReadContext, SourceFormat
from .finish import make_dialogue, read_records
from .reading import Raw, json_records, text_files
from .words import Words, by_suffix

NAME, LICENCE = "cpsycoun", "CC-BY-4.0"
_LINE = re.compile(r"\s*(?P<word>[^\s：:（(]{1,12})\s*(?:[（(](?P<name>[^）)]{1,20})[）)])?\s*[：:]\s*(?P<text>.*)")


def read(path: Path, context: ReadContext) -> Iterator[Imported]:
    words = Words(NAME, context)

    def parse(raw: Raw) -> Dialogue:
        if not isinstance(raw.value, str):
            raise RecordError("malformed", f"the record is {type(raw.value).__name__}, not the text of a dialogue")
        situation: list[str] = []
        turns: list[tuple[Role, list[str]]] = []
        names: dict[Role, str] = {}
        for line in raw.value.splitlines():
            found = _LINE.match(line)
            role = words.known_role(found["word"]) if found else None
            if found and role:
                turns.append((role, [found["text"]]))
                if found["name"]:
                    names[role] = found["name"]
            elif line.strip():
                (turns[-1][1] if turns else situation).append(line.strip())
        if not turns:
            reason = "no line begins with a speaker, such as 来访者： or 心理咨询师："
            raise RecordError("malformed", reason, text=raw.value[:200])
        return make_dialogue(
            raw,
            NAME,
            LICENCE,
            context,
            turns=[Turn(speaker=role, text="\n".join(lines)) for role, lines in turns],
            situation="\n".join(situation),
            speakers=tuple(Speaker(role=role, attributes={"name": name}) for role, name in names.items()),
        )

    readers = {".txt": text_files, ".json": json_records, ".jsonl": json_records}
    yield from read_records(by_suffix(path, context, readers), NAME, parse)


FORMAT = SourceFormat(
    name=NAME,
    title="CPsyCoun",
    yields="dialogues",
    languages=("zh",),
    licence=LICENCE,
    expects="a folder of text files, one dialogue each, or JSON lists of such texts",
    read=read,
)
