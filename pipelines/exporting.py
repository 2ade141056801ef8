"""`ser export`, also the end of `ser build`: the tables of a finished build become a release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ser_toolkit.errors import DataError
from ser_toolkit.recipe import Recipe, load_recipe
from ser_toolkit.releases.licences import lent_media, objection
from ser_toolkit.releases.manifest import Manifest, read_manifest
from ser_toolkit.releases.splits import SPLITS, Ratios
from ser_toolkit.releases.write import ReleaseInput, ReleaseResult, write_release
from ser_toolkit.schema import Dialogue, Failure, Trace, Verdict
from ser_toolkit.store import read_table
from ser_toolkit.workspace import Workspace

from .annotating import release_labels
from .lineage import load_build
from .withdrawing import withdrawn_ids


@dataclass(frozen=True, slots=True)
class ExportResult:
    """A release and what a person wants to know of it."""

    made: ReleaseResult
    machinery_only: bool
    ratios: Ratios
    labels: str = ""
    """Why a round of annotation gives this release no label; "" where it does, or where there is no round."""

    def to_json(self) -> dict[str, Any]:
        return {
            "release": str(self.made.path),
            "version": self.made.version,
            "content_hash": self.made.content_hash,
            "rows": self.made.rows,
            "left_out": len(self.made.left_out),
            "is_new": self.made.is_new,
            "hints": list(hints_of(self.made.rows, self.ratios)),
            "licence_conflicts": list(self.made.licence_conflicts),
            "labels": self.labels,
        }

    def render(self) -> str:
        lines = [f"release {self.made.path}  ({'new' if self.made.is_new else 'unchanged: the same content hash'})"]
        for config, splits in self.made.rows.items():
            lines.append(f"  {config:<9} " + "  ".join(f"{split} {count}" for split, count in splits.items()))
        if self.made.left_out:
            lines.append(f"  left out  {len(self.made.left_out)} rows, listed in the manifest with the reason")
        if self.labels:
            lines.append(f"  labels    {self.labels}")
        lines += [f"  warning   licences: {conflict}" for conflict in self.made.licence_conflicts]
        lines.append(f"  content   {self.made.content_hash}")
        lines += [f"  hint      {hint}" for hint in hints_of(self.made.rows, self.ratios)]
        return "\n".join(lines)

    def next_steps(self) -> str:
        path = self.made.path
        load = f'datasets.load_dataset("{path}", "traces")'
        steps = [
            f"  look at it      {path / 'README.md'}",
            f"  load it         {load}",
            f"  share it        ser push {path} OWNER/NAME",
            *(f"{'':18}{closed}" for closed in closed_licences(read_manifest(path))),
        ]
        if self.machinery_only:
            steps.append(
                "  a real model    ser build --model openai:MODEL --set llm.base_url=URL  (this one tests machinery)"
            )
        return "\n".join(["next:", *steps])


def export(home: Workspace, version: str | None = None, sets: Iterable[str] = ()) -> ExportResult:
    """Make a release from the tables of the last build, and the labels of its annotators.

    Of the recipe as it stands now, `annotate` alone counts; the rest is that of the build. Raises DataError where no
    build is complete.
    """
    with home.must_exist().locked():
        return export_tables(home, version, sets)


def export_tables(home: Workspace, version: str | None, sets: Iterable[str] = ()) -> ExportResult:
    """The same, for a caller that holds the workspace's lock."""
    lineage = load_build(home)
    settings = load_recipe(home.root, sets).annotate
    lineage["recipe"]["annotate"] = settings.model_dump(mode="json")
    recipe = Recipe.model_validate(lineage["recipe"])
    annotated = release_labels(home, settings)
    machinery_only = recipe.llm.is_builtin
    if not home.table("traces").exists():
        raise DataError(
            f"{home.root}: the table of traces is gone", "run `ser build` again: it replays without new calls"
        )
    verdicts: Counter[str] = Counter()
    for v in read_table(home.table("verdicts"), Verdict):
        verdicts.update({"judged": 1, "rejected": int(v.keep is False), "enforced": int(v.enforced)})
        verdicts.update(f"rejected: {check}" for check in v.failed)
    made = write_release(
        home.releases,
        ReleaseInput(
            name=recipe.name,
            dialogues=chain.from_iterable(read_table(home.table(t), Dialogue) for t in ("dialogues", "rewrites")),
            traces=chain.from_iterable(read_table(home.table(t), Trace) for t in ("traces", "rewrite_traces")),
            ratios=recipe.split.ratios,
            lineage=lineage,
            machinery_only=machinery_only,
            absent_reasons=dict.fromkeys(("steps", "preferences", "judgements"), annotated.absent),
            labels=annotated.labels,
            annotation=annotated.told,
            failures=Counter(
                f"{f.kind}, {f.risk} risk" if f.risk else f.kind for f in read_table(home.table("failures"), Failure)
            ),
            verdicts=verdicts,
            withdrawn=withdrawn_ids(home),
            media=home.media,
        ),
        version,
    )
    no_label = annotated.absent if annotated.has_round and not annotated.labels else ""
    return ExportResult(made, machinery_only, recipe.split.ratios, no_label)


WIDE = 0.2
"""The share of a split from which on no wider one is proposed."""


def hints_of(rows: Mapping[str, Mapping[str, int]], ratios: Ratios) -> Iterator[str]:
    """Where a split that the recipe wants has no dialogue: why, and what to do."""
    dialogues = rows.get("dialogues", {})
    empty = [split for split, share in zip(SPLITS, ratios, strict=True) if share and not dialogues.get(split)]
    if empty:
        narrow = any(share < WIDE for split, share in zip(SPLITS, ratios, strict=True) if split in empty)
        yield (
            f"no rows in {' and '.join(empty)}: a stable hash of its id puts each dialogue into a split, and none of "
            f"these {sum(dialogues.values())} fell there; add dialogues"
            + (", or widen the split: --set 'split.ratios=[0.6, 0.2, 0.2]'" if narrow else "")
        )


def closed_licences(manifest: Manifest) -> Iterator[str]:
    """A line for each licence under which rows should not simply be made public."""
    for source in manifest["sources"]:
        if why := objection(source["licence"]):
            yield f"privately: {source['format']} is {source['licence']}, {why}; --public is refused"
    for m in lent_media(manifest):
        if why := objection(m["licence"]):
            yield f"privately: {m['kind']}s from {m['origin']} are {m['licence']}, {why}; --public is refused"
