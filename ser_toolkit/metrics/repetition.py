"""How much a release repeats itself: variety of its texts, stock phrases, identical replies, near copies, leaks.

Self-BLEU and embeddings are taken over a sample, and so is distinct-n once more, since it falls with size; each figure
says over how many texts. Rewrites' copies of a reply do not count. May import: polars, numpy, pyarrow, the ground.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import polars as pl
import pyarrow.parquet as pq

from ser_toolkit import stock_phrases
from ser_toolkit.releases.splits import LeakReport, check_leakage
from ser_toolkit.schema import Dialogue, Lang

from .composition import Corpus
from .diversity import distinct_n, draw, embedding_diversity, self_bleu
from .measure import Figure, Table, share, table
from .units import split_units

SAMPLE = 1000
ORDERS = (1, 2, 3)
_TOP = 15
_BATCH = 2000
NO_EMBEDDER = (
    "needs a model of embeddings: --embed openai:MODEL (a server), or --embed local:MODEL (sentence-transformers)"
)


class Embedder(Protocol):
    """Texts in, one vector each out (N, D). `name` is told in the report."""

    name: str

    def embed(self, texts: list[str]) -> np.ndarray: ...


def kinds(corpus: Corpus, lang: str) -> dict[str, pl.Series]:
    """The texts whose variety is measured: "reply" (written by the model), "seeker" and "supporter" (turns)."""
    found: dict[str, pl.Series] = {}
    if len(corpus.originals):
        found["reply"] = corpus.originals.filter(pl.col("lang") == lang)["reply"]
    if len(corpus.turns):
        mine = corpus.turns.filter(pl.col("lang") == lang)
        found |= {role: mine.filter(pl.col("speaker") == role)["text"] for role in ("seeker", "supporter")}
    return {kind: texts for kind, texts in found.items() if len(texts)}


def variety(
    corpus: Corpus, embedder: Embedder | None, sample: int = SAMPLE, seed: int = 0, beside: Sequence[Corpus] = ()
) -> Iterator[Figure]:
    """distinct-n over all texts and over a sample, self-BLEU and mean embedding distance over the sample.

    A sample holds no more texts than every release `beside` has of that kind: what falls with size can be compared.
    """
    for lang in corpus.languages:
        for kind, texts in kinds(corpus, lang).items():
            key, name = f"variety.{lang}.{kind}", f"{kind}, {lang}"
            every = f"{len(texts):,} texts"
            for n, value in distinct_n(split_units(texts), ORDERS).items():
                yield _scored(f"{key}.distinct_{n}", f"distinct-{n} ({name})", value, every, f"no text has {n} units")
            others = (kinds(c, lang).get(kind) for c in beside)
            size = min(sample, *(len(t) for t in others if t is not None), len(texts))
            drawn = texts.gather(draw(len(texts), size, seed))
            some = f"{len(drawn):,} of {len(texts):,} texts, drawn by seed {seed}" if len(drawn) < len(texts) else every
            units = split_units(drawn)
            for n, value in distinct_n(units, ORDERS).items():
                title = f"distinct-{n}, sample ({name})"
                yield _scored(f"{key}.sample_distinct_{n}", title, value, some, f"no text has {n} units")
            bleu = self_bleu(units.to_list())
            yield _scored(f"{key}.self_bleu", f"self-BLEU ({name})", bleu, some, "there are fewer than two texts")
            distance, reason = _distance(drawn, embedder)
            if embedder is not None:
                some = f"{some}; {embedder.name}"
            yield _scored(f"{key}.embedding_distance", f"Embedding distance ({name})", distance, some, reason)


def _distance(texts: pl.Series, embedder: Embedder | None) -> tuple[float | None, str]:
    if embedder is None:
        return None, NO_EMBEDDER
    said = [t for t in texts.to_list() if t and t.strip()]
    return (embedding_diversity(embedder.embed(said)) if said else None), "there are fewer than two texts"


def _scored(key: str, title: str, value: float | None, over: str, reason: str) -> Figure:
    return Figure(key, title, value, "score", over, "" if value is not None else reason)


def stock(corpus: Corpus) -> Iterator[Figure | Table]:
    """The share of replies with a stock phrase, and the most frequent ones."""
    for lang in corpus.languages:
        known = list(stock_phrases.phrases(cast(Lang, lang)))
        texts = kinds(corpus, lang).get("reply")
        key, title = f"stock.{lang}", f"Replies with a stock phrase ({lang})"
        over = "replies" if texts is None else f"{len(texts):,} replies, {len(known)} phrases"
        if texts is None:
            yield Figure(key, title, None, "share", over, corpus.absent("traces"))
            continue
        folded = texts.str.to_lowercase().str.replace_all("’", "'", literal=True)
        found = (
            folded.to_frame("t").select(pl.col("t").str.extract_many(known, overlapping=True).list.unique()).to_series()
        )
        yield share(key, title, int((found.list.len() > 0).sum()), len(texts), over)
        top = (
            found.explode(empty_as_null=True)
            .drop_nulls()
            .value_counts(name="n")
            .sort("n", found.name, descending=[True, False])
        )
        rows = top.head(_TOP).rows()
        yield table(f"{key}.phrases", f"Stock phrases ({lang})", ("phrase", "replies"), rows, over, "none was found")


def copies(corpus: Corpus) -> Iterator[Figure | Table]:
    """Identical replies, near copies among dialogues, and what the splits leak."""
    traces, none = corpus.originals, corpus.absent("traces")
    title = "Replies that stand word for word elsewhere"
    if len(traces):
        plain = pl.col("reply").str.normalize("NFKC").str.to_lowercase().str.replace_all(r"[\W_]+", "")
        said = traces.select("split", plain.hash().alias("reply"))
        yield share("copies.replies", title, int(said["reply"].is_duplicated().sum()), len(said), "replies")
        held = said.filter(pl.col("split") != "train")
        seen = int(held["reply"].is_in(said.filter(pl.col("split") == "train")["reply"].implode()).sum())
        leaked = "Validation and test replies that stand word for word in train"
        yield share("leaks.replies", leaked, seen, len(held), "replies", "validation and test have no replies")
    else:
        yield Figure("copies.replies", title, None, "share", "replies", none)
    report, families = near_duplicates(corpus)
    over = f"{families:,} dialogues with their rewrites"
    yield share("copies.dialogues", "Dialogues that repeat another", families - report.groups, families, over)
    yield Figure("leaks.groups", "Groups of copies that lie in several splits", len(report.straddling), "count", over)
    rows = [(", ".join(g.ids), ", ".join(g.reasons), g.opening) for g in report.straddling]
    yield table(
        "leaks.listed", "What leaks", ("dialogues", "why", "opening"), rows, over, "no group straddles the splits"
    )


def near_duplicates(corpus: Corpus) -> tuple[LeakReport, int]:
    """The groups of copies among all dialogues of a release, and how many originals (with their rewrites) there are."""
    splits: dict[str, str] = {}
    roots: set[str] = set()

    def stored() -> Iterator[Dialogue]:
        for split in corpus.release.rows.get("dialogues", {}):
            file = corpus.release.files("dialogues", split)[split]
            with pq.ParquetFile(file) as rows:
                columns = ["id", "root_id", "turns.list.element.speaker", "turns.list.element.text"]
                for batch in rows.iter_batches(batch_size=_BATCH, columns=columns):
                    for row in batch.to_pylist():
                        splits[row["id"]] = split
                        roots.add(row["root_id"])
                        said = tuple(_Said(t["speaker"], t["text"]) for t in row["turns"])
                        yield cast(Dialogue, _Talk(row["id"], row["root_id"], said))

    return check_leakage(stored(), splits), len(roots)  # `splits` fills up as the dialogues are read


@dataclass(frozen=True, slots=True)
class _Said:
    """What the search for copies reads of a turn."""

    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class _Talk:
    """What it reads of a dialogue: whole records would take most of the time."""

    id: str
    root_id: str
    turns: tuple[_Said, ...]
