"""Seeds that depend on what is asked, never on when or in which order."""

from __future__ import annotations

import hashlib


def derive_seed(*parts: str | int) -> int:
    """A seed in [0, 2**31) for these parts, e.g. the recipe's seed, a record id, a stage and a turn's number."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big") >> 1
