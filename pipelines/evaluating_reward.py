"""`ser eval reward`: any reward over the traces of a release, or over groups of completions of one's own.

PERM's judges tell so how empathic a data set's analyses and replies are; a trained judge picks the best of a group. A
folder holds all of it: scores.jsonl (a row a completion), evaluation.json, and the journal that a stopped run goes on
from.
"""

from __future__ import annotations

import asyncio
import datetime
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from rl_training.prompts import scene_of
from ser_toolkit.engine import run_stage
from ser_toolkit.errors import DataError, TooManyFailures, UsageError
from ser_toolkit.metrics.classification import RESAMPLES, Interval, mean_interval
from ser_toolkit.progress import Progress
from ser_toolkit.recipe import load_recipe
from ser_toolkit.releases.load import Release, load_release
from ser_toolkit.rewards.base import Completion, RewardFunction, Scene
from ser_toolkit.rewards.open import SERVED, open_reward
from ser_toolkit.schema import Record

from .journaled_judging import JournaledChat, ask_journaled, folder_made

STAGE = "reward"
TOTAL = "total"
CALLS = 4
"""Calls that a completion costs a served judge."""
SCALES = {
    "resonation": "1 to 5", "expression": "1 to 5", "reception": "1 to 5", "bystander": "0 to 100",
    "empathy": "0 to 1", "bystander_term": "-0.5 to 0", "perm": "-0.5 to 1",
    **dict.fromkeys(("step1", "step2", "step3", "preference", "format"), "0 to 1"),
    **dict.fromkeys(("unified", "unified-local"), "0 to 3"),
}  # fmt: skip
"""The scale of our rewards' parts, and of the totals under the rewards' names."""
FEW = 6
"""A score with no more different values than this is also counted by value."""
Groups = dict[str, tuple[Scene, list[Completion]]]


class Asked(Record):
    """One group to score."""

    id: str


class Scored(Record):
    """One completion's scores, by its group's id and its place there; `None` is missing, and `notes` say why."""

    id: str
    place: int
    total: float | None
    components: dict[str, float | None]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RewardEvaluation:
    """Means with intervals by score, how many are missing, and how often each value was given where there are few."""

    data: dict[str, Any]
    card: dict[str, Any]
    scores: dict[str, Interval]
    levels: dict[str, dict[float, int]]
    folder: Path

    def scale(self, name: str) -> str:
        return SCALES.get(self.card["reward"] if name == TOTAL else name, "")

    def to_json(self) -> dict[str, Any]:
        return {
            "data": self.data,
            "card": self.card,
            "scores": {
                k: {**asdict(v), "missing": self.data["completions"] - v.n, "scale": self.scale(k)}
                for k, v in self.scores.items()
            },
            "levels": self.levels,
            "folder": str(self.folder),
        }

    def render(self) -> str:
        d = self.data
        lines = [f"{d['name']}-{d['version']}, {d['split']}: {d['completions']} completions of {d['groups']} scenes"]
        lines.append(f"{self.card['reward']}, judged by {self.card['judge']}")
        lines.append(f"  {'':<16}{'mean':>8}  {'95 %':>18}{'n':>7}{'missing':>9}  scale")
        for name, v in self.scores.items():
            mean = "–" if v.value is None else f"{v.value:.3f}"
            between = "" if v.low is None or v.high is None else f"{v.low:.3f} to {v.high:.3f}"
            missing = d["completions"] - v.n
            lines.append(f"  {name:<16}{mean:>8}  {between:>18}{v.n:>7}{missing:>9}  {self.scale(name)}".rstrip())
        lines += [
            f"  {name}: " + ", ".join(f"{value:g} x {n}" for value, n in sorted(levels.items()))
            for name, levels in self.levels.items()
        ]
        return "\n".join([*lines, f"the scores of each are in {self.folder}/scores.jsonl"])


