"""What a release is made of: sizes, labels by split, strategies by stage and place in the talk, lengths.

Reads the release's Parquet lazily, and only the columns that are measured. Every function takes a `Corpus` and gives
figures and tables. May import: polars, the vocabulary, the release's reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from ser_toolkit.errors import DataError
from ser_toolkit.releases.load import Release
from ser_toolkit.releases.rows import CONFIGS
from ser_toolkit.releases.splits import SPLITS
from ser_toolkit.taxonomy import EMOTIONS, INTENSITIES, SENTIMENTS, STAGES, STRATEGIES, VERDICTS

from .measure import Cell, Figure, Table, share, table
from .units import UNIT_NAMES, count_units

PARTS = 5
"""Into how many equal parts a dialogue's turns are put, to see what happens early and what late."""
UNNAMED = "not named"
_TRACE_COLUMNS = (
    "id", "dialogue_id", "lang", "round", "target", "stage", "strategy", "sentiment", "intensity", "emotions",
    "reply", "reference", "saw", "rewritten_from",
)  # fmt: skip
LABELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "stage": ("Stage", tuple(STAGES)),
    "strategy": ("Strategy", STRATEGIES),
    "sentiment": ("Sentiment", SENTIMENTS),
    "intensity": ("Intensity", INTENSITIES),
    "saw": ("What the model saw", ("image", "cues", "text")),
}


