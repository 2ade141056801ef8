"""The units in which texts are measured: words where words are spaced, characters in Chinese.

A Han character is a unit by itself; else a run of letters and digits is one, an apostrophe inside it included. So a
Chinese text is counted by characters, an English one by words, and a mixed one by both. Case and width do not count for
n-grams. May import: polars.
"""

from __future__ import annotations

import polars as pl

UNIT = r"\p{Han}|[\p{L}\p{M}\p{N}--\p{Han}]+(?:['’][\p{L}\p{M}--\p{Han}]+)*"
"""One unit, as a pattern of Polars' regular expressions."""

UNIT_NAMES = {"en": "words", "zh": "characters"}


def count_units(column: str) -> pl.Expr:
    """The number of units of each text of a column; `None` for none."""
    return pl.col(column).str.count_matches(UNIT)


def split_units(texts: pl.Series) -> pl.Series:
    """The units of each text, in one case and width."""
    return texts.str.normalize("NFKC").str.to_lowercase().str.extract_all(UNIT)
