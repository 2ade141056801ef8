"""The page as text: the template, filled; what comes from data is escaped by the template, what is drawn by `svg`."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from ser_toolkit.metrics.measure import Cell, Figure, Measures

from ..evaluating import Evaluation, show, show_number
from . import plots

_HERE = Path(__file__).parent
_TILES = (
    "size.dialogues", "size.traces", "size.turns", "copies.dialogues", "leaks.groups", "making.format_failures",
    "safety.crisis",
)  # fmt: skip


def render_page(found: Evaluation) -> str:
    """One HTML document. Nothing in it asks for anything from outside, and it holds no script."""
    style = (_HERE / "style.css").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["cell"] = _cell
    environment.globals.update(plots=plots, show=show, figures=_figures, sides=_sides)
    page = environment.get_template("page.html.jinja").render(
        found=found,
        measured=found.measured,
        names=[m.release["name"] for m in found.measured],
        first=found.measured[0],
        tiles=_TILES,
        cards="cards" if len(found.measured) == 1 else "pairs",
        any_rows=lambda *keys: any(m.tables[k].rows for m in found.measured for k in keys),
        absent_embeddings=_absent_embeddings(found),
        style=Markup(style),  # ours, and the policy names its hash
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
    )
    return page.lstrip() + "\n"  # what the template defines before its first line leaves blank ones


def _absent_embeddings(found: Evaluation) -> list[str]:
    """Why there is no embedding distance, each reason once."""
    figures = (f for m in found.measured for k, f in m.figures.items() if k.endswith(".embedding_distance"))
    return list(dict.fromkeys(f.reason for f in figures if f.value is None))


def _cell(value: Cell) -> str:
    """A table's cell: missing is a dash."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.2f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) else value


def _figures(found: Evaluation, *prefixes: str) -> list[dict[str, Any]]:
    """The rows of a table of figures: title, a value a release, the difference, notes."""
    keys = dict.fromkeys(k for m in found.measured for k in m.figures if k.startswith(prefixes))
    rows = []
    for key in keys:
        both: list[Figure | None] = [m.figures.get(key) for m in found.measured]
        known = [f for f in both if f is not None]
        change = found.difference.get(key)
        rows.append(
            {
                "title": known[0].title,
                "values": [show(f) for f in both],
                "difference": "–" if change is None else show_number(change, known[0].unit, signed=True),
                "notes": _notes(known),
            }
        )
    return rows


def _notes(figures: Iterable[Figure]) -> list[str]:
    said = (f"over {f.over}" if f.value is not None and f.over else f.reason for f in figures)
    return [n for n in dict.fromkeys(said) if n]


def _sides(measured: tuple[Measures, ...]) -> list[tuple[str, Measures]]:
    """(name to show above a plot, measures): no name where there is one release."""
    letters = ("A", "B") if len(measured) > 1 else ("",)
    return [(f"{a}: {m.release['name']}" if a else "", m) for a, m in zip(letters, measured, strict=True)]
