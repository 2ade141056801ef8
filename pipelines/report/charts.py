"""The kinds of plots of a report, each a function from numbers to one SVG.

They are drawn 440 units wide (histograms less), so that a plot fills a phone and stands beside a second one on a desk.
Colours are classes: the page's style sheet knows them for light and dark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from .svg import Point, dot, element, line, path, picture, polygon, polyline, rect, short, spread, text

WIDTH = 440.0
ROW = 26.0
HEAT_OPACITY = 0.62
"""Of the darkest cell of a heat map: what is written on it can still be read."""


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "–"


def stacked(title: str, rows: Mapping[str, Mapping[str, float]], classes: Mapping[str, str]) -> Markup:
    """One bar a row, of equal length, divided by its parts' shares."""
    left, right = 78.0, WIDTH - 52
    marks: list[Markup] = []
    for i, (name, parts) in enumerate(rows.items()):
        y, total = i * (ROW + 8) + 4, sum(parts.values())
        marks.append(text((left - 10, y + ROW * 0.66), short(name, 12), "label", "end"))
        marks.append(text((right + 8, y + ROW * 0.66), f"{total:,.0f}", "muted"))
        x = left
        for part, n in parts.items():
            if n and total:
                width = (right - left) * n / total
                tip = f"{name}: {part} {n:,.0f} ({percent(n, total)})"
                marks.append(rect(x, y, max(width - 1.5, 0.5), ROW, f"mark {classes[part]}", tip, rx=1.5))
                x += width
    return picture(WIDTH, len(rows) * (ROW + 8) + 2, title, marks)


def bars(title: str, rows: Sequence[tuple[str, float, str]], *, whole: float | None = None, top: float | None = None,
         digits: int = 0, label_width: float = 168) -> Markup:  # fmt: skip
    """A horizontal bar a row, of (label, value, class); with `whole`, its share stands beside the value."""
    left, right = label_width, WIDTH - 84
    longest = top or max((v for _, v, _ in rows), default=1) or 1
    marks: list[Markup] = []
    for i, (name, value, class_) in enumerate(rows):
        y = i * ROW + 3
        length = (right - left) * value / longest
        shown = f"{value:,.{digits}f}" + (f" · {percent(value, whole)}" if whole else "")
        marks.append(text((left - 10, y + 15), short(name, int(label_width / 6.3)), "label", "end"))
        marks.append(rect(left, y + 2, right - left, ROW - 9, "ghost", rx=2))
        marks.append(
            rect(left, y + 2, max(length, 1.0 if value else 0.0), ROW - 9, f"mark {class_}", f"{name}: {shown}", rx=2)
        )
        marks.append(text((right + 8, y + 15), shown, "muted"))
    return picture(WIDTH, len(rows) * ROW + 4, title, marks)


def areas(
    title: str, columns: Sequence[str], series: Mapping[str, Sequence[float]], classes: Mapping[str, str]
) -> Markup:
    """Shares of a whole along an axis, stacked; each series is named where it ends."""
    left, right, high, low = 6.0, WIDTH - 160, 8.0, 232.0
    totals = [sum(values[i] for values in series.values()) for i in range(len(columns))]
    shown = [i for i, n in enumerate(totals) if n]
    if len(shown) < 2:
        return stacked(title, {columns[i]: {k: v[i] for k, v in series.items()} for i in shown}, classes)
    xs = {i: left + (right - left) * rank / (len(shown) - 1) for rank, i in enumerate(shown)}
    floor = dict.fromkeys(shown, 0.0)
    marks: list[Markup] = []
    ends: list[tuple[float, str]] = []
    for name, values in series.items():
        ceiling = {i: floor[i] + values[i] / totals[i] for i in shown}
        lower = [(xs[i], low - (low - high) * floor[i]) for i in shown]
        upper = [(xs[i], low - (low - high) * ceiling[i]) for i in shown]
        told = ", ".join(f"{columns[i]} {percent(values[i], totals[i])}" for i in shown)
        if any(values[i] for i in shown):
            marks.append(polygon([*lower, *reversed(upper)], f"mark area {classes[name]}", f"{name}: {told}"))
            ends.append(((lower[-1][1] + upper[-1][1]) / 2, name))
        floor = ceiling
    marks += [line((xs[i], high), (xs[i], low), "grid") for i in shown]
    marks += _named_at(right + 6, [(y + 4, n, classes[n]) for y, n in ends], high + 4, low + 4)
    marks += [
        text(
            (xs[i], low + 18),
            columns[i],
            "muted small",
            "start" if i == shown[0] else "end" if i == shown[-1] else "middle",
        )
        for i in shown
    ]
    return picture(WIDTH, low + 26, title, marks)


