"""The data of this package, read once: word lists (`NAME.txt`) and patterns (`NAME.toml`)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
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
    """One pattern of many: one alternative a line, `<word>` for the part of that name.

    Alternatives that begin a word stand under one `\\b`, which spares trying each of them inside words.
    """
    split = alternatives(lines)
    inside = [a for a in split if not a.startswith(r"\b")]
    at_words = "|".join(a.removeprefix(r"\b") for a in split if a.startswith(r"\b"))
    joined = "|".join([*([rf"\b(?=[\w'])(?:{at_words})"] if at_words else []), *inside])
    return re.compile(filled(joined, parts), flags)


def filled(pattern: str, parts: Mapping[str, str]) -> str:
    """The pattern with each `<word>` replaced by the part of that name."""
    while (more := _PART.sub(lambda m: parts[m[1]], pattern)) != pattern:
        pattern = more
    return pattern


def alternatives(lines: str) -> list[str]:
    """The patterns of all lines, taken apart at the bars outside all brackets."""
    return [a for line in lines.splitlines() if line.strip() for a in _split(line)]


def _split(line: str) -> Iterator[str]:
    """The parts of one line."""
    depth, start, skip, in_set = 0, 0, False, False
    for i, char in enumerate(line):
        if skip or char == "\\":
            skip = not skip
        elif in_set:
            in_set = char != "]" or line[i - 1] == "["
        elif char == "[":
            in_set = True
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "|" and depth == 0:
            yield line[start:i]
            start = i + 1
    yield line[start:]


def _lines(name: str) -> list[str]:
    lines = (DATA / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]
