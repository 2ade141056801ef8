"""Names of private persons in Chinese text: surnames, what names are made of, word borders, and the words around.

Word borders and parts of speech come from jieba's dictionary (`rjieba`); a name begins at a border and is no word
of the dictionary. Three characters of a surname and two name characters are a name wherever they stand so; two are
one where the dictionary knows it for a name, or the words around say so. "小王", "老李" and the surname of "王老师" are
names by their form. Surnames that are common words as well ("高", "文") need the end of a phrase on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache

from .spans import Span
from .tables import pattern, table, words

_HAN = re.compile(r"[\u4e00-\u9fff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")

Borders = Mapping[int, tuple[str, str]]
"""Where a word begins -> that word and its part of speech; the text's length -> ("", "")."""


def find_names_zh(text: str) -> list[Span]:
    """Every name of a private person; finds may overlap."""
    borders = _cut(text)
    found = [*_by_context(text, borders), *_by_form(text, borders), *_titled(text, borders), *_familiar(text, borders)]
    public = [m.span() for m in _public().finditer(text)] if found else []
    return [s for s in found if not any(a < s.end and s.start < b for a, b in public)]


def split_name(name: str) -> tuple[str, str]:
    """Surname and given name; no surname where the name begins with none, or is a nickname."""
    for size in (2, 1):
        if len(name) > size and name[:size] in words("surnames_zh"):
            return name[:size], name[size:]
    return "", name


def _cut(text: str) -> Borders:
    from rjieba import tag

    borders: dict[int, tuple[str, str]] = {}
    at = 0
    for word, part in tag(_SURROGATE.sub("\ufffd", text)):
        borders[at] = (word, part)
        at += len(word)
    borders[at] = ("", "")
    return borders


def _by_context(text: str, borders: Borders) -> Iterator[Span]:
    """Names that the words before say are names."""
    for m in pattern("names_zh", "surnamed").finditer(text):
        if m["name"] in words("surnames_zh"):
            yield Span(*m.span("name"), "name", "surnamed")
    for section in ("said", "related", "beside", "greeted"):
        for m in pattern("names_zh", section).finditer(text):
            group = next(g for g, found in m.groupdict().items() if found)
            start, limit = m.span(group)
            if group == "name_latin":
                yield Span(start, limit, "name", "latin")
            elif group == "name_line" and _ends_here(text, limit):
                yield Span(start, limit, "name", "line")
            elif end := _read_name(text, start, limit, borders, sure=section == "said" and "maybe" not in group):
                yield Span(start, end, "name", section)
            elif section in ("related", "beside") and (
                _is_given_alone(text, start, borders, section == "related") or _is_given_inside(text, start, borders)
            ):
                yield Span(start, start + 2, "name", section)


def _read_name(text: str, start: int, limit: int, borders: Borders, *, sure: bool) -> int | None:
    """Where the name that begins at `start` ends, or `None`; the words before say that one may begin here.

    `sure`: they say that one does, so a given name or a nickname alone counts too.
    """
    for surname in (text[start : start + 2], text[start : start + 1]):
        if surname not in words("surnames_zh"):
            continue
        given = start + len(surname)
        for end in (given + 2, given + 1):
            word, part = borders.get(start, ("", ""))
            inside = part.startswith("nr") and end == given + 2 and end < start + len(word)  # cut wrongly: "毕春燕带"
            if end > limit or _is_never_given(text[given:end]) or not (inside or end in borders or _ends(text, end)):
                continue
            fits = _is_given(text[given:end]) or (sure and _ends(text, end))
            if fits and not _is_title(text[given:end]) and not _is_word(text[start:end], start, borders):
                return end
    for end in (start + 4, start + 3, start + 2):
        if text[start:end] in words("foreign_zh"):
            return end
    for end in (start + 3, start + 2):
        word = text[start:end]
        doubled = len(word) == 2 and word[0] == word[1]
        nick = doubled or (sure and word[0] in "小老阿")
        bordered = _ends(text, end) or (nick and end in borders)
        known_word = word in words("not_names_zh") or (not nick and _is_word(word, start, borders))
        if end <= limit and (sure or doubled) and bordered and not known_word and _is_given(word.lstrip("小老阿")):
            return end
    return None


def _is_given_alone(text: str, start: int, borders: Borders, related: bool) -> bool:
    """Whether a given name of two characters, cut off by the borders, stands here without its surname.

    `related`: a word for a person stands before it, so words that the dictionary does not know for a name count too.
    """
    name, (word, part) = text[start : start + 2], borders.get(start, ("", ""))
    if not _is_given(name) or len(name) < 2 or start + 2 not in borders:
        return False
    if name in words("not_names_zh") or name in words("not_given_zh"):
        return False
    if len(word) == 2:
        return part.startswith("nr") or (related and part in ("x", "n", "nz") and name not in words("ordinary_zh"))
    return related and len(word) == 1 and _ends(text, start + 2)


def _is_given_inside(text: str, start: int, borders: Borders) -> bool:
    """Whether a given name of two characters stands here which the dictionary cut wrongly, as a part of some name."""
    name = text[start : start + 2]
    if len(name) < 2 or not _is_given(name) or name in words("not_names_zh") or name in words("not_given_zh"):
        return False
    at = max((b for b in borders if b <= start), default=0)
    word, part = borders[at]
    end = start + 2
    return part.startswith("nr") and at + len(word) >= end and (at + len(word) == end or _ends(text, end))


