"""Exact two-sided tests on small counts."""

from __future__ import annotations

from math import comb


def binomial_two_sided(successes: int, trials: int) -> float | None:
    """The exact two-sided p that a fair coin strays so far from half; `None` without trials."""
    if not trials:
        return None
    extreme = max(successes, trials - successes)
    tail = sum(comb(trials, k) for k in range(extreme, trials + 1))
    return min(1.0, 2 * tail / 2**trials)


def fisher_two_sided(a: int, b: int, c: int, d: int) -> float | None:
    """Fisher's exact two-sided p for the table [[a, b], [c, d]]; `None` where a row or a column is empty.

    The sum over all tables of the same margins that are no likelier than this one.
    """
    first, second, hits = a + b, c + d, a + c
    if not first or not second or not hits or not b + d:
        return None
    ways = {k: comb(first, k) * comb(second, hits - k) for k in range(max(0, hits - second), min(first, hits) + 1)}
    return min(1.0, sum(w for w in ways.values() if w <= ways[a]) / sum(ways.values()))