@dataclass(frozen=True)
class Corpus:
    """A release as frames. `traces` and `turns` are small columns, held once; the rest is read when it is asked for."""

    release: Release

    def scan(self, config: str) -> pl.LazyFrame | None:
        """The rows of a config with a column `split`, or `None` where the release has none."""
        if config not in self.release.rows:
            return None
        files = self.release.files(config)
        for file in files.values():
            _check_columns(file, config)
        return pl.concat([pl.scan_parquet(f).with_columns(pl.lit(s).alias("split")) for s, f in files.items()])

    def absent(self, config: str) -> str:
        """Why the release has no rows of a config."""
        return self.release.manifest.get("absent", {}).get(config, f"this release has no {config}")

    @cached_property
    def traces(self) -> pl.DataFrame:
        """All traces, without prompt and completion; `part` is where in its dialogue the target stands (0 to 4)."""
        scanned = self.scan("traces")
        dialogues = self.scan("dialogues")
        if scanned is None or dialogues is None:
            return pl.DataFrame()
        sizes = dialogues.select(pl.col("id").alias("dialogue_id"), pl.col("turns").list.len().alias("turns"))
        place = (pl.col("target") * PARTS // pl.col("turns")).clip(0, PARTS - 1)
        return (
            scanned.select("split", *_TRACE_COLUMNS)
            .join(sizes, on="dialogue_id", how="left", maintain_order="left")
            .with_columns(place.cast(pl.Int8).alias("part"))
            .drop("turns")
            .collect()
        )

    @cached_property
    def originals(self) -> pl.DataFrame:
        """The traces but for those that repeat another over a rewritten dialogue: each reply once."""
        return self.traces.filter(pl.col("rewritten_from").is_null()) if len(self.traces) else self.traces

    @cached_property
    def turns(self) -> pl.DataFrame:
        """Every turn of every dialogue: dialogue, place, speaker, text, risk, emotion (the first that is mapped)."""
        scanned = self.scan("dialogues")
        if scanned is None:
            return pl.DataFrame()
        turn = pl.col("turns").struct
        emotion = turn.field("emotions").list.eval(pl.element().struct.field("ser")).list.drop_nulls().list.first()
        return (
            scanned.select("split", pl.col("id").alias("dialogue_id"), "lang", "rewritten_from", "turns")
            .explode("turns", empty_as_null=False)
            .select(
                "split", "dialogue_id", "lang", "rewritten_from",
                turn.field("speaker"), turn.field("text"), turn.field("origin"),
                turn.field("risk").struct.field("level").alias("risk"), emotion.alias("emotion"),
            )
            .collect()
        )  # fmt: skip

    @property
    def languages(self) -> list[str]:
        return sorted(self.release.manifest.get("languages", {}))


def _check_columns(file: Path, config: str) -> None:
    """Raises DataError for a file that lacks a column of its config, or has it of another type."""
    found = pl.read_parquet_schema(file)
    for name, wanted in pl.DataFrame(CONFIGS[config].schema(with_media=False).empty_table()).schema.items():
        if found.get(name) != wanted:
            what = f"is of type {found[name]}" if name in found else "is missing"
            raise DataError(f"{file}: its column {name} {what}", "the release is damaged: export it again")


def sizes(corpus: Corpus) -> Iterator[Figure | Table]:
    """Rows by config and split, and what a dialogue is like."""
    rows = corpus.release.rows
    totals = corpus.release.manifest.get("totals", {})
    dialogues, turns = _total(rows.get("dialogues")), totals.get("turns")
    traces = _total(rows.get("traces"))
    reason = corpus.absent("traces") if traces is None else ""
    yield Figure("size.dialogues", "Dialogues", dialogues, reason="" if dialogues else corpus.absent("dialogues"))
    yield Figure("size.turns", "Turns", turns, reason="" if turns is not None else "the manifest does not count them")
    yield Figure("size.traces", "Traces", traces, reason=reason)
    if dialogues and turns is not None:
        yield Figure("size.turns_per_dialogue", "Turns of a dialogue", turns / dialogues, "mean", "dialogues")
    yield share("size.synthetic_turns", "Turns that a model wrote", totals.get("synthetic_turns"), turns, "turns")
    if len(corpus.turns):
        rewrites = corpus.turns.filter(pl.col("rewritten_from").is_not_null())["dialogue_id"].n_unique()
        yield share("size.rewritten", "Dialogues that are rewrites", rewrites, dialogues, "dialogues")
    shown = [(c, *(rows.get(c, {}).get(s) for s in SPLITS), corpus.absent(c) if c not in rows else "") for c in CONFIGS]
    yield table("size.rows", "Rows by split", ("config", *SPLITS, "why absent"), shown, "rows", "no rows")


def label_mix(corpus: Corpus) -> Iterator[Table]:
    """How often each label is named, by split; a trace that names none is counted as such."""
    traces = corpus.traces
    for key, (title, words) in LABELS.items():
        rows = _by_split(traces.select("split", pl.col(key).fill_null(UNNAMED)), key, words) if len(traces) else []
        yield table(f"labels.{key}", title, (key, *SPLITS), rows, "traces", corpus.absent("traces"))
    rows = []
    if len(traces):
        named = traces.select("split", pl.col("emotions")).explode("emotions", empty_as_null=True)
        rows = _by_split(named.with_columns(pl.col("emotions").fill_null(UNNAMED)), "emotions", EMOTIONS)
    over = "mentions: a trace may name several"
    yield table("labels.emotions", "Emotions", ("emotion", *SPLITS), rows, over, corpus.absent("traces"))
    yield from _annotators_labels(corpus)


def _annotators_labels(corpus: Corpus) -> Iterator[Table]:
    """What annotators decided, where the release holds it: steps True or False, and verdicts on the replies."""
    steps, judged = corpus.scan("steps"), corpus.scan("judgements")
    rows: list[tuple[Cell, ...]] = []
    if steps is not None:
        numbered = steps.select("split", pl.col("labels").list.to_struct(fields=["1", "2", "3"])).unnest("labels")
        for row in numbered.select("1", "2", "3").sum().collect().rows():
            count = numbered.select(pl.len()).collect().item()
            rows = [(n, right, count - right) for n, right in enumerate(row, 1)]
    yield table("labels.steps", "Steps", ("step", "true", "false"), rows, "labelled traces", corpus.absent("steps"))
    rows = []
    if judged is not None:
        rows = _by_split(
            judged.select("split", pl.col("verdict").fill_null("no consensus")).collect(), "verdict", VERDICTS
        )
    yield table(
        "labels.verdicts", "Verdicts", ("verdict", *SPLITS), rows, "pairs of replies", corpus.absent("judgements")
    )


def strategies(corpus: Corpus) -> Iterator[Table]:
    """Strategy by stage, by the part of the talk, and by the feeling that it answers. Rewrites' copies do not count."""
    traces, none = corpus.originals, corpus.absent("traces")
    parts = [f"part {n}" for n in range(1, PARTS + 1)]
    by: dict[str, tuple[str, pl.Expr, Sequence[str]]] = {
        "stage": ("Strategy by stage", pl.col("stage").fill_null(UNNAMED), (*STAGES, UNNAMED)),
        "part": ("Strategy by part of the talk", pl.format("part {}", pl.col("part") + 1), parts),
        "emotion": (
            "Strategy by first emotion",
            pl.col("emotions").list.first().fill_null(UNNAMED),
            (*EMOTIONS, UNNAMED),
        ),
    }
    for key, (title, column, words) in by.items():
        rows = []
        if len(traces):
            chosen = traces.select(pl.col("strategy").fill_null(UNNAMED), column.alias("by"))
            words = [w for w in vocabulary(words, chosen["by"]) if w != UNNAMED or UNNAMED in chosen["by"]]
            rows = cross(chosen, "strategy", (*STRATEGIES, UNNAMED), "by", words)
        yield table(f"strategy.{key}", title, ("strategy", *words), rows, "traces", none)
    rows = []
    if len(traces):
        staged = traces.select(pl.col("stage").fill_null(UNNAMED), by["part"][1].alias("by"))
        rows = cross(staged, "stage", (*STAGES, UNNAMED), "by", parts)
    yield table("stage.part", "Stage by part of the talk", ("stage", *parts), rows, "traces", none)


def lengths(corpus: Corpus) -> Iterator[Table]:
    """How long texts are, by language: words, or characters in Chinese."""
    for lang in corpus.languages:
        unit = UNIT_NAMES.get(lang, "units")
        summary: list[tuple[Cell, ...]] = []
        for kind, values in _lengths(corpus, lang):
            if not len(values):
                summary.append((kind, 0, *(None,) * 5))
                continue
            quantiles = [float(values.quantile(q) or 0) for q in (0.05, 0.5, 0.95)]
            mean = float(values.cast(pl.Float64).sum()) / len(values)
            summary.append((kind, len(values), mean, *quantiles, _int(values.max())))
            yield _histogram(f"lengths.{lang}.{kind}", f"{kind} ({unit})", values)
        columns = ("text", "texts", "mean", "5 %", "median", "95 %", "longest")
        yield table(f"lengths.{lang}", f"Lengths in {unit}", columns, summary, unit, "no texts")


def _lengths(corpus: Corpus, lang: str) -> Iterator[tuple[str, pl.Series]]:
    if len(corpus.turns):
        turns = corpus.turns.lazy().filter(pl.col("lang") == lang)
        yield "dialogue", turns.group_by("dialogue_id").len().collect()["len"]
        for role in ("seeker", "supporter"):
            yield role, turns.filter(pl.col("speaker") == role).select(count_units("text")).collect().to_series()
    if len(corpus.originals):
        mine = corpus.originals.lazy().filter(pl.col("lang") == lang)
        yield "reply", mine.select(count_units("reply")).collect().to_series()
        yield "reference", mine.select(count_units("reference")).drop_nulls().collect().to_series()
    scanned = corpus.scan("traces")
    if scanned is not None:
        kept = scanned.filter(pl.col("lang") == lang, pl.col("rewritten_from").is_null())
        text = kept.select(pl.col("completion").list.first().struct.field("content").alias("text"))
        yield "trace", text.select(count_units("text")).collect(engine="streaming").to_series()


def _histogram(key: str, title: str, values: pl.Series, bars: int = 24) -> Table:
    """Equal bins between the 1st and the 99th percentile; the first bin also holds what is shorter, the last what is
    longer.
    """
    least, most = (int(values.quantile(q) or 0) for q in (0.01, 0.99))
    width = max(1, -(-(most - least) // bars))
    first, last = least // width, max(most, 1) // width
    counted = pl.DataFrame({"bin": (values // width).clip(first, last)}).group_by("bin").len()
    found = dict(counted.rows())
    open_low, open_high = values.min(), values.max()
    rows = [
        (
            None if b == first and _int(open_low) < b * width else b * width,
            None if b == last and _int(open_high) >= (b + 1) * width else (b + 1) * width,
            found.get(b, 0),
        )
        for b in range(first, last + 1)
    ]
    return Table(key, title, ("from", "below", "texts"), tuple(rows), f"{len(values):,} texts")


def _int(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0


def cross(
    frame: pl.DataFrame, row: str, rows: Sequence[str], column: str, columns: Sequence[str]
) -> list[tuple[Cell, ...]]:
    """Counts of pairs as a table, in the order of the words. A row that is not among them comes after; "not named"
    stands only where it occurs.
    """
    found = {(a, b): n for a, b, n in frame.group_by(row, column).len().rows()}
    made = [(r, *(found.get((r, c), 0) for c in columns)) for r in vocabulary(rows, (a for a, _ in found))]
    return [r for r in made if r[0] != UNNAMED or any(r[1:])]


def vocabulary(words: Sequence[str], found: Iterable[str]) -> list[str]:
    """The known words, then those that are found beside them, then "not named"."""
    known = [w for w in words if w != UNNAMED]
    return [*known, *sorted(set(found) - {*known, UNNAMED}), UNNAMED]


def _by_split(frame: pl.DataFrame, column: str, words: Sequence[str]) -> list[tuple[Cell, ...]]:
    return cross(frame, column, words, "split", SPLITS)


def _total(counts: dict[str, int] | None) -> int | None:
    return sum(counts.values()) if counts else None
