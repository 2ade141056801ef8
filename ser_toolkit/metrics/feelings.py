"""How feelings move in a talk: from its first trace to its last, from utterance to utterance, and in time.

A trace may name several emotions: the first that it names stands for it. May import: polars, the taxonomy.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ser_toolkit.taxonomy import EMOTIONS, INTENSITIES, SENTIMENTS

from .composition import PARTS, Corpus, cross, vocabulary
from .measure import Cell, Figure, Table, share, table

EASIER = "Dialogues whose last trace is less intense than its first"


def feelings(corpus: Corpus) -> Iterator[Figure | Table]:
    """The flow of emotions, sentiment and intensity; and each emotion's share in each part of the talk."""
    traces, none = corpus.originals, corpus.absent("traces")
    for key, words, value in (
        ("emotion", EMOTIONS, pl.col("emotions").list.first()),
        ("sentiment", SENTIMENTS, pl.col("sentiment")),
        ("intensity", INTENSITIES, pl.col("intensity")),
    ):
        ends = _ends(traces, value) if len(traces) else pl.DataFrame(schema={"from": pl.String, "to": pl.String})
        found = {(a, b): n for a, b, n in ends.group_by("from", "to").len().rows()}
        known = vocabulary(words, (w for pair in found for w in pair))
        rows = [(a, b, found[a, b]) for a in known for b in known if (a, b) in found]
        over = f"{len(ends):,} dialogues with two traces or more that name it"
        reason = none if not len(traces) else "no dialogue has two traces that name it"
        yield table(
            f"flow.{key}", f"{key.title()}, first to last trace", ("from", "to", "dialogues"), rows, over, reason
        )
        if key == "intensity":
            level = {w: n for n, w in enumerate(INTENSITIES)}
            eased = sum(n for a, b, n in rows if level.get(b, 0) < level.get(a, 0))
            yield share("flow.eased", EASIER, eased, len(ends), over, reason)
    yield _by_part(corpus)
    yield _turn_to_turn(corpus)


def _ends(traces: pl.DataFrame, value: pl.Expr) -> pl.DataFrame:
    """from, to: what the first and the last target of each dialogue name, where both do, at different turns."""
    ordered = (
        traces.select("dialogue_id", "target", value.alias("value"))
        .drop_nulls()
        .sort("dialogue_id", "target", maintain_order=True)
    )
    return (
        ordered.group_by("dialogue_id", maintain_order=True)
        .agg(
            pl.col("value").first().alias("from"), pl.col("value").last().alias("to"),
            (pl.col("target").last() > pl.col("target").first()).alias("moved_on"),
        )
        .filter("moved_on")
        .select("from", "to")
    )  # fmt: skip


def _by_part(corpus: Corpus) -> Table:
    parts = [f"part {n}" for n in range(1, PARTS + 1)]
    rows: list[tuple[Cell, ...]] = []
    if len(corpus.originals):
        named = corpus.originals.select("part", "emotions").explode("emotions", empty_as_null=True).drop_nulls()
        rows = cross(named.with_columns(pl.format("part {}", pl.col("part") + 1)), "emotions", EMOTIONS, "part", parts)
    none = corpus.absent("traces") if not len(corpus.originals) else "no trace names an emotion"
    return table("emotion.part", "Emotions by part of the talk", ("emotion", *parts), rows, "mentions", none)


def _turn_to_turn(corpus: Corpus) -> Table:
    """Between neighbouring utterances of the seeker that the source labels."""
    rows: list[tuple[Cell, ...]] = []
    if len(corpus.turns):
        seeker = corpus.turns.filter(pl.col("speaker") == "seeker", pl.col("rewritten_from").is_null())
        labelled = seeker.select("dialogue_id", pl.col("emotion").alias("from"))
        moves = labelled.with_columns(pl.col("from").shift(-1).over("dialogue_id").alias("to")).drop_nulls()
        found = {(a, b): n for a, b, n in moves.group_by("from", "to").len().rows()}
        known = vocabulary(EMOTIONS, (w for pair in found for w in pair))
        rows = [(a, b, found[a, b]) for a in known for b in known if (a, b) in found]
    none = "no source of this release labels the emotions of the seeker's utterances"
    title = "Emotion, from one utterance of the seeker to its next (the source's labels)"
    return table(
        "flow.turns", title, ("from", "to", "utterances"), rows, "labelled utterances with a labelled next one", none
    )
