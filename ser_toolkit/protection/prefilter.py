"""Which of many patterns can match a text at all, told by letters that each of them needs.

Each pattern is taken apart once, into sets of literals of which any match holds one; a few letters of each literal
stand for it. A text is cut into runs of so many letters, and only patterns whose every set has a run there are tried.
No pattern that matches is missed; one without such letters is always tried. May import: the standard library.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Set
from itertools import takewhile
from re import _constants as ops  # pyright: ignore[reportAttributeAccessIssue]  (the parser has no public name)
from re import _parser as parser  # pyright: ignore[reportAttributeAccessIssue]
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
Grams = frozenset[str]

_MOST = 80  # literals of a set: one with more says too little
_SETS = 3  # sets of a pattern that are looked at


class Prefilter(Generic[K]):
    """Keys by pattern, for texts and patterns of small letters. `sizes`: how many letters stand for a literal, the
    longest first.
    """

    def __init__(self, patterns: Iterable[tuple[K, str]], sizes: tuple[int, ...]) -> None:
        self._sizes = sizes
        self._always: set[K] = set()
        index: dict[str, list[tuple[K, tuple[Grams, ...]]]] = defaultdict(list)
        for key, pattern in patterns:
            sets = sorted({g for s in needed(pattern) if (g := self._grams(s))}, key=_share)[:_SETS]
            if not sets:
                self._always.add(key)
            for gram in sets[0] if sets else ():
                index[gram].append((key, tuple(sets[1:])))
        self._index = dict(index)

    def possible(self, grams: Set[str]) -> set[K]:
        """The keys of all patterns that may match a text of these `grams_of`; of the others none does."""
        found = set(self._always)
        for gram in grams & self._index.keys():
            for key, others in self._index[gram]:
                if key not in found:
                    for other in others:
                        if grams.isdisjoint(other):
                            break
                    else:
                        found.add(key)
        return found

    def _grams(self, literals: frozenset[str]) -> Grams:
        """What stands for the literals; nothing where one of them is too short."""
        short = self._sizes[-1]
        if not literals or len(literals) > _MOST or any(len(x) < short for x in literals):
            return frozenset()
        return frozenset(x[: next(n for n in self._sizes if n <= len(x))] for x in literals)


def grams_of(text: str, sizes: tuple[int, ...]) -> set[str]:
    """All runs of so many letters in a text."""
    return {text[i : i + size] for size in sizes for i in range(len(text) - size + 1)}


def needed(pattern: str) -> list[frozenset[str]]:
    """Sets of literals: every match of the pattern holds at least one of each."""
    return [s for s in _sets(parser.parse(pattern)) if s]


def _share(grams: Grams) -> float:
    """How much of all texts holds one of these, by their lengths: shorter ones stand in many more."""
    return sum(4.0 ** -len(g) for g in grams)


def _sets(sequence: Iterable[tuple[Any, Any]]) -> Iterator[frozenset[str]]:
    """The sets of the parts of a sequence; letters that follow one another are one literal."""
    run = ""
    for op, argument in sequence:
        if op is ops.LITERAL:
            run += chr(argument)
        elif op is not ops.AT:
            if run:
                yield _begun(run, argument[1]) if op is ops.BRANCH else frozenset([run])
            run = ""
            yield from _of_part(op, argument)
    if run:
        yield frozenset([run])


def _begun(run: str, branches: Iterable[Iterable[tuple[Any, Any]]]) -> frozenset[str]:
    """A literal with what follows it: the parser takes "b" out of "bleed|burn"."""
    return frozenset(
        run + "".join(chr(a) for _, a in takewhile(lambda part: part[0] is ops.LITERAL, b)) for b in branches
    )


def _of_part(op: Any, argument: Any) -> Iterator[frozenset[str]]:
    if op is ops.SUBPATTERN:
        yield from _sets(argument[3])
    elif op is ops.BRANCH:
        best = [max(_sets(branch), key=_worth, default=frozenset[str]()) for branch in argument[1]]
        yield frozenset().union(*best) if all(best) else frozenset()
    elif op in (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT) and argument[0] > 0:
        yield from _sets(argument[2])
    elif op is ops.ASSERT:
        yield from _sets(argument[1])
    elif op is ops.IN and all(kind is ops.LITERAL for kind, _ in argument):
        yield frozenset(chr(code) for _, code in argument)


def _worth(literals: frozenset[str]) -> float:
    return -_share(literals) if literals else -9.0