def _by_form(text: str, borders: Borders) -> Iterator[Span]:
    """Full names, "小王", "阿强", transliterations, wherever they stand at a border."""
    if "·" in text or "•" in text:
        for m in pattern("names_zh", "foreign").finditer(text):
            yield Span(m.start(), m.end(), "name", "foreign")
    firsts = _first_characters()
    for at, (word, _) in borders.items():
        if text[at : at + 1] not in firsts:
            continue
        if word in words("foreign_zh"):
            yield Span(at, at + len(word), "name", "foreign")
        elif text[at] in "小老阿":
            if _is_nick(text, at, borders):
                yield Span(at, at + 2, "name", "nick")
        elif end := _full_name_end(text, at, borders):
            yield Span(at, end, "name", "full")
        elif len(word) == 2 and word[0] == word[1] and _is_doubled(text, at):
            yield Span(at, at + 2, "name", "doubled")


def _full_name_end(text: str, at: int, borders: Borders) -> int | None:
    """Where the full name that begins at this border ends, or `None`."""
    surname = next((s for s in (text[at : at + 2], text[at]) if s in words("surnames_zh")), None)
    if surname is None:
        return None
    word, part = borders[at]
    given = at + len(surname)
    common = surname in words("weak_surnames_zh")
    for end in (given + 2, given + 1):
        cut = end in borders or (part.startswith("nr") and end < at + len(word) and _ends(text, end))
        if (
            not cut
            or not _is_given(text[given:end])
            or _is_title(text[given:end])
            or _is_word(text[at:end], at, borders)
        ):
            continue
        known = part.startswith("nr") and at + len(word) == end
        alone = _begins(text, at) and (known or _ends(text, end))
        if alone if common else (known or end - given == 2 or len(surname) == 2):
            return end
    return None


def _titled(text: str, borders: Borders) -> Iterator[Span]:
    """The surname before a title: "王老师"; the title stays."""
    for m in _title_pattern().finditer(text):
        start, surname, title = m.start("name"), m["name"], m["title"]
        if start not in borders or m[0] in words("not_names_zh"):
            continue
        word = borders[start][0]
        longer = len(word) > len(surname) and not m[0].startswith(word)
        common = surname in words("weak_surnames_zh") or len(title) == 1
        if not longer and word not in words("not_names_zh") and (not common or _begins(text, start)):
            yield Span(start, m.end("name"), "name", "titled")


def _is_nick(text: str, at: int, borders: Borders) -> bool:
    """Whether "小王", "老李", "阿强" begins here, cut off as one word or as two."""
    second = text[at + 1 : at + 2]
    word = borders[at][0]
    whole = len(word) == 2 or (len(word) == 1 and len(borders[at + 1][0]) == 1)
    if text[at] == "老":
        fits = second in words("surnames_zh")
    else:
        guessed = len(word) == 2 and borders[at][1].startswith("nr") and _is_given(second)
        fits = second in words("nick_zh") or guessed
    return whole and fits and text[at : at + 2] not in words("not_names_zh")


def _is_doubled(text: str, at: int) -> bool:
    """Whether "文文", "苗苗" stands here as a person: it opens a phrase, and what follows is what people do."""
    double = table("names_zh")["titles"]["double"]
    return text[at] in double and _begins(text, at) and _ends_after_double(text, at + 2)


def _ends_after_double(text: str, end: int) -> bool:
    return _ends(text, end) or text[end : end + 2] in ("昨天", "今天", "前天", "最近", "每天", "刚才", "已经", "一直")


def _is_word(candidate: str, at: int, borders: Borders) -> bool:
    """Whether the dictionary reads the candidate, or what it begins with, as something else than a person."""
    if candidate in words("not_names_zh"):
        return True
    word, part = borders.get(at, ("", ""))
    if len(word) < 2:
        rest = borders.get(at + 1, ("", ""))[0]
        return len(candidate) == 3 and rest in words("not_given_zh")
    if part.startswith("nr") or word in words("surnames_zh"):
        return False
    return len(word) < len(candidate) or part != "x"


def _is_given(given: str) -> bool:
    return bool(given) and given != "家" and all(c in words("given_zh") for c in given)


def _is_title(given: str) -> bool:
    return given in table("names_zh")["titles"]["words"].split("|")


def _is_never_given(given: str) -> bool:
    never = table("names_zh")["edges"]["never_given"]
    return any(c in never or not _HAN.match(c) for c in given)


def _ends(text: str, end: int) -> bool:
    return _ends_here(text, end) or text[end] in table("names_zh")["edges"]["after"]


def _ends_here(text: str, end: int) -> bool:
    return end >= len(text) or not _HAN.match(text[end])


def _begins(text: str, at: int) -> bool:
    return at == 0 or not _HAN.match(text[at - 1]) or text[at - 1] in table("names_zh")["edges"]["before"]


def _familiar(text: str, borders: Borders) -> Iterator[Span]:
    """A given name's one character before "哥" or "姐": "强哥"."""
    for m in re.finditer("(?P<name>[^小老大二三])[哥姐]", text):
        fits = m["name"] in words("nick_zh") and m.start() in borders
        if fits and m[0] not in words("not_names_zh") and _begins(text, m.start()):
            yield Span(m.start(), m.end("name"), "name", "familiar")


@cache
def _title_pattern() -> re.Pattern[str]:
    names = sorted(words("surnames_zh"), key=len, reverse=True)
    return re.compile(rf"(?P<name>{'|'.join(names)})(?P<title>{table('names_zh')['titles']['words']})")


@cache
def _first_characters() -> frozenset[str]:
    """What a name by its form can begin with."""
    double = frozenset(table("names_zh")["titles"]["double"])
    return frozenset("小老阿") | double | {w[0] for w in words("surnames_zh") | words("foreign_zh")}


@cache
def _public() -> re.Pattern[str]:
    names = sorted(words("public_names_zh"), key=len, reverse=True)
    return re.compile("|".join(re.escape(n) for n in names))
