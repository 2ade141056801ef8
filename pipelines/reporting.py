"""`ser report`: the measures of one release, or of two side by side, as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ser_toolkit.errors import DataError
from ser_toolkit.metrics.repetition import SAMPLE, Embedder

from .evaluating import evaluate
from .report.page import render_page


@dataclass(frozen=True, slots=True)
class Report:
    """Where the page is, and of what."""

    file: Path
    releases: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"report": str(self.file), "releases": list(self.releases)}

    def render(self) -> str:
        return f"report {self.file}\nnext: open it in a browser; it is one file, and asks for nothing from outside"


def report(
    releases: Sequence[str | Path],
    *,
    out: Path | None = None,
    embedder: Embedder | None = None,
    sample: int = SAMPLE,
    seed: int = 0,
) -> Report:
    """Measure and write the page: `out`, or NAME-report.html here. Raises what `load_release` does, and DataError."""
    found = evaluate(releases, embedder=embedder, sample=sample, seed=seed)
    names = tuple(m.release["name"] for m in found.measured)
    file = out or Path(f"{'-to-'.join(names)}-report.html")
    page = render_page(found)
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as exc:
        raise DataError(f"{file}: cannot be written: {exc.strerror}", "name another file: --out FILE") from exc
    return Report(file, names)
