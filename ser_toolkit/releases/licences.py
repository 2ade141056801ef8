"""What a licence, as an SPDX id, allows a release to do."""

from __future__ import annotations

import re

_OPEN = re.compile(
    r"(?:apache|mit|isc|bsd|l?gpl|agpl|cc0|cc-by|cc-by-sa|odc-by|odbl|pddl|cdla-(?:permissive|sharing)|wtfpl|unlicense|zlib)"
    r"(?:-[0-9][0-9a-z.-]*)?"
)

_FAMILIES = {
    "apache": "2.0",
    "cc-by": "2.0 2.5 3.0 4.0",
    "cc-by-sa": "3.0 4.0",
    "cc-by-nc": "2.0 3.0 4.0",
    "cc-by-nd": "4.0",
    "cc-by-nc-nd": "3.0 4.0",
    "cc-by-nc-sa": "2.0 3.0 4.0",
    "cdla-permissive": "1.0 2.0",
    "cdla-sharing": "1.0",
    "bsd": "2-clause 3-clause",
    **dict.fromkeys(("gpl", "lgpl", "agpl"), "3.0"),
}
HUB_IDS = {f"{family}-{v}" for family, versions in _FAMILIES.items() for v in versions.split()} | {
    "mit", "isc", "bsd", "cc", "cc0-1.0", "odc-by", "odbl", "pddl", "unlicense", "wtfpl", "zlib", "unknown",
}  # fmt: skip
"""The ids that the Hub knows in a card's `license`; others are "other" there."""


def hub_id(licence: str) -> str:
    """The Hub's word for a licence."""
    folded = licence.strip().lower()
    return folded if folded in HUB_IDS else "other"


def objection(licence: str) -> str | None:
    """Why rows under this licence should not simply be made public, or None where it is an open one."""
    folded = licence.strip().lower()
    parts = re.split(r"[^a-z]+", folded)
    if "nc" in parts or "noncommercial" in "".join(parts):
        return "non-commercial"
    if "nd" in parts:
        return "no derived works"
    return None if _OPEN.fullmatch(folded) else "not known to allow it"
