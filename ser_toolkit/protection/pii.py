"""What is private in a text, by span: rules and word lists, offline, no model.

What is found and how well is measured in `docs/protection.md`. A find holds offsets, never text.
"""

from __future__ import annotations

import re

from ser_toolkit.schema import Lang

from .addresses import find_addresses
from .identifiers import find_identifiers
from .names_en import find_names_en
from .names_zh import find_names_zh
from .spans import Span, masked, resolve

_LATIN = re.compile(r"[A-Za-zÀ-ÿ]{2}")
_HAN = re.compile(r"[\u4e00-\u9fff]")


def find_pii(text: str, lang: Lang = "en") -> list[Span]:
    """What is private in `text`, in order, none overlapping. `lang` says in which countries' ways its numbers are read.

    Chinese and Latin rules both apply where a text holds such letters. Placeholders are no finds, and what is found is
    looked at no more: replacing all finds leaves nothing to find.
    """
    found: list[Span] = []
    view = masked(text, ())
    while new := resolve(_once(view, lang)):
        found += new
        view = masked(view, new)
    return sorted(found, key=lambda s: s.start)


def _once(text: str, lang: Lang) -> list[Span]:
    spans = [*find_identifiers(text, lang), *find_addresses(text)]
    if _LATIN.search(text):
        spans += find_names_en(_HAN.sub("、", text))
    if _HAN.search(text):
        spans += find_names_zh(text)
    return spans
