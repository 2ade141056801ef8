"""One model for a whole walkthrough: it builds and plays, labels items, scores talks, each as its module does."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.servers.judge_replies import reply as labeller
from tests.servers.policy_replies import reply as scorer
from tests.servers.synthesis_replies import good as player


def reply(body: Mapping[str, Any]) -> Any:
    """What the model answers, told by the schema that it is asked for."""
    form = body.get("response_format") or {}
    properties = form["json_schema"]["schema"]["properties"] if form.get("type") == "json_schema" else {}
    answers = labeller if "critique1" in properties else scorer if "fluency" in properties else player
    return answers(body)
