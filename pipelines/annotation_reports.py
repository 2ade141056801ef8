"""`ser annotate status|report|guidelines`: what the owner reads of a round."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from annotation.guidelines import guidelines
from annotation.items import PARTS
from annotation.report_page import notes, report_page
from annotation.reporting import answers_jsonl, every_report, status
from ser_toolkit.errors import UsageError
from ser_toolkit.recipe import load_recipe
from ser_toolkit.schema import Lang
from ser_toolkit.workspace import Workspace, writing

from .annotating import known_round

Row = Mapping[str, Any]


def round_status(workspace: Path, sets: Iterable[str]) -> dict[str, Any]:
    """How far the round is, for the sources that the recipe allows."""
    settings = load_recipe(workspace, sets).annotate
    with known_round(Workspace(workspace)) as ledger:
        return status(ledger.state, settings.sources, time.time())


def round_report(workspace: Path, sets: Iterable[str]) -> dict[str, Any]:
    """The report's tables as rows, people and judges alike."""
    load_recipe(workspace, sets)
    with known_round(Workspace(workspace)) as ledger:
        return every_report(ledger.state)


def write_page(found: Row, file: Path) -> None:
    """The same as a page of its own, which asks for nothing from elsewhere."""
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    with writing(file):
        file.write_text(report_page(found, is_file=True, made=made), encoding="utf-8")


def write_answers(workspace: Path, file: Path) -> int:
    """Every answer that holds, a line of JSON each; returns how many."""
    with known_round(Workspace(workspace)) as ledger, writing(file):
        lines = list(answers_jsonl(ledger.state))
        file.write_text("".join(lines), encoding="utf-8")
    return len(lines)


def guidelines_text(workspace: Path, lang: str) -> str:
    """The guidelines in a language; a workspace may have its own."""
    if lang not in ("en", "zh"):
        raise UsageError(f"--lang {lang}: there are no guidelines in it", "known: en, zh")
    return guidelines(cast(Lang, lang), workspace / "guidelines")


def render_status(found: Row) -> str:
    people = sum(s == "person" for s in found["annotators"].values())
    lines = [
        f"{found['items']} items: {found['done']} done, {found['disputed']} disputed, {found['open']} open; "
        f"{found['in_progress']} on somebody's desk",
        f"{found['answers']} answers by {people} people and {len(found['annotators']) - people} LLM judges; "
        f"{found['surplus']} surplus, {sum(found['skipped'].values())} skipped",
        f"counted here: {' and '.join(found['sources'])}  (annotate.sources)",
        "",
        "part    Fleiss   alpha     raw   items  labels",
    ]
    for part in PARTS:
        row = found["agreement"][part]
        shares = ", ".join(f"{label} {share:.0%}" for label, share in row["shares"].items())
        lines.append(
            f"{part:<6}{_number(row['fleiss']):>8}{_number(row['alpha']):>8}{_number(row['raw']):>8}{row['items']:>8}"
            f"  {shares or row['reason']}"
        )
        if row["shares"] and row["alpha"] is None:
            lines.append(f"        undefined: {row['reason']}")
        if row["note"]:
            lines.append(f"        {row['note']}")
    if found["waiting"]:
        lines += ["", f"{found['waiting']} items wait for you: ser annotate adjudicate"]
    return "\n".join(lines)


_COLUMNS = (
    ("annotator", "annotator"), ("answers", "answers"), ("skipped", "skipped"), ("median_seconds", "seconds"),
    ("true_share", "True"), ("agreement", "agrees"), ("side_share", "side"), ("side_p", "side p"), ("drift", "drift"),
    ("gold_accuracy", "gold"), ("self_consistency", "self"),
)  # fmt: skip


def render_report(found: Row) -> str:
    rows = [[_cell(row[key]) for key, _ in _COLUMNS] for row in found["annotators"]]
    table = _table([title for _, title in _COLUMNS], rows)
    coefficients = _table(
        ["source", "part", "coefficient", "value", "95 %", "raw", "items", "why undefined, or a caution"],
        [
            [
                r["source"], r["part"], r["name"], _number(r["value"]),
                "" if r["low"] is None else f"{r['low']:.2f} to {r['high']:.2f}", _number(r["raw"]), str(r["items"]),
                r["reason"] or r["note"],
            ]
            for r in found["agreement"]
        ],
    )  # fmt: skip
    told = [f"  look at  {n}" for n in notes(found["annotators"])]
    return "\n".join([table, *told, "", coefficients])


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(r[i]) for r in (titles, *rows)) for i in range(len(titles))]
    lines = ("  ".join(cell.ljust(w) for cell, w in zip(r, widths, strict=True)).rstrip() for r in (titles, *rows))
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return _number(value) if isinstance(value, float) or value is None else str(value)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
