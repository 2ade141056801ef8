"""A few SVG elements as safe markup: every attribute and every text is escaped here, once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

Child = str | Markup | Iterable["Child"]
Point = tuple[float, float]


def element(name: str, *children: Child, **attributes: object) -> Markup:
    """`element("rect", class_="c1", stroke_width=2)`: "class" and "stroke-width"; `None` leaves an attribute out."""
    told = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _number(value))
        for key, value in attributes.items()
        if value is not None
    )
    inner = Markup("").join(map(_markup, children))
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(name), told, inner)


def _markup(child: Child) -> Markup:
    if isinstance(child, str):
        return escape(child)
    return Markup("").join(map(_markup, child))


def _number(value: object) -> object:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value


def text(at: Point, said: str, class_: str = "", anchor: str = "start", **more: object) -> Markup:
    """A line of text whose base line begins (or ends, or has its middle) at a point."""
    return element("text", said, x=at[0], y=at[1], class_=class_ or None, text_anchor=anchor, **more)


def rect(x: float, y: float, width: float, height: float, class_: str, tip: str = "", **more: object) -> Markup:
    return element("rect", _tip(tip), x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), class_=class_, **more)


def path(commands: str, class_: str, tip: str = "", **more: object) -> Markup:
    return element("path", _tip(tip), d=commands, class_=class_, **more)


def line(a: Point, b: Point, class_: str) -> Markup:
    return element("line", x1=a[0], y1=a[1], x2=b[0], y2=b[1], class_=class_)


def polyline(points: Sequence[Point], class_: str) -> Markup:
    return element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=class_)


def polygon(points: Sequence[Point], class_: str, tip: str = "") -> Markup:
    return element("polygon", _tip(tip), points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=class_)


def dot(at: Point, radius: float, class_: str, tip: str = "") -> Markup:
    return element("circle", _tip(tip), cx=at[0], cy=at[1], r=radius, class_=class_)


def picture(width: float, height: float, title: str, *children: Child) -> Markup:
    """A whole plot: `title` is what a screen reader says, and the table under the plot holds its numbers."""
    kind = "plot" if width >= 400 else "plot narrow"
    box = f"0 0 {width:g} {height:g}"
    return element("svg", *children, viewBox=box, role="img", aria_label=title, class_=kind)


def _tip(said: str) -> Child:
    """What a pointer resting on a mark shows."""
    return element("title", said) if said else ""


def short(said: str, limit: int) -> str:
    """A label that fits."""
    return said if len(said) <= limit else said[: limit - 1].rstrip() + "…"


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions near the wanted ones (ascending), at least `gap` apart, as far as [low, high] has room."""
    placed: list[float] = []
    for y in wanted:
        placed.append(max(y, placed[-1] + gap if placed else low))
    limit = high
    for i in range(len(placed) - 1, -1, -1):
        placed[i] = min(placed[i], limit)
        limit = placed[i] - gap
    return placed
