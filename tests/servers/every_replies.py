"""What a good model would answer to a build with every stage on, derived from the request alone."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.servers.rewrite_replies import build as rewriter
from tests.servers.rewrite_replies import properties_of
from tests.servers.synthesis_replies import good as player


def build(body: Mapping[str, Any]) -> str:
    """Who describes, rewords or scores is one model; who plays, invents, judges and reasons another."""
    rewrites = properties_of(body).keys() & {"Dominance", "line", "semantic_consistency"}
    return rewriter(body) if rewrites else player(body)
