"""`ser eval perm`: PERM's judges over the traces of a release: how empathic its analyses and replies are.

A folder holds all of it: scores.jsonl (a row a trace, by its id), evaluation.json, and the journal that a stopped run
goes on from.
"""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rl_training.prompts import scene_of
from ser_toolkit.engine import run_stage
from ser_toolkit.errors import DataError, TooManyFailures
from ser_toolkit.metrics.classification import RESAMPLES, Interval, mean_interval
from ser_toolkit.progress import Progress
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import load_recipe
from ser_toolkit.releases.load import Release, load_release
from ser_toolkit.rewards.aggregate import AggregationName
from ser_toolkit.rewards.base import Completion, Scene
from ser_toolkit.rewards.perm import TASK, PermOptions, PermReward
from ser_toolkit.schema import Record
from ser_toolkit.workspace import Workspace

from .journaled_judging import JournaledChat, ask_journaled, folder_made

SCALES = {
    "resonation": "1 to 5", "expression": "1 to 5", "reception": "1 to 5", "bystander": "0 to 100",
    "empathy": "0 to 1", "bystander_term": "-0.5 to 0",
}  # fmt: skip
"""What PERM gives by name, and on which scale; `total` is the sum of the last two."""
TOTAL = "total"
CALLS = 4
"""A trace's."""


class Asked(Record):
    """One trace to judge."""

    id: str


class Scored(Record):
    """One trace's scores; `None` is missing, and `notes` say why."""

    id: str
    total: float | None
    components: dict[str, float | None]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PermEvaluation:
    """Means with intervals by score, how many are missing, and how often each level was given."""

    data: dict[str, Any]
    card: dict[str, Any]
    scores: dict[str, Interval]
    levels: dict[str, dict[int, int]]
    folder: Path

    def to_json(self) -> dict[str, Any]:
        return {
            "data": self.data,
            "card": self.card,
            "scores": {
                k: {**asdict(v), "missing": self.data["traces"] - v.n, "scale": SCALES.get(k, "-0.5 to 1")}
                for k, v in self.scores.items()
            },
            "levels": self.levels,
            "folder": str(self.folder),
        }

    def render(self) -> str:
        d = self.data
        lines = [f"{d['name']}-{d['version']}, {d['split']}: {d['traces']} traces, judged by {self.card['judge']}"]
        lines.append(f"  {'':<16}{'mean':>8}  {'95 %':>18}{'n':>7}{'missing':>9}  scale")
        for name, v in self.scores.items():
            mean = "–" if v.value is None else f"{v.value:.3f}"
            between = "" if v.low is None or v.high is None else f"{v.low:.3f} to {v.high:.3f}"
            missing = d["traces"] - v.n
            lines.append(f"  {name:<16}{mean:>8}  {between:>18}{v.n:>7}{missing:>9}  {SCALES.get(name, '-0.5 to 1')}")
        lines += [
            f"  {name}: " + ", ".join(f"{level} x {n}" for level, n in sorted(levels.items()))
            for name, levels in self.levels.items()
        ]
        return "\n".join([*lines, f"each trace's scores are in {self.folder}/scores.jsonl"])


