"""Postal addresses down to the house: a town, a district or a street alone is no find. The forms:
`data/addresses.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .spans import Span
from .tables import pattern

_DIGIT = re.compile(r"\d")


def find_addresses(text: str) -> Iterator[Span]:
    """Every address of both languages; finds may overlap."""
    if pattern("addresses", "counted_zh").search(text):
        for m in pattern("addresses", "address_zh").finditer(text):
            lead = pattern("addresses", "lead_zh").match(m[0])
            yield Span(m.start() + (len(lead[0]) if lead else 0), m.end(), "address", "address_zh")
    if _DIGIT.search(text):
        for m in pattern("addresses", "address").finditer(text):
            groups = {name: value for name, value in m.groupdict().items() if value}
            between = " ".join(value for name, value in groups.items() if name.startswith("words"))
            if not pattern("addresses", "measure").search(between):
                start, end = m.span("value" if "value" in groups else 0)
                yield Span(start, end, "address", "address")