def _named_at(x: float, ends: Sequence[tuple[float, str, str]], high: float, low: float) -> list[Markup]:
    """Names beside the right ends of series, moved apart where they would touch, each with a chip of its colour."""
    ordered = sorted(ends)
    ys = spread([y for y, _, _ in ordered], 15, high, low)
    marks: list[Markup] = []
    for y, (_, name, class_) in zip(ys, ordered, strict=True):
        marks.append(rect(x, y - 8, 8, 8, f"mark {class_}", rx=2))
        marks.append(text((x + 13, y), short(name, 24), "label small"))
    return marks


def heat(title: str, rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]]) -> Markup:
    """Shares within each row, the darker the greater; the count is under the pointer and in the table."""
    left, high = 158.0, 76.0
    size = (WIDTH - left - 4) / len(columns)
    greatest = max((n / sum(row) for row in values for n in row if n), default=1.0)
    marks: list[Markup] = []
    for j, name in enumerate(columns):
        x = left + (j + 0.5) * size
        marks.append(
            text(
                (x + 4, high - 8),
                short(name, 13),
                "label small",
                "start",
                transform=f"rotate(-52 {x + 4:.1f} {high - 8})",
            )
        )
    for i, (name, row) in enumerate(zip(rows, values, strict=True)):
        y, total = high + i * ROW, sum(row)
        marks.append(text((left - 10, y + 17), short(name, 24), "label", "end"))
        for j, n in enumerate(row):
            x, part = left + j * size, n / total if total else 0.0
            tip = f"{name}, {columns[j]}: {n:,.0f} ({percent(n, total)})"
            marks.append(rect(x + 1, y + 1, size - 2, ROW - 2, "ghost", rx=2))
            if n:
                marks.append(
                    rect(
                        x + 1,
                        y + 1,
                        size - 2,
                        ROW - 2,
                        "mark heat",
                        tip,
                        rx=2,
                        fill_opacity=round(0.05 + (HEAT_OPACITY - 0.05) * part / greatest, 3),
                    )
                )
            if part >= 0.005:
                marks.append(text((x + size / 2, y + 17), f"{100 * part:.0f}", "label tiny", "middle"))
    return picture(WIDTH, high + len(rows) * ROW + 4, title, marks)


def flow(
    title: str, moves: Sequence[tuple[str, str, float]], classes: Mapping[str, str], ends: tuple[str, str]
) -> Markup:
    """Ribbons from what was first to what was last, as wide as there are dialogues (after Sankey)."""
    order = list(classes)
    left, right, width, high = 104.0, WIDTH - 104, 11.0, 26.0
    whole = sum(n for *_, n in moves) or 1
    sources, targets = _totals(moves, 0, order), _totals(moves, 1, order)
    gap = 7.0
    tall = max(len(sources), len(targets)) * 19 + 120
    scale = (tall - gap * (max(len(sources), len(targets)) - 1)) / whole
    starts, stops = _stack(sources, scale, gap, high), _stack(targets, scale, gap, high)
    marks = [text((left + width, 14), ends[0], "muted small", "end"), text((right - width, 14), ends[1], "muted small")]
    out, into = dict(starts), dict(stops)
    for a, b, n in sorted(moves, key=lambda m: (order.index(m[0]), order.index(m[1]))):
        y1, y2, h, mid = out[a], into[b], n * scale, (left + right) / 2
        out[a], into[b] = y1 + h, y2 + h
        d = (
            f"M{left + width:.1f} {y1:.1f}C{mid:.1f} {y1:.1f} {mid:.1f} {y2:.1f} {right - width:.1f} {y2:.1f}"
            f"V{y2 + h:.1f}C{mid:.1f} {y2 + h:.1f} {mid:.1f} {y1 + h:.1f} {left + width:.1f} {y1 + h:.1f}Z"
        )
        marks.append(path(d, f"ribbon {classes[a]}", f"{a} → {b}: {n:,.0f} ({percent(n, whole)})"))
    for totals, at, x, anchor, edge in (
        (sources, starts, left, "end", -7.0),
        (targets, stops, right - width, "start", width + 7),
    ):
        labels = spread([at[k] + n * scale / 2 + 4 for k, n in totals.items()], 14, high + 4, high + tall + 4)
        for (k, n), y in zip(totals.items(), labels, strict=True):
            marks.append(rect(x, at[k], width, max(n * scale, 1.0), f"mark {classes[k]}", f"{k}: {n:,.0f}", rx=1.5))
            marks.append(text((x + edge, y), f"{short(k, 12)} {percent(n, whole)}", "label small", anchor))
    return picture(WIDTH, high + tall + 10, title, marks)


