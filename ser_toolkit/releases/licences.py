"""What a licence, as an SPDX id, allows a release to do."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

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


def lent_media(manifest: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The entries of a manifest's `media` that did not come with their dialogues: under a licence of their own."""
    return [m for m in manifest.get("media", ()) if m["origin"] not in ("corpus", "video")]


def conflicts(licences: Iterable[str]) -> list[str]:
    """What does not go together among the licences of one release, a sentence each, by `licences.toml`."""
    tree, known = _table(), sorted({x.strip() for x in licences}, key=str.lower)
    found: list[str] = []
    for a, b in combinations(known, 2):
        pair = sorted((_family(a), _family(b)))
        found += [f"{a} and {b}: {c['why']}" for c in tree["conflict"] if sorted(c["pair"]) == pair]
    for licence in known if len(known) > 1 else ():
        found += [f"{licence or 'unknown'}: {a['why']}" for a in tree["alone"] if a["family"] == _family(licence)]
    return found


def _family(licence: str) -> str:
    """The family of a licence; "unstated" where the table knows none, which is the careful reading."""
    folded = licence.strip().lower()
    families: dict[str, str] = _table()["families"]
    return next((name for name, pattern in families.items() if re.fullmatch(pattern, folded)), "unstated")


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("licences.toml").read_text(encoding="utf-8"))
