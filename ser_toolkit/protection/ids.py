"""Record ids and names of files without the people in them: "chat-sarah-miller-3" names someone.

Where a rule finds something private in an id, it is replaced by a short hash of the whole id: the same id gives the
same result everywhere, two ids stay two. Who knows an id can still make its hash, so this hides a name from readers,
not from whoever holds the source. May import: this package.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from .pii import find_pii
from .spans import Span, resolve

_BETWEEN = re.compile(r"[_\-+:.~]+")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LETTERS = re.compile(r"[A-Za-z]+")
_UUID = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])", re.IGNORECASE)
"""What a program drew tells on nobody, though its digits may look like a phone number."""
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,8}$")
_CERTAIN = {"listed", "listed_full", "titled", "pinyin", "full", "latin"}
"""Rules for names that hold without a sentence around them."""


@lru_cache(maxsize=4096)
def protect_id(id: str) -> str:
    """The id, or what stands for it where something in it is private."""
    spans = _private(id)
    if not spans:
        return id
    mark = "x" + hashlib.sha256(id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    parts, at = [], 0
    for number, span in enumerate(spans):
        parts += [id[at : span.start], "x" if number else mark]
        at = span.end
    return "".join([*parts, id[at:]])


def protect_name(name: str) -> str:
    """The name of a file relative to its source, each part by itself; its ending stays."""
    parts = []
    for part in name.split("/"):
        ending = _SUFFIX.search(part)
        stem = part[: ending.start()] if ending else part
        parts.append(protect_id(stem) + (ending[0] if ending else ""))
    return "/".join(parts)


def _private(id: str) -> list[Span]:
    """As written, and as words: "sarahMiller_2" is looked at as "Sarah Miller 2" too."""
    lang = "zh" if _HAN.search(id) else "en"
    spans = [s for s in find_pii(id, lang) if s.kind != "name" or s.rule in _CERTAIN]
    words = _BETWEEN.sub(lambda m: " " * len(m[0]), id)
    for view in {words, words.title(), _spaced_camel(words)} - {id}:
        if len(view) == len(id):
            spans += [s for s in find_pii(view, lang) if (s.kind == "name" and s.rule in _CERTAIN) or s.kind == "phone"]
    machine_made = [m.span() for m in _UUID.finditer(id)]
    return resolve(
        Span(s.start, _word_end(id, s.end), s.kind, s.rule)
        for s in spans
        if not any(start <= s.start and s.end <= end for start, end in machine_made)
    )


def _word_end(id: str, end: int) -> int:
    rest = _LETTERS.match(id, end)
    return rest.end() if rest else end


def _spaced_camel(words: str) -> str:
    """ "sarahMiller" as "Sarah      ": spaces would shift what follows, and a find goes to its word's end anyway."""
    camel = _CAMEL.search(words)
    return words if camel is None else words[: camel.start()].title() + " " * (len(words) - camel.start())
