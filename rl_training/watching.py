"""What is watched beside the loss: components, spread within groups, redundancy, variety, and when to stop.

All figures are of one generation step over all processes. `None` where nothing was measured, never 0. Pure: no torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from ser_toolkit.errors import SerError
from ser_toolkit.metrics.diversity import distinct_n, self_bleu
from ser_toolkit.metrics.units import split_units
from ser_toolkit.rewards.composition import Reward, Scored


def reward_metrics(
    names: Sequence[str], scored: Sequence[Scored], rewards: Sequence[Reward], group_size: int
) -> dict[str, float | None]:
    """By component `rewards/<name>/mean`, `std`, `spread` (mean deviation within a group: components can cancel) and
    `missing` (share); `reward/missing`, `reward/spread`; `redundancy/tau`, `s_in`, `s_hi` where measured.
    """
    found: dict[str, float | None] = {}
    for name in names:
        found |= _described(f"rewards/{name}", [s.parts[name] for s in scored], group_size)
    found |= _described("reward", [r.value for r in rewards], group_size, with_mean=False)
    for key in ("tau", "s_in", "s_hi"):
        known = [v for r in rewards if (v := getattr(r, key)) is not None]
        if known:
            found[f"redundancy/{key}"] = float(np.mean(known))
    return found


def text_metrics(
    replies: Sequence[str], rewards: Sequence[float | None], tokens: Sequence[int]
) -> dict[str, float | None]:
    """distinct-1 to 3 and self-BLEU of the batch's replies; the correlation of reward and length in tokens."""
    units = split_units(pl.Series("reply", list(replies), dtype=pl.String))
    found: dict[str, float | None] = {f"diversity/distinct_{n}": v for n, v in distinct_n(units).items()}
    found["diversity/self_bleu"] = self_bleu(units.to_list())
    pairs = [(r, t) for r, t in zip(rewards, tokens, strict=True) if r is not None]
    found["reward/length_correlation"] = correlation(*zip(*pairs, strict=True)) if pairs else None
    return found


def correlation(left: Iterable[float], right: Iterable[float]) -> float | None:
    """Pearson's; `None` where one side does not vary."""
    x, y = np.array(list(left), float), np.array(list(right), float)
    if len(x) < 2 or x.std() < 1e-12 or y.std() < 1e-12:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _described(
    key: str, scores: Sequence[float | None], group_size: int, with_mean: bool = True
) -> dict[str, float | None]:
    values = np.array([np.nan if s is None else s for s in scores], float)
    known = values[~np.isnan(values)]
    spreads = [k.std(ddof=1) for g in values.reshape(-1, group_size) if len(k := g[~np.isnan(g)]) > 1]
    found: dict[str, float | None] = {
        f"{key}/spread": float(np.mean(spreads)) if spreads else None,
        f"{key}/missing": float(np.isnan(values).mean()),
    }
    if with_mean:
        found[f"{key}/mean"] = float(known.mean()) if len(known) else None
        found[f"{key}/std"] = float(known.std(ddof=1)) if len(known) > 1 else None
    return found


class Watch:
    """Stops a run that learns nothing: most completions cut at the limit, or no reward at all, step after step."""

    def __init__(self, max_clipped: float, patience: int) -> None:
        self._max_clipped = max_clipped
        self._patience = patience
        self._clipped = 0
        self._blind = 0

    def step(self, clipped: float, missing: float, notes: Sequence[str], limit: int) -> None:
        """One generation step: shares of cut completions and of those without a reward. Raises SerError."""
        self._clipped = self._clipped + 1 if clipped > self._max_clipped else 0
        self._blind = self._blind + 1 if missing == 1 else 0
        if self._clipped >= self._patience:
            raise SerError(
                f"{clipped:.0%} of the completions are cut at {limit} tokens, for {self._clipped} steps now: a policy "
                "learns nothing from what it cannot finish",
                "raise max_completion_length, train on traces first (ser train-sft), or set watch.max_clipped=1",
            )
        if self._blind >= self._patience:
            raise SerError(
                f"no completion had a reward for {self._blind} steps: {notes[0] if notes else 'no component answers'}",
                "mend the judge; the checkpoint is kept, and --resume goes on from it",
            )


def samples_page(
    step: int, prompt: Sequence[Mapping[str, str]], replies: Sequence[str], scored: Sequence[Scored],
    rewards: Sequence[Reward], advantages: Sequence[float],
) -> str:  # fmt: skip
    """One group as a table in Markdown: what was asked last, and each completion with all its scores."""
    names = list(scored[0].parts)
    head = ["reward", "advantage", *names, "s_in", "s_hi", "completion"]
    rows = [
        [_cell(r.value), _cell(a), *(_cell(s.parts[n]) for n in names), _cell(r.s_in), _cell(r.s_hi), _cell(text)]
        for text, s, r, a in zip(replies, scored, rewards, advantages, strict=True)
    ]
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    notes = sorted({note for s in scored for note in s.notes})
    asked = prompt[-1]["content"] if prompt else ""
    return "\n".join([f"# Step {step}", "", f"> {_cell(asked)}", "", *lines, "", *(f"- {_cell(n)}" for n in notes), ""])


def _cell(value: float | str | None) -> str:
    """A cell: a number, or text that cannot leave its cell; a missing value is a dash."""
    if value is None:
        return "-"
    if not isinstance(value, str):
        return f"{value:.3f}"
    return value.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", "<br>")