def evaluate_reward(
    release: str | Path,
    reward: str = "perm",
    *,
    model: str | None = None,
    completions: Path | None = None,
    split: str = "all",
    limit: int | None = None,
    out: Path | None = None,
    options: Mapping[str, Any] | None = None,
    workspace: str | Path = ".",
    sets: Iterable[str] = (),
    seed: int = 0,
    quiet: bool = False,
) -> RewardEvaluation:
    """Score each trace, or `completions` of one's own (JSON Lines of {id, completions}, the ids those of `prompts/`).

    `reward` as `open_reward` takes it, with its `options`; `model` judges, where the reward asks one. Raises SerError:
    what `load_release` and the reward do, UsageError for a split, TooManyFailures where nothing got a total.
    """
    root = Path(workspace)
    recipe = load_recipe(root, sets, {} if model is None else {"llm.model": model})
    found = load_release(release)
    groups = traces_of(found, split, limit) if completions is None else given_groups(found, completions, limit)
    manifest = found.manifest
    data = {"name": manifest["name"], "version": manifest["version"], "content_hash": manifest["content_hash"]}
    data |= {"split": split if completions is None else str(completions), "groups": len(groups)}
    data["completions"] = sum(len(g) for _, g in groups.values())
    name = reward.partition(":")[0]
    given = {"seed": seed, **(options or {})}
    folder = out or root / "evaluations" / f"{data['name']}-{data['version']}-{name}"
    progress = Progress(quiet=quiet)
    if name in SERVED or model is not None:

        async def work(chat: JournaledChat, places: int, watcher: Progress) -> list[Scored]:
            return await _score(open_reward(reward, chat, **given), groups, max(1, places // CALLS), watcher)

        scored, how = ask_journaled(recipe.llm, folder, work, progress, STAGE, len(groups))
    else:
        folder_made(folder)
        opened = open_reward(reward, **given)
        progress.start(STAGE, len(groups))
        scored, how = asyncio.run(_score(opened, groups, 1, progress)), {"judge": reward.partition(":")[2] or name}
        progress.stop()
    if all(s.total is None for s in scored):
        first = next((n for s in scored for n in s.notes), "")
        raise TooManyFailures(f"{reward}: nothing got a total; the first: {first}", "try another model")
    card = {
        "reward": name,
        **how,
        "options": given,
        "start_state": "the history up to the reply; situation and persona where the release knows them",
        "aggregation": f"each completion once; 95 % intervals from {RESAMPLES:,} bootstrap resamples of completions",
        "runs": 1,
        "toolkit": version("ser-toolkit"),
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    result = RewardEvaluation(data, card, _means(scored, seed), _levels(scored), folder)
    _write(result, scored)
    return result


async def _score(reward: RewardFunction, groups: Groups, concurrency: int, watcher: Progress) -> list[Scored]:
    rows: list[Record] = []

    async def score(asked: Asked) -> list[Scored]:
        scene, completions = groups[asked.id]
        found = await reward.score(scene, completions)
        return [
            Scored(id=asked.id, place=n, total=b.total, components=dict(b.components), notes=b.notes)
            for n, b in enumerate(found)
        ]

    def keep(_: Asked, made: list[Record]) -> None:
        rows.extend(made)

    asked = [Asked(id=id_) for id_ in groups]
    await run_stage(STAGE, asked, score, keep, concurrency=concurrency, watcher=watcher)
    return [r for r in rows if isinstance(r, Scored)]


def traces_of(release: Release, split: str, limit: int | None) -> Groups:
    """Trace id -> its scene, situation and persona included where the release knows them, and what was written."""
    traces = release.frame("traces", None if split == "all" else split).head(limit or 1 << 62)
    about: dict[str, dict[str, str]] = {}
    if release.rows.get("dialogues"):
        told = release.frame("dialogues", None, text_only=True).select("id", "situation", "speakers")
        for row in told.iter_rows(named=True):
            persona = next((s["persona"] for s in row["speakers"] or () if s["role"] == "seeker"), None)
            about[row["id"]] = {"scenario": row["situation"] or "", "persona": persona or ""}
    return {
        row["id"]: (
            scene_of({**row, **about.get(row["dialogue_id"], {})}),
            [Completion(row["completion"][0]["content"])],
        )
        for row in traces.iter_rows(named=True)
    }


def given_groups(release: Release, file: Path, limit: int | None) -> Groups:
    """The groups of a JSON Lines file. Raises UsageError, DataError with the line that cannot be used."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(f"{file}: cannot be read: {exc}", "JSON Lines of {id, completions} in UTF-8") from exc
    scenes = {row["id"]: row for row in release.frame("prompts", None).iter_rows(named=True)}
    groups: Groups = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or len(groups) == limit:
            continue
        try:
            row = json.loads(line)
            texts = [Completion(str(text)) for text in row["completions"]]
        except (ValueError, KeyError, TypeError) as exc:
            raise DataError(f"{file}, line {number}: no {{id, completions}}", "one JSON object a line") from exc
        if row.get("id") not in scenes:
            raise DataError(f"{file}, line {number}: {row.get('id')!r} is no prompt of this release", "ids of prompts/")
        groups[row["id"]] = (scene_of(scenes[row["id"]]), texts)
    return groups


def read_options(given: Iterable[str]) -> dict[str, Any]:
    """KEY=VALUE, the value in YAML. Raises UsageError."""
    found: dict[str, Any] = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"--option {item}: not of the form KEY=VALUE", "for example --option position=both")
        try:
            found[key.strip()] = yaml.safe_load(value)
        except yaml.YAMLError as exc:
            raise UsageError(f"--option {item}: the value is not YAML", "quote it") from exc
    return found


def _names(scored: Sequence[Scored]) -> list[str]:
    return list(dict.fromkeys(name for s in scored for name in s.components))


def _means(scored: Sequence[Scored], seed: int) -> dict[str, Interval]:
    found = {k: mean_interval([s.components.get(k) for s in scored], seed=seed) for k in _names(scored)}
    return found | {TOTAL: mean_interval([s.total for s in scored], seed=seed)}


def _levels(scored: Sequence[Scored]) -> dict[str, dict[float, int]]:
    counts = {k: Counter(v for s in scored if (v := s.components.get(k)) is not None) for k in _names(scored)}
    return {k: dict(c) for k, c in counts.items() if len(c) <= FEW}


def _write(result: RewardEvaluation, scored: Sequence[Scored]) -> None:
    try:
        text = json.dumps(result.to_json(), ensure_ascii=False, indent=1)
        (result.folder / "evaluation.json").write_text(text + "\n", encoding="utf-8")
        lines = (json.dumps(s.model_dump(), ensure_ascii=False) + "\n" for s in scored)
        (result.folder / "scores.jsonl").write_text("".join(lines), encoding="utf-8")
    except OSError as exc:
        raise DataError(f"{exc.filename}: cannot be written: {exc.strerror}", "name another folder: --out DIR") from exc
