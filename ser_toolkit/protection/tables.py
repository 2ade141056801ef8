"""The data of this package, read once: word lists (`NAME.txt`) and patterns (`NAME.toml`)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"

_PART = re.compile(r"(?<!P)<([a-z_]+)>")
_FLAGS = {"i": re.IGNORECASE, "a": re.ASCII}


@cache
def words(name: str) -> frozenset[str]:
    """All words of data/NAME.txt, apart by white space; `#` begins a comment line."""
    return frozenset(ordered_words(name))


@cache
def ordered_words(name: str) -> tuple[str, ...]:
    """The same, in the file's order."""
    return tuple(w for line in _lines(name) for w in line.split())


@cache
def phrases(name: str) -> frozenset[str]:
    """All lines of data/NAME.txt."""
    return frozenset(_lines(name))


@cache
def table(name: str) -> dict[str, Any]:
    """data/NAME.toml."""
    return tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def pattern(name: str, section: str) -> re.Pattern[str]:
    """The patterns of a section of data/NAME.toml, as one."""
    tree = table(name)
    flags = re.NOFLAG
    for letter in tree[section]["flags"]:
        flags |= _FLAGS[letter]
    return compile_lines(tree[section]["patterns"], tree.get("parts", {}), flags)


def compile_lines(lines: str, parts: Mapping[str, str], flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """One pattern of many: one alternative a line, `<word>` for the part of that name."""
    joined = "|".join(f"(?:{line})" for line in lines.splitlines() if line.strip())
    while (filled := _PART.sub(lambda m: parts[m[1]], joined)) != joined:
        joined = filled
    return re.compile(joined, flags)


def _lines(name: str) -> list[str]:
    lines = (DATA / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]
