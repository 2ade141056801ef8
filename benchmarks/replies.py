"""Deterministic replies of the stand-in server, so that every benchmark can check what it got."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def mark_of(messages: Any) -> str:
    """A mark that depends on all that was sent."""
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:16]


def four_parts(body: Mapping[str, Any]) -> str:
    """A whole trace whose reply holds the mark of the request."""
    mark = mark_of(body["messages"])
    return (
        "Step 1. Conversation History Analysis\nThe person lost work and has told nobody; exploration comes first.\n\n"
        "Step 2. Multimodal Emotional State Inference\nSentiment: Negative. Intensity: Moderate. "
        "Emotions: Anxiety, Shame.\n\n"
        "Step 3. Strategy Selection\nProgressive Questioning: what weighs most is not yet clear.\n\n"
        f"Step 4. Response Generation\n\\boxed{{That is a lot to carry alone. What worries you most? {mark}}}"
    )
