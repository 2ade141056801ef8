"""The page of `ser eval rm`: figures with intervals and baselines, reliability, confusion; one file, no script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from rm_training.measures import BASELINES, Score
from ser_toolkit.metrics.calibration import Bin
from ser_toolkit.rewards.unified import ALLOWED

from .charts import ROW, WIDTH, heat
from .svg import dot, line, picture, rect, text

if TYPE_CHECKING:
    from ..evaluating_rm import JudgeEvaluation

_HERE = Path(__file__).parent
_JUDGES = ("c-explore1", "c-reassure2")
_SHAPES = {"majority": "c-neutral", "longest": "c-act1", "shortest": "c-act2", "first": "c-shame", "labels": "c-joy"}


def render_judges(found: JudgeEvaluation) -> str:
    """One HTML document, without a script and without anything from outside."""
    from ..evaluating_rm import shown, span

    style = (_HERE / "style.css").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals.update(shown=shown, span=span)
    return environment.get_template("judges.html.jinja").render(
        found=found,
        judges=found.judges,
        data=found.data,
        baselines=BASELINES,
        dots=_dots(found),
        legend=[*zip((j.name for j in found.judges), _JUDGES, strict=False), *_SHAPES.items()],
        reliability=[(j.name, part, _reliability(f"{j.name}: {part}", bins), bins) for j, part, bins in _bins(found)],
        confusion=[
            (j.name, part, heat(f"{j.name}: {part}", ALLOWED[n], ALLOWED[n], counts))
            for j in found.judges
            for n, (part, counts) in enumerate(j.measured.confusion.items())
            if any(map(any, counts))
        ],
        titles={s.key: s.title for s in found.judges[0].measured.scores},
        card=[(j.name, list(_flat(j.card))) for j in found.judges],
        style=Markup(style),
        style_hash=base64.b64encode(hashlib.sha256(style.encode()).digest()).decode(),
    )


def _bins(found: JudgeEvaluation) -> list[tuple[Any, str, list[Bin]]]:
    return [(j, part, bins) for j in found.judges for part, bins in j.measured.bins.items() if bins]


def _dots(found: JudgeEvaluation) -> Markup:
    """A row a figure on a scale of 0 to 100 %: each judge's value with its interval, the baselines as rings."""
    left, right = 168.0, WIDTH - 44
    rows = [list(pair) for pair in zip(*(j.measured.scores for j in found.judges), strict=True)]
    tall = ROW + 8 * (len(found.judges) - 1)
    marks: list[Markup] = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x = left + (right - left) * share
        marks += [line((x, 4), (x, len(rows) * tall + 4), "grid")]
        marks += [text((x, len(rows) * tall + 18), f"{100 * share:.0f}", "muted small", "middle")]
    for i, scores in enumerate(rows):
        top = i * tall + 6
        marks.append(text((left - 10, top + tall / 2 + 3), scores[0].title, "label small", "end"))
        for name, value in scores[0].baselines.items():
            if value is not None:
                x = left + (right - left) * value
                marks.append(dot((x, top + tall / 2), 3.5, f"mark {_SHAPES[name]}", f"{name}: {100 * value:.1f} %"))
        for k, score in enumerate(scores):
            marks += _interval(score, top + 9 + 8 * k + (4 if len(scores) == 1 else 0), left, right, _JUDGES[k])
    return picture(WIDTH, len(rows) * tall + 24, "Figures in per cent, with 95 % intervals and baselines", marks)


def _interval(score: Score, y: float, left: float, right: float, class_: str) -> list[Markup]:
    v = score.value
    if v.value is None:
        return []
    x = left + (right - left) * v.value
    marks = []
    if v.low is not None and v.high is not None:
        ends = [left + (right - left) * e for e in (v.low, v.high)]
        marks.append(rect(ends[0], y - 1, max(ends[1] - ends[0], 1.0), 2, f"mark {class_}"))
    return [*marks, dot((x, y), 4, f"mark {class_}", f"{score.title}: {100 * v.value:.1f} %, n {v.n}")]


def _reliability(title: str, bins: Sequence[Bin]) -> Markup:
    """Confidence against the share right: on the diagonal a judge means what it says; a dot's area is its items."""
    side, edge = 250.0, 34.0
    most = max(b.n for b in bins)

    def at(confidence: float, right: float) -> tuple[float, float]:
        return edge + side * confidence, 8 + side * (1 - right)

    marks = [line(at(0, v), at(1, v), "grid") for v in (0.0, 0.5, 1.0)]
    marks.append(line(at(0, 0), at(1, 1), "median"))
    for b in bins:
        tip = f"{b.low:.1f} to {b.high:.1f}: {b.n} answers, confidence {b.confidence:.2f}, right {b.right:.2f}"
        marks.append(dot(at(b.confidence, b.right), 3 + 7 * (b.n / most) ** 0.5, "mark c-explore2", tip))
    marks += [text((edge - 6, at(0, v)[1] + 4), f"{100 * v:.0f}", "muted small", "end") for v in (0.0, 0.5, 1.0)]
    marks += [text((at(v, 0)[0], side + 24), f"{100 * v:.0f}", "muted small", "middle") for v in (0.0, 0.5, 1.0)]
    return picture(edge + side + 16, side + 30, title, marks)


def _flat(tree: Mapping[str, Any], above: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in tree.items():
        name = f"{above}{key.replace('_', ' ')}"
        rows += _flat(value, f"{name}, ") if isinstance(value, dict) else [(name, "–" if value is None else str(value))]
    return rows
