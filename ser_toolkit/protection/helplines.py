"""Helplines by country, from the dated table `data/helplines.toml`. No number comes from anywhere else."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from functools import cache

from ser_toolkit.schema import RiskCategory

from .tables import table


@dataclass(frozen=True, slots=True)
class Helpline:
    """One line. `numbers` as they are printed; `checked` the day of the last comparison with its `source`."""

    country: str
    name: str
    numbers: tuple[str, ...]
    categories: tuple[RiskCategory, ...]
    source: str
    checked: datetime.date


def helplines(locale: str | None, category: RiskCategory | None = None) -> tuple[Helpline, ...]:
    """The lines of a locale ("en-US", "zh_CN", "GB"), of one crisis or of all; none where the country is not known.

    A language alone ("en", "zh") names no country, and has none.
    """
    country = country_of(locale)
    return tuple(x for x in _table()[0] if x.country == country and (category is None or category in x.categories))


def emergency_numbers(locale: str | None) -> tuple[str, ...]:
    """The numbers of police and ambulance of that country; none where it is not known."""
    return tuple(_table()[1].get(country_of(locale) or "", ()))


def country_of(locale: str | None) -> str | None:
    """The country of a locale, as two capitals: the last part that reads as one; "UK" is GB."""
    parts = re.split(r"[-_.@]", locale or "")
    found = [p for p in parts if re.fullmatch(r"[A-Z]{2}", p)]
    if not found and len(parts) > 1 and re.fullmatch(r"[a-z]{2}", parts[-1]):
        found = [parts[-1].upper()]
    return {"UK": "GB"}.get(found[-1], found[-1]) if found else None


@cache
def public_numbers() -> frozenset[str]:
    """The digits of every helpline and emergency number: what is nobody's private number."""
    lines, emergency, also_public = _table()
    numbers = [n for line in lines for n in line.numbers] + [n for some in emergency.values() for n in some]
    return frozenset(re.sub(r"\D", "", n) for n in (*numbers, *also_public))


@cache
def _table() -> tuple[tuple[Helpline, ...], dict[str, list[str]], tuple[str, ...]]:
    tree = table("helplines")
    lines = tuple(
        Helpline(x["country"], x["name"], tuple(x["numbers"]), tuple(x["for"]), x["source"], x["checked"])
        for x in tree["line"]
    )
    return lines, tree["emergency"], tuple(tree["also_public"])
