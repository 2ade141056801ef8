"""What a good model would answer to a build that rewrites, derived from the request alone."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.servers.ser_replies import build as good
from tests.servers.ser_replies import mark_of

KINDS = ((9, 8, 1, 2), (1, 2, 9, 8), (8, 1, 2, 9))
"""Three kinds of people, by the DISC scores that a judge gives them."""


def properties_of(body: Mapping[str, Any]) -> dict[str, Any]:
    return ((body.get("response_format") or {}).get("json_schema") or {}).get("schema", {}).get("properties", {})


def build(body: Mapping[str, Any]) -> str:
    """People are of three kinds; a line is retold in capitals (Chinese: with a tag); judges are content."""
    asked, said = properties_of(body), str(body["messages"][-1]["content"])
    if "Dominance" in asked:
        mark = int(mark_of(body["messages"]), 16)
        scores = zip(asked, KINDS[mark % 3], strict=True)
        return json.dumps({d: {"analysis": f"Seen as {s} ({mark % 997}).", "score": s} for d, s in scores})
    if "line" in asked:
        found = re.search(r"(?:next line:|的下一句：)\n(.*)", said)
        line = found[1] if found else ""
        return json.dumps({"line": f"{line}，真的。" if re.search(r"[\u4e00-\u9fff]", line) else line.upper()})
    if "semantic_consistency" in asked:
        return json.dumps(dict(zip(asked, (3, 2, 3, 1), strict=True)))
    return good(body)