def evaluate_perm(
    release: str | Path,
    *,
    model: str | None = None,
    split: str = "all",
    limit: int | None = None,
    out: Path | None = None,
    aggregation: AggregationName = "harmonic",
    workspace: str | Path = ".",
    sets: Iterable[str] = (),
    seed: int = 0,
    quiet: bool = False,
) -> PermEvaluation:
    """Judge each trace's analysis and reply, four calls a trace, and write what comes out into a folder.

    Raises SerError: what `load_release` does, UsageError for a split, TooManyFailures where no trace got a total.
    """
    home = Workspace(Path(workspace))
    recipe = load_recipe(home.root, sets, {} if model is None else {"llm.model": model})
    found = load_release(release)
    rounds = traces_of(found, split, limit)
    manifest = found.manifest
    data = {"name": manifest["name"], "version": manifest["version"], "content_hash": manifest["content_hash"]}
    data |= {"split": split, "traces": len(rounds)}
    folder = out or home.root / "evaluations" / f"{data['name']}-{data['version']}-perm"
    folder_made(folder)
    options = PermOptions(aggregation=aggregation, length=False, seed=seed)
    prompts = Prompts(home.prompts)

    async def work(chat: JournaledChat, places: int, watcher: Progress) -> list[Scored]:
        reward, rows = PermReward(chat, options, prompts), list[Record]()

        async def score(asked: Asked) -> list[Scored]:
            scene, completion = rounds[asked.id]
            (found,) = await reward.score(scene, [completion])
            return [Scored(id=asked.id, total=found.total, components=dict(found.components), notes=found.notes)]

        def keep(_: Asked, made: list[Record]) -> None:
            rows.extend(made)

        asked = [Asked(id=id_) for id_ in rounds]
        await run_stage(TASK, asked, score, keep, concurrency=max(1, places // CALLS), watcher=watcher)
        return [r for r in rows if isinstance(r, Scored)]

    scored, how = ask_journaled(recipe.llm, folder, work, Progress(quiet=quiet), TASK, len(rounds))
    if all(s.total is None for s in scored):
        first = next((n for s in scored for n in s.notes), "")
        raise TooManyFailures(f"{how['judge']}: no trace got a total; the first: {first}", "try another model")
    card = {
        **how,
        "rubric": {lang: _rubric(prompts, lang) for lang in sorted({scene.lang for scene, _ in rounds.values()})},
        "start_state": "the history up to the reply, situation and persona where known; each score a call of its own",
        "aggregation": f"{aggregation}; 95 % intervals from {RESAMPLES:,} bootstrap resamples of traces",
        "temperature": options.temperature,
        "runs": 1,
        "seed": seed,
        "toolkit": version("ser-toolkit"),
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    result = PermEvaluation(data, card, _means(scored, seed), _levels(scored), folder)
    _write(result, scored)
    return result


def traces_of(release: Release, split: str, limit: int | None) -> dict[str, tuple[Scene, Completion]]:
    """Trace id -> its scene, situation and persona included where the release knows them, and what was written."""
    traces = release.frame("traces", None if split == "all" else split, text_only=True).head(limit or 1 << 62)
    about: dict[str, dict[str, str]] = {}
    if release.rows.get("dialogues"):
        told = release.frame("dialogues", None, text_only=True).select("id", "situation", "speakers")
        for row in told.iter_rows(named=True):
            persona = next((s["persona"] for s in row["speakers"] or () if s["role"] == "seeker"), None)
            about[row["id"]] = {"scenario": row["situation"] or "", "persona": persona or ""}
    return {
        row["id"]: (
            scene_of({**row, **about.get(row["dialogue_id"], {})}),
            Completion(row["completion"][0]["content"]),
        )
        for row in traces.iter_rows(named=True)
    }


def _rubric(prompts: Prompts, lang: str) -> dict[str, str]:
    prompt = prompts.get(TASK, "zh" if lang == "zh" else "en")
    return {"prompt": prompt.label, "sha256": prompt.sha}


def _means(scored: Sequence[Scored], seed: int) -> dict[str, Interval]:
    found = {k: mean_interval([s.components.get(k) for s in scored], seed=seed) for k in SCALES}
    return found | {TOTAL: mean_interval([s.total for s in scored], seed=seed)}


def _levels(scored: Sequence[Scored]) -> dict[str, dict[int, int]]:
    """How often each level was given; 0 stands for an absent part."""
    names = ("resonation", "expression", "reception")
    return {k: dict(Counter(int(v) for s in scored if (v := s.components.get(k)) is not None)) for k in names}


def _write(result: PermEvaluation, scored: Sequence[Scored]) -> None:
    try:
        text = json.dumps(result.to_json(), ensure_ascii=False, indent=1)
        (result.folder / "evaluation.json").write_text(text + "\n", encoding="utf-8")
        lines = (json.dumps(s.model_dump(), ensure_ascii=False) + "\n" for s in scored)
        (result.folder / "scores.jsonl").write_text("".join(lines), encoding="utf-8")
    except OSError as exc:
        raise DataError(f"{exc.filename}: cannot be written: {exc.strerror}", "name another folder: --out DIR") from exc