def _totals(moves: Sequence[tuple[str, str, float]], end: int, order: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for move in moves:
        found[str(move[end])] = found.get(str(move[end]), 0) + move[2]
    return {k: found[k] for k in order if k in found}


def _stack(totals: Mapping[str, float], scale: float, gap: float, high: float) -> dict[str, float]:
    """Where each block begins, from the top."""
    y, at = high, {}
    for k, n in totals.items():
        at[k] = y
        y += n * scale + gap
    return at


def histogram(
    title: str, bins: Sequence[tuple[float | None, float | None, float]], class_: str, middle: float | None = None
) -> Markup:
    """Bars over (from, below, count) bins of equal width; an end is `None` where the bin is open."""
    width, high, low = 330.0, 26.0, 128.0
    step = next((b - a for a, b, _ in bins if a is not None and b is not None), 1.0)
    first = (bins[0][1] - step) if bins[0][1] is not None else (bins[0][0] or 0.0)
    most, size = max(n for *_, n in bins) or 1, (width - 8) / len(bins)
    marks: list[Markup] = []
    for i, (start, end, n) in enumerate(bins):
        height = (low - high) * n / most
        tip = f"{_range(start, end)}: {n:,.0f}"
        marks.append(rect(4 + i * size + 0.7, low - height, size - 1.4, height, f"mark {class_}", tip, rx=1))
    marks.append(line((4, low), (width - 4, low), "axis"))
    for i in range(0, len(bins), max(1, -(-len(bins) // 7))):
        marks.append(text((4 + (i + 0.5) * size, low + 16), f"{first + i * step:g}", "muted small", "middle"))
    if middle is not None:
        x = 4 + min(max((middle - first) / step + (0.5 if step == 1 else 0.0), 0.0), len(bins)) * size
        marks += [line((x, high - 8), (x, low), "median"), _beside(x, width, f"median {middle:g}")]
    return picture(width, low + 22, title, marks)


def _beside(x: float, width: float, said: str) -> Markup:
    """A label on that side of a line where there is room."""
    anchor = "end" if x > width * 0.7 else "start"
    return text((x + (5 if anchor == "start" else -5), 18), said, "label small", anchor)


def _range(start: float | None, end: float | None) -> str:
    if start is None:
        return f"up to {(end or 1) - 1:g}"
    if end is None:
        return f"{start:g} or more"
    return f"{start:g}" if end - start == 1 else f"{start:g} to {end - 1:g}"


def elbow(title: str, curve: Sequence[tuple[float, float, bool]]) -> Markup:
    """The sum of squared errors by k; the chosen k is marked."""
    left, right, high, low = 58.0, WIDTH - 18, 18.0, 180.0
    ks, errors = [k for k, *_ in curve], [e for _, e, _ in curve]
    top = max(errors) or 1
    span = (max(ks) - min(ks)) or 1
    at: list[Point] = [
        (left + (right - left) * (k - min(ks)) / span, low - (low - high) * e / top) for k, e, _ in curve
    ]
    marks: list[Markup] = []
    for part in (0.0, 0.5, 1.0):
        y = low - (low - high) * part
        marks += [
            line((left, y), (right, y), "grid"),
            text((left - 8, y + 4), f"{top * part:,.0f}", "muted small", "end"),
        ]
    marks.append(polyline(at, "curve"))
    for (x, y), (k, e, chosen) in zip(at, curve, strict=True):
        marks.append(dot((x, y), 6.5 if chosen else 3.5, "chosen" if chosen else "point", f"k = {k:g}: {e:,.1f}"))
        marks.append(text((x, low + 17), f"{k:g}", "label small" if chosen else "muted small", "middle"))
        if chosen:
            marks.append(text((x + 10, y - 9), f"chosen: k = {k:g}", "label"))
    marks.append(text(((left + right) / 2, low + 34), "clusters (k)", "muted small", "middle"))
    return picture(WIDTH, low + 40, title, marks)


def profiles(
    title: str, axes: Sequence[str], lines: Sequence[tuple[str, float, Sequence[float], str]], top: float
) -> Markup:
    """Each line one cluster: (name, weight, a value an axis, class); the heavier the thicker."""
    left, right, high, low = 40.0, WIDTH - 136, 16.0, 180.0
    xs = [left + (right - left) * i / (len(axes) - 1) for i in range(len(axes))]
    whole = sum(w for _, w, _, _ in lines) or 1
    marks: list[Markup] = [line((x, high), (x, low), "grid") for x in xs]
    marks += [
        text((left - 6, low - (low - high) * v / top + 4), f"{v:g}", "muted small", "end") for v in (0, top / 2, top)
    ]
    ends: list[tuple[float, str, str]] = []
    for name, weight, values, class_ in lines:
        points = [(x, low - (low - high) * v / top) for x, v in zip(xs, values, strict=True)]
        told = ", ".join(f"{a} {v:.1f}" for a, v in zip(axes, values, strict=True))
        marks.append(
            element(
                "polyline", element("title", f"{name}: {told}"), class_=f"line {class_}",
                points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), stroke_width=round(1.6 + 4 * weight / whole, 2),
            )
        )  # fmt: skip
        marks += [dot(p, 3.2, f"mark {class_}") for p in points]
        ends.append((points[-1][1] + 4, f"{name}: {percent(weight, whole)}", class_))
    marks += _named_at(right + 10, ends, high + 4, low + 4)
    marks += [text((x, low + 18), axis, "muted small", "middle") for x, axis in zip(xs, axes, strict=True)]
    return picture(WIDTH, low + 26, title, marks)
