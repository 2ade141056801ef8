"""What a measure of a data set is: a figure or a table with what it was taken over, or the reason why it is missing.

Missing is never zero: a measure that cannot be taken has `None` and a reason, and is shown so. May import: the standard
library.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Unit = Literal["count", "share", "score", "mean"]
"""How a figure reads: whole number, share in [0, 1], score, or mean of something that `over` names."""
Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Figure:
    """One number. `over` says what it was taken over, sampling included; `reason` why `value` is `None`."""

    key: str
    title: str
    value: float | None
    unit: Unit = "count"
    over: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under named columns. `reason` says why there are none; a cell is `None` where nothing was measured."""

    key: str
    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    over: str = ""
    reason: str = ""


@dataclass(slots=True)
class Measures:
    """All measures of one release, by key, in the order in which they are shown. `release` says which one it is."""

    release: dict[str, Any]
    figures: dict[str, Figure] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)

    def add(self, *measures: Figure | Table | Iterable[Figure | Table]) -> None:
        for m in measures:
            if isinstance(m, Figure):
                self.figures[m.key] = m
            elif isinstance(m, Table):
                self.tables[m.key] = m
            else:
                self.add(*m)

    def to_json(self) -> dict[str, Any]:
        return {
            "release": self.release,
            "figures": {
                f.key: {"title": f.title, "value": f.value, "unit": f.unit, "over": f.over, "reason": f.reason or None}
                for f in self.figures.values()
            },
            "tables": {
                t.key: {
                    "title": t.title,
                    "columns": list(t.columns),
                    "rows": [list(r) for r in t.rows],
                    "over": t.over,
                    "reason": t.reason or None,
                }
                for t in self.tables.values()
            },
        }


def share(key: str, title: str, part: float | None, whole: float | None, over: str = "", none: str = "") -> Figure:
    """part / whole; missing, with `none` as the reason, where either is missing or there is nothing to divide by."""
    if part is None or not whole:
        return Figure(key, title, None, "share", over, none or f"there are no {over or 'rows'}")
    return Figure(key, title, part / whole, "share", over)


def table(key: str, title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]], over: str, none: str) -> Table:
    """A table, missing with `none` as the reason where it has no rows."""
    made = tuple(tuple(r) for r in rows)
    return Table(key, title, tuple(columns), made, over, "" if made else none)
