"""Small readers of command-line values."""

from __future__ import annotations

from collections.abc import Iterable

from ser_toolkit.errors import UsageError


def pairs(items: Iterable[str], option: str) -> dict[str, str]:
    """["a=b"] -> {"a": "b"}. Raises UsageError."""
    out: dict[str, str] = {}
    for item in items:
        key, eq, value = item.partition("=")
        if not eq or not key or not value:
            raise UsageError(f"{option} {item}: not of the form KEY=VALUE", f"for example {option} text=utterance")
        out[key] = value
    return out
