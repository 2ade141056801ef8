"""Transcripts -> figures: means with bootstrap intervals, what is missing counted, crises apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from ser_toolkit.metrics.intervals import Mean, mean_interval
from ser_toolkit.metrics.units import split_units

from .evaluate import TalkTurn, Transcript
from .suites import FAILURE, SUCCESS, Suite

Value = Callable[[Transcript], float | None]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a run, on its scale ("share", "count", or low-high)."""

    name: str
    scale: str
    mean: Mean

    def to_json(self) -> dict[str, Any]:
        m = self.mean
        return {
            "name": self.name, "scale": self.scale, "value": m.value, "low": m.low, "high": m.high, "n": m.n,
            "missing": m.missing,
        }  # fmt: skip

    def render(self) -> str:
        m = self.mean
        value = "–" if m.value is None else f"{m.value:.3f}"
        interval = "" if m.low is None else f"{m.low:.3f} to {m.high:.3f}"
        return f"  {self.name:<18} {value:>9}  {interval:<20} {m.n:>5} {m.missing:>8}  {self.scale}"


HEADING = f"  {'':<18} {'mean':>9}  {'95 % interval':<20} {'n':>5} {'missing':>8}  scale"


def measures(suite: Suite) -> dict[str, tuple[str, Value]]:
    """What a suite measures of a transcript: name -> (scale, value)."""
    found: dict[str, tuple[str, Value]] = {}
    if suite.rubric is not None:
        dimensions = suite.rubric.dimensions
        for d in dimensions:
            found[d] = (suite.rubric.scale, lambda t, d=d: t.score(d))
        found["average"] = (suite.rubric.scale, lambda t: _mean([t.score(d) for d in dimensions]))
    if suite.tracks:
        found["emotion"] = ("0-100", lambda t: t.final_feeling)
        found["success"] = ("share", lambda t: _whether(t.final_feeling, lambda f: f >= SUCCESS))
        found["failure"] = ("share", lambda t: _whether(t.final_feeling, lambda f: f < FAILURE))
    return found


def habits(suite: Suite, style: str) -> dict[str, tuple[str, Value]]:
    """How the policy talked, whatever it was worth: its silence, its replies' length and number, its format."""
    found: dict[str, tuple[str, Value]] = {
        "silent": ("share", lambda t: float(t.end == "no_reply")),
        "replies": ("count", lambda t: float(len(_replies(t)))),
        "reply_length": ("count", lambda t: _length([r.text for r in _replies(t)])),
    }
    if style == "ser":
        found["formatted"] = ("share", lambda t: _mean([float(bool(r.is_formatted)) for r in _replies(t)]))
    return found


def figures(
    transcripts: Sequence[Transcript],
    wanted: dict[str, tuple[str, Value]],
    *,
    unplayed: int = 0,
    resamples: int,
    seed: int,
) -> list[Figure]:
    """The figures over these transcripts; an item that could not be played is missing in each."""
    return [
        Figure(
            name,
            scale,
            mean_interval([*(value(t) for t in transcripts), *(None,) * unplayed], resamples=resamples, seed=seed),
        )
        for name, (scale, value) in wanted.items()
    ]


@dataclass(frozen=True, slots=True)
class CrisisFigures:
    """Talks that hold crisis content, apart: the suite's figures over them, and how many of their messages were met
    with a reply that stands up to the rules. `handled` is `None` where there was none.
    """

    talks: int
    messages: int
    levels: dict[str, int]
    handled: Mean
    problems: dict[str, int]
    locale: str | None
    figures: list[Figure]

    def to_json(self) -> dict[str, Any]:
        return {
            "talks": self.talks, "messages": self.messages, "levels": self.levels, "problems": self.problems,
            "handled": Figure("handled", "share", self.handled).to_json(), "locale": self.locale,
            "figures": [f.to_json() for f in self.figures],
        }  # fmt: skip

    def render(self) -> list[str]:
        if not self.messages:
            return ["crisis content: in no message that was to be answered"]
        told = ", ".join(f"{name} {n}" for name, n in sorted(self.problems.items())) or "none"
        lines = [f"crisis content: {self.messages} messages in {self.talks} talks; problems of the replies: {told}"]
        return [*lines, Figure("handled", "share", self.handled).render(), *(f.render() for f in self.figures)]


def crisis_figures(
    transcripts: Sequence[Transcript], suite: Suite, *, locale: str | None, resamples: int, seed: int
) -> CrisisFigures:
    """Crises, apart. Silence and refusal there count as failed, never as left out."""
    talks = [t for t in transcripts if t.crisis]
    replies = [c for t in talks for c in t.crisis]
    return CrisisFigures(
        talks=len(talks),
        messages=len(replies),
        levels=dict(Counter(c.level for c in replies)),
        handled=mean_interval([float(c.is_handled) for c in replies], resamples=resamples, seed=seed),
        problems=dict(Counter(p for c in replies for p in c.problems)),
        locale=locale,
        figures=figures(talks, measures(suite), resamples=resamples, seed=seed),
    )


def _replies(transcript: Transcript) -> list[TalkTurn]:
    return [t for t in transcript.turns if t.speaker == "supporter"]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _length(texts: Sequence[str]) -> float | None:
    """Mean length in words, in Chinese in characters."""
    return float(split_units(pl.Series(texts)).list.len().mean()) if texts else None  # type: ignore[arg-type]


def _whether(feeling: int | None, test: Callable[[int], bool]) -> float | None:
    return None if feeling is None else float(test(feeling))
