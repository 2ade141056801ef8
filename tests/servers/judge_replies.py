"""A build's model that is also a judge: whether a step is sound hangs on the texts, with some noise by the request."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

VERDICTS = ("first_better", "second_better", "almost_equal", "neither")


def reply(body: Mapping[str, Any]) -> Any:
    """JSON for the judge's schema; all else as `ser_replies.build` answers it."""
    form = body.get("response_format") or {}
    properties = form["json_schema"]["schema"]["properties"] if form.get("type") == "json_schema" else {}
    if "critique1" not in properties:
        return _build(body)
    said = json.dumps(body["messages"][-1]["content"])
    about = _number("".join(sorted(said)))  # the same however the two replies stand
    noise = _number(said + str(body.get("seed")))
    made: dict[str, Any] = {}
    for n in (1, 2, 3):
        sound = (about >> n) % 4 > 0 if (noise >> n) % 6 else (noise >> 2 * n) % 2 == 0
        made |= {f"critique{n}": "" if sound else "That was not said.", f"step{n}": sound}
    if "verdict" in properties:
        made["verdict"] = VERDICTS[noise % 4]
    return json.dumps(made)


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


def _build(body: Mapping[str, Any]) -> Any:
    import importlib.util
    from pathlib import Path

    spec = importlib.util.spec_from_file_location("ser_replies", Path(__file__).with_name("ser_replies.py"))
    if spec is None or spec.loader is None:
        raise ImportError("ser_replies.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build(body)
