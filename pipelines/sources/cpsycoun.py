"""CPsyCoun: Chinese counselling dialogues as lines "来访者：..." (the seeker) and "心理咨询师：..." (the supporter).

One text file a dialogue, or JSON lists of such texts. A line without a known prefix (a stage direction, a numbered
list) goes on with the turn before it; before the first turn it is the situation. A name in brackets after the
prefix ("来访者（王女士）") makes a Speaker of that name; who said it stays in the turn's `raw`. Where a couple comes,
the two are both the seeker, and the dialogue is flagged "several_seekers". Source: arXiv 2405.16433.
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
        turns: list[Turn] = []
        names: dict[tuple[Role, str], Speaker] = {}
        for line in raw.value.split("\n"):
            found = _LINE.match(line)
            role = words.known_role(found["word"]) if found else None
            if found and role:
                name = found["name"]
                turns.append(Turn(speaker=role, text=found["text"], raw=line if name else None))
                if name:
                    names[role, name] = Speaker(role=role, attributes={"name": name})
            elif turns and line.strip():
                turns[-1] = _continued(turns[-1], line.strip())
            elif line.strip():
                situation.append(line.strip())
        if not turns:
            reason = "no line begins with a speaker, such as 来访者： or 心理咨询师："
            raise RecordError("malformed", reason, text=raw.value[:200])
        return make_dialogue(
            raw,
            NAME,
            LICENCE,
            context,
            turns=turns,
            situation="\n".join(situation),
            speakers=tuple(names.values()),
            flags=("several_seekers",) if sum(role == "seeker" for role, _ in names) > 1 else (),
        )

    readers = {".txt": text_files, ".json": json_records, ".jsonl": json_records}
    yield from read_records(by_suffix(path, context, readers), NAME, parse)


def _continued(turn: Turn, line: str) -> Turn:
    raw = f"{turn.raw}\n{line}" if turn.raw else None
    return turn.model_copy(update={"text": f"{turn.text}\n{line}", "raw": raw})


FORMAT = SourceFormat(
    name=NAME,
    title="CPsyCoun",
    yields="dialogues",
    languages=("zh",),
    licence=LICENCE,
    expects="a folder of text files, one dialogue each, or JSON lists of such texts",
    read=read,
)
