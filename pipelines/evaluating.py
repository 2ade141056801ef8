"""`ser eval dataset`: every measure of a release, or of two releases side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ser_toolkit.metrics import making
from ser_toolkit.metrics.composition import Corpus, label_mix, lengths, sizes, strategies
from ser_toolkit.metrics.feelings import feelings
from ser_toolkit.metrics.measure import Figure, Measures
from ser_toolkit.metrics.repetition import SAMPLE, Embedder, copies, stock, variety
from ser_toolkit.releases.load import load_release


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The measures of one release or two; `difference` is B - A of every figure that both have."""

    measured: tuple[Measures, ...]

    @property
    def difference(self) -> dict[str, float | None]:
        if len(self.measured) < 2:
            return {}
        a, b = (m.figures for m in self.measured)
        return {key: _minus(a.get(key), b.get(key)) for key in dict.fromkeys((*a, *b))}

    def to_json(self) -> dict[str, Any]:
        if len(self.measured) == 1:
            return self.measured[0].to_json()
        a, b = (m.to_json() for m in self.measured)
        return {"a": a, "b": b, "difference": self.difference}

    def render(self) -> str:
        names = [m.release["name"] for m in self.measured]
        lines = [" -> ".join(names)]
        difference = self.difference
        for key in dict.fromkeys(k for m in self.measured for k in m.figures):
            both = [m.figures.get(key) for m in self.measured]
            title = next(f.title for f in both if f)
            shown = " -> ".join(show(f) for f in both)
            change = difference.get(key)
            if change is not None:
                shown += f"  ({show_number(change, next(f for f in both if f).unit, signed=True)})"
            notes = dict.fromkeys(f.over if f.value is not None else f.reason for f in both if f)
            lines.append(f"  {title:<46} {shown:<14} {'; '.join(n for n in notes if n)}".rstrip())
        return "\n".join(lines)


def evaluate(
    releases: Sequence[str | Path], *, embedder: Embedder | None = None, sample: int = SAMPLE, seed: int = 0
) -> Evaluation:
    """Measure one release or two. Two are sampled alike: of each kind of text as many as the one with fewer has.

    Raises what `load_release` does.
    """
    corpora = [Corpus(load_release(r)) for r in releases]
    return Evaluation(tuple(measure(c, corpora, embedder=embedder, sample=sample, seed=seed) for c in corpora))


def measure(
    corpus: Corpus,
    beside: Sequence[Corpus] = (),
    *,
    embedder: Embedder | None = None,
    sample: int = SAMPLE,
    seed: int = 0,
) -> Measures:
    """Every measure of a release; samples are no larger than those that the releases `beside` it allow."""
    manifest = corpus.release.manifest
    told = {"name": f"{manifest['name']}-{manifest['version']}", "content_hash": manifest["content_hash"]}
    told |= {k: manifest.get(k) for k in ("created", "machinery_only", "written_by")}
    found = Measures(told)
    found.add(sizes(corpus), making.languages(corpus), label_mix(corpus), strategies(corpus), feelings(corpus))
    found.add(lengths(corpus), variety(corpus, embedder, sample, seed, beside), stock(corpus), copies(corpus))
    found.add(making.failures(corpus), making.filtering(corpus), making.rewriting(corpus))
    found.add(making.crisis(corpus), making.licences(corpus))
    return found


def _minus(a: Figure | None, b: Figure | None) -> float | None:
    return None if a is None or b is None or a.value is None or b.value is None else b.value - a.value


def show(figure: Figure | None) -> str:
    """A figure for people; a missing one is a dash, never a zero."""
    return "–" if figure is None or figure.value is None else show_number(figure.value, figure.unit)


def show_number(value: float, unit: str, *, signed: bool = False) -> str:
    """A share as per cent, a score with three decimals, a count with thousands."""
    form = "+" if signed else ""
    if unit == "share":
        return f"{100 * value:{form}.1f} {'points' if signed else '%'}"
    if unit == "count":
        return f"{round(value):{form},}"
    return f"{value:{form}.{3 if unit == 'score' else 1}f}"
