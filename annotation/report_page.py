"""The annotator report as a page: how each one judges, where somebody leans or drifts, how well all agree.

One HTML document without a script. As a file it holds its style and asks for nothing; under the owner's link it takes
the style from the server, whose policy allows no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

_HERE = Path(__file__).parent
_PAGE = _HERE / "local" / "page"
STYLES = ("base.css", "report.css")


def report_page(found: Mapping[str, Any], *, is_file: bool, made: str) -> str:
    """The page of `reporting.every_report`, for a file or for the owner's link. `made`: when, in words."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= {"share": _share, "number": _number, "seconds": _seconds}
    style = "\n".join((_PAGE / name).read_text(encoding="utf-8") for name in STYLES) if is_file else ""
    page = environment.get_template("report.html.jinja").render(
        found=found, made=made, style=Markup(style), styles=() if is_file else STYLES, notes=notes(found["annotators"])
    )
    return page.lstrip() + "\n"


def notes(annotators: Sequence[Mapping[str, Any]]) -> list[str]:
    """Who leans to a side, and who drifts, each in a line with its test."""
    leaning = [
        f"{r['annotator']}: the same side {max(r['first'], r['second'])} of {r['first'] + r['second']} times "
        f"(exact two-sided p = {r['side_p']:.3f})"
        for r in annotators
        if r["is_one_sided"]
    ]
    drifting = [
        f"{r['annotator']}: agreement with others {r['drift']:+.0%} in the second half (Fisher p = {r['drift_p']:.3f})"
        for r in annotators
        if r["is_drifting"]
    ]
    return leaning + drifting


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}" if value >= 10 else f"{value:.1f}"
