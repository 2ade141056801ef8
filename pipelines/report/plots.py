"""Which plot shows which table, and in which colours. Each function takes the measures of one release.

A plot that cannot be drawn is `None`: the page then says why its table is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from markupsafe import Markup

from ser_toolkit.metrics.composition import UNNAMED
from ser_toolkit.metrics.measure import Measures, Table
from ser_toolkit.releases.splits import SPLITS
from ser_toolkit.taxonomy import DISC, EMOTIONS, INTENSITIES, SENTIMENTS, STAGES, STRATEGIES

from . import charts

CLASSES: dict[str, dict[str, str]] = {
    "stage": {"Exploration": "c-explore2", "Reassurance": "c-reassure2", "Action": "c-act1"},
    "strategy": {
        s: f"c-{group}{i}"
        for group, stage in (("explore", "Exploration"), ("reassure", "Reassurance"), ("act", "Action"))
        for i, s in enumerate(STAGES[stage], 1)
    },
    "emotions": {e: f"c-{e.lower()}" for e in EMOTIONS},
    "sentiment": {"Positive": "c-positive", "Negative": "c-negative", "Neutral": "c-neutral"},
    "intensity": {w: f"c-level{i}" for i, w in enumerate(INTENSITIES, 1)},
    "saw": {"image": "c-explore2", "cues": "c-reassure2", "text": "c-neutral"},
    "verdicts": {
        "first_better": "c-explore2", "second_better": "c-reassure2", "almost_equal": "c-neutral", "neither": "c-act1",
    },
}  # fmt: skip
_PARTS = ("start", "early", "middle", "late", "end")


def _table(m: Measures, key: str) -> Table | None:
    found = m.tables.get(key)
    return found if found is not None and found.rows else None


def _classes(field: str, words: Sequence[str]) -> dict[str, str]:
    """A class for every word, also for one that the taxonomy does not know."""
    return {w: CLASSES.get(field, {}).get(w, "c-unnamed") for w in words}


def mix(m: Measures, field: str) -> Markup | None:
    """The label mix of each split as bars of equal length."""
    t = _table(m, f"labels.{field}")
    if t is None:
        return None
    words = [str(r[0]) for r in t.rows]
    rows = {s: {w: _n(r[1 + i]) for w, r in zip(words, t.rows, strict=True)} for i, s in enumerate(SPLITS)}
    return charts.stacked(
        f"{t.title} by split", {s: r for s, r in rows.items() if sum(r.values())}, _classes(field, words)
    )


def legend(m: Measures, field: str) -> list[tuple[str, str]]:
    """(word, class) of the labels that a mix shows."""
    if field == "splits":
        return list(SPLIT_CLASSES.items())
    t = _table(m, f"labels.{field}")
    words = [str(r[0]) for r in t.rows if any(_n(x) for x in r[1:])] if t else []
    return list(_classes(field, words).items())


def strategy_bars(m: Measures) -> Iterator[tuple[str, Markup]]:
    """One plot a stage: its strategies, on one scale."""
    t = _table(m, "strategy.stage")
    if t is None:
        return
    totals = {str(r[0]): sum(_n(x) for x in r[1:]) for r in t.rows}
    whole, top = sum(totals.values()), max(totals.values())
    for stage, group in (*STAGES.items(), ("No strategy named", (UNNAMED,))):
        rows = [
            (s, totals.get(s, 0), CLASSES["strategy"].get(s, "c-unnamed"))
            for s in group
            if stage in STAGES or totals.get(s)
        ]
        if rows:
            title = f"Strategies of {stage}" if stage in STAGES else stage
            yield stage, charts.bars(title, rows, whole=whole, top=top)


def strategy_areas(m: Measures) -> Markup | None:
    return _areas(m, "strategy.part", "strategy", "Share of each strategy from the start of a talk to its end")


def stage_areas(m: Measures) -> Markup | None:
    return _areas(m, "stage.part", "stage", "Share of each stage from the start of a talk to its end")


def emotion_areas(m: Measures) -> Markup | None:
    return _areas(m, "emotion.part", "emotions", "Share of each emotion from the start of a talk to its end")


def _areas(m: Measures, key: str, field: str, title: str) -> Markup | None:
    t = _table(m, key)
    if t is None:
        return None
    series = {str(r[0]): [_n(x) for x in r[1:]] for r in t.rows}
    return charts.areas(title, _PARTS, series, _classes(field, list(series)))


def strategy_heat(m: Measures) -> Markup | None:
    """Strategy by the first emotion named; columns that never occur are left out."""
    t = _table(m, "strategy.emotion")
    if t is None:
        return None
    used = [j for j in range(1, len(t.columns)) if any(_n(r[j]) for r in t.rows)]
    columns, rows = [t.columns[j] for j in used], [r for r in t.rows if any(_n(x) for x in r[1:])]
    values = [[_n(r[j]) for j in used] for r in rows]
    return charts.heat("Which feeling each strategy answers", [str(r[0]) for r in rows], columns, values)


def flow(m: Measures, field: str) -> Markup | None:
    t = _table(m, f"flow.{field}")
    if t is None:
        return None
    words = {"emotion": ("emotions", EMOTIONS), "turns": ("emotions", EMOTIONS), "sentiment": ("sentiment", SENTIMENTS),
             "intensity": ("intensity", INTENSITIES)}[field]  # fmt: skip
    ends = ("an utterance", "the next") if field == "turns" else ("first trace", "last trace")
    moves = [(str(a), str(b), _n(n)) for a, b, n in t.rows]
    known = dict.fromkeys((*words[1], *(w for a, b, _ in moves for w in (a, b))))
    return charts.flow(t.title, moves, _classes(words[0], list(known)), ends)


_KINDS = {
    "reply": ("Replies in traces", "c-explore2"), "reference": ("Replies of the corpus", "c-neutral"),
    "seeker": ("Utterances of seekers", "c-reassure2"), "supporter": ("Utterances of supporters", "c-act1"),
    "trace": ("Whole traces", "c-explore1"), "dialogue": ("Turns of a dialogue", "c-reassure1"),
}  # fmt: skip


def lengths(m: Measures) -> Iterator[tuple[str, Table, Markup]]:
    """(caption, table, plot) of every kind of text and language that is there."""
    for key, t in m.tables.items():
        room, _, rest = key.partition(".")
        lang, _, kind = rest.partition(".")
        if room != "lengths" or not kind:
            continue
        name, class_ = _KINDS[kind]
        medians = {r[0]: r[4] for r in m.tables[f"lengths.{lang}"].rows}
        unit = "turns" if kind == "dialogue" else m.tables[f"lengths.{lang}"].over
        middle: Any = medians.get(kind)
        title = f"{name}, in {unit} ({lang})"
        yield title, t, charts.histogram(title, t.rows, class_, middle)  # pyright: ignore[reportArgumentType]


SPLIT_CLASSES = {"train": "c-explore1", "validation": "c-explore3", "test": "c-reassure2"}


def rows(m: Measures) -> Markup | None:
    """Rows of each config by split."""
    t = _table(m, "size.rows")
    if t is None:
        return None
    there: dict[str, Mapping[str, float]] = {
        str(r[0]): dict(zip(SPLITS, map(_n, r[1:4]), strict=True)) for r in t.rows if any(r[1:4])
    }
    return charts.stacked("Rows by split", there, SPLIT_CLASSES)


_TEXTS = {"reply": "replies in traces", "seeker": "utterances of seekers", "supporter": "utterances of supporters"}


def variety(m: Measures) -> Iterator[tuple[str, str, Markup]]:
    """(caption, note, plot) of the sampled measures of variety, by language."""
    for lang in sorted({key.split(".")[1] for key in m.figures if key.startswith("variety.")}):
        for name, title in (
            ("sample_distinct_2", "distinct-2: higher is more varied"),
            ("self_bleu", "Self-BLEU: lower is more varied"),
            ("embedding_distance", "Embedding distance: higher is more varied"),
        ):  # fmt: skip
            found = {k: m.figures.get(f"variety.{lang}.{k}.{name}") for k in _TEXTS}
            known = {k: f for k, f in found.items() if f is not None and f.value is not None}
            if known:
                over = "; ".join(dict.fromkeys(f.over for f in known.values()))
                bars = [(_TEXTS[k], float(f.value or 0), _KINDS[k][1]) for k, f in known.items()]
                yield f"{title} ({lang})", over, charts.bars(title, bars, top=1, digits=3)


def quality(m: Measures) -> Markup | None:
    t = _table(m, "rewriting.quality")
    if t is None:
        return None
    return charts.bars(f"{t.title}, 0 to 3", [(str(n), _n(v), "c-explore2") for n, v in t.rows], top=3, digits=2)


def elbows(m: Measures) -> Iterator[tuple[str, Markup]]:
    """One curve a role and language, with the clusters that it chose."""
    t = _table(m, "rewriting.curve")
    for (role, lang), points in groupby(t.rows if t else (), key=lambda r: (str(r[0]), str(r[1]))):
        title = f"{role.title()}s ({lang}): squared error by number of clusters"
        yield title, charts.elbow(title, [(_n(k), _n(sse), bool(chosen)) for _, _, k, sse, chosen in points])


def clusters(m: Measures) -> Iterator[tuple[str, Markup]]:
    shades = (
        "c-explore2",
        "c-reassure2",
        "c-act1",
        "c-fear",
        "c-shame",
        "c-neutral",
        "c-explore1",
        "c-reassure1",
        "c-act2",
        "c-joy",
    )
    t = _table(m, "rewriting.centres")
    for (role, lang), found in groupby(t.rows if t else (), key=lambda r: (str(r[0]), str(r[1]))):
        lines = [
            (f"cluster {r[2]}", _n(r[3]), [_n(x) for x in r[4:]], shades[i % len(shades)]) for i, r in enumerate(found)
        ]
        title = f"{role.title()}s ({lang}): mean DISC scores of each cluster"
        yield title, charts.profiles(title, DISC, lines, 10)


def _n(cell: object) -> float:
    return float(cell) if isinstance(cell, int | float) else 0.0


def summary(m: Measures) -> Mapping[str, str]:
    """One sentence under some plots, from their tables."""
    found: dict[str, str] = {}
    if t := _table(m, "strategy.stage"):
        totals = {str(r[0]): sum(_n(x) for x in r[1:]) for r in t.rows if r[0] in STRATEGIES}
        whole = sum(sum(_n(x) for x in r[1:]) for r in t.rows)
        first = max(totals, key=lambda k: totals[k])
        unused = [k for k, n in totals.items() if not n]
        found["strategy"] = f"Most used: {first}, in {charts.percent(totals[first], whole)} of the traces."
        if unused:
            found["strategy"] += f" Never used: {', '.join(unused)}."
    if t := _table(m, "flow.emotion"):
        whole = sum(_n(n) for *_, n in t.rows)
        same = sum(_n(n) for a, b, n in t.rows if a == b)
        part = charts.percent(same, whole)
        found["flow"] = f"In {part} of {whole:,.0f} talks the last trace names the same emotion as the first."
    return found


def phrases(t: Table) -> Markup:
    """The most frequent stock phrases."""
    return charts.bars(t.title, [(str(p), _n(n), "c-reassure2") for p, n in t.rows], label_width=236)
