"""`ser eval rm`: a reward model, or any model as a judge, against the labels of a release.

A folder holds all of it: evaluation.json, report.html, the answers, and the journal that a stopped run goes on from.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rm_training.evaluate import Item, Said, ask_chat_model, ask_run, read_items
from rm_training.measures import BASELINES, Measured, Score, compare, measure
from ser_toolkit import registry
from ser_toolkit.errors import DataError, TooManyFailures
from ser_toolkit.metrics.classification import RESAMPLES, Difference
from ser_toolkit.progress import Progress
from ser_toolkit.recipe import Recipe, load_recipe
from ser_toolkit.releases.judging import JUDGE_VERSION, judge_chat
from ser_toolkit.releases.load import Release, load_release
from ser_toolkit.schema import canonical_json

from .journaled_judging import JournaledChat, ask_journaled, folder_made

IN_PROCESS = "in process: likelihood of each allowed answer, softmax over them"
SERVED = "served: four dependent rounds, choice-constrained where the server can, temperature 0, asked again once"


@dataclass(frozen=True, slots=True)
class Judge:
    """One judge's part: its name for people, its run card, what it said and what that is worth."""

    name: str
    card: dict[str, Any]
    said: Sequence[Said]
    measured: Measured

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "card": self.card,
            "scores": [s.to_json() for s in self.measured.scores],
            "reliability": {part: [asdict(b) for b in bins] for part, bins in self.measured.bins.items()},
            "confusion": self.measured.confusion,
        }


@dataclass(frozen=True, slots=True)
class JudgeEvaluation:
    """One judge, or two side by side; `differences` are first - second, paired, by figure."""

    data: dict[str, Any]
    judges: tuple[Judge, ...]
    differences: dict[str, Difference]
    folder: Path

    def to_json(self) -> dict[str, Any]:
        return {
            "data": self.data,
            "judges": [j.to_json() for j in self.judges],
            "differences": {key: asdict(d) for key, d in self.differences.items()},
            "folder": str(self.folder),
            "report": str(self.folder / "report.html"),
        }

    def render(self) -> str:
        d = self.data
        lines = [f"{d['name']}-{d['version']}, {d['split']}: {d['items']} labelled items"]
        for judge in self.judges:
            lines += ["", judge.name, *table(judge.measured.scores)]
        if self.differences:
            lines += ["", f"{self.judges[0].name} - {self.judges[1].name}, paired"]
            titles = {s.key: s.title for s in self.judges[0].measured.scores}
            for key, x in self.differences.items():
                p = "" if x.p is None else f"p {x.p:.3f}"
                between = f"{shown(x.value, True):>7}  {span(x.low, x.high, True):>16}"
                lines.append(f"  {titles[key]:<32}{between}  {p:<8} n {x.n}")
        lines += ["", f"report {self.folder / 'report.html'}; every answer is in {self.folder}/answers-*.jsonl"]
        return "\n".join(lines)


def table(scores: Sequence[Score]) -> list[str]:
    """Lines of figures: value, interval, items, missing answers, and the baselines beside."""
    head = "".join(f"{name:>10}" for name in BASELINES)
    lines = [f"  {'':<32}{'value':>7}  {'95 %':>16}{'n':>7}{'missing':>9}{head}"]
    for s in scores:
        beside = "".join(
            f"{shown(s.baselines.get(name)):>10}" if name in s.baselines else " " * 10 for name in BASELINES
        )
        more = "".join(f"  labels {shown(v)}" for k, v in s.baselines.items() if k not in BASELINES)
        more += "" if s.p is None else f"  p {s.p:.3f}"
        v = s.value
        value = f"{shown(v.value):>7}  {span(v.low, v.high):>16}{v.n:>7}{s.missing:>9}"
        lines.append(f"  {s.title:<32}{value}{beside}{more}".rstrip())
    return lines


def shown(value: float | None, signed: bool = False) -> str:
    """Per cent with one decimal; missing is a dash."""
    return "–" if value is None else f"{100 * value:{'+' if signed else ''}.1f}"


def span(low: float | None, high: float | None, signed: bool = False) -> str:
    """An interval, "" where there is none."""
    return "" if low is None or high is None else f"{shown(low, signed)} to {shown(high, signed)}"


def evaluate_judge(
    release: str | Path,
    model: str,
    *,
    against: str | None = None,
    split: str = "test",
    limit: int | None = None,
    out: Path | None = None,
    workspace: str | Path = ".",
    sets: Iterable[str] = (),
    seed: int = 0,
    batch_size: int = 8,
    quiet: bool = False,
) -> JudgeEvaluation:
    """Ask one judge, or two, about the labelled items of a split, and write what comes out into a folder.

    `model`: a run or a model's folder or Hub id (in process), or `embedded`, openai:MODEL, vllm:MODEL (any chat model
    as a zero-shot judge; journaled, so that a stopped run goes on). Raises SerError: DataError without labels,
    TooManyFailures where a judge gave no answer at all.
    """
    recipe = load_recipe(Path(workspace), sets)
    found = load_release(release)
    items = read_items(found, split, limit)
    learnt_from = read_items(found, "train") if found.rows["judgements"].get("train") and split != "train" else None
    manifest = found.manifest
    data = {"name": manifest["name"], "version": manifest["version"], "content_hash": manifest["content_hash"]}
    data |= {"split": split, "items": len(items), "majority_of": "train" if learnt_from else split}
    folder = out or Path(workspace) / "evaluations" / f"{data['name']}-{data['version']}-judges"
    folder_made(folder)
    judges = []
    for spec in (model, *([against] if against else ())):
        said, how = _ask(spec, items, recipe, folder, seed, batch_size, Progress(quiet=quiet))
        measured = measure(items, said, learnt_from=learnt_from, seed=seed)
        judges.append(Judge(how["judge"], _card(how, data, found, said, seed), said, measured))
    differences = compare(items, judges[0].said, judges[1].said, seed=seed) if against else {}
    result = JudgeEvaluation(data, tuple(judges), differences, folder)
    _write(result, items)
    return result


def is_served(spec: str) -> bool:
    """Whether a model is asked as a chat model: its backend is one of the registry's."""
    return spec.partition(":")[0].strip() in registry.names("models")


def _ask(
    spec: str, items: Sequence[Item], recipe: Recipe, folder: Path, seed: int, batch_size: int, progress: Progress
) -> tuple[list[Said], dict[str, Any]]:
    """The answers, and how they came about."""
    if is_served(spec):
        settings = recipe.llm.model_copy(update={"model": spec})

        async def work(chat: JournaledChat, places: int, watcher: Progress) -> list[Said]:
            return await ask_chat_model(
                items, chat, concurrency=places, seed=seed, max_tokens=settings.max_tokens, watcher=watcher
            )

        said, how = ask_journaled(settings, folder, work, progress, "judge", len(items))
        how["how"] = SERVED
    else:
        said, identity = ask_run(spec, items, batch_size=batch_size)
        how = {"judge": identity, "how": IN_PROCESS}
    if all(a is None for s in said for a in s.answers):
        raise TooManyFailures(
            f"{spec}: not one answer could be used; the first: {(said[0].notes or ('',))[0]}",
            "try another model, or look at the replies in the journal",
        )
    return said, how


def _card(
    how: dict[str, Any], data: dict[str, Any], release: Release, said: Sequence[Said], seed: int
) -> dict[str, Any]:
    """All that a figure needs to be read, and to be made again."""
    rubric = [judge_chat((), ("1", "2", "3"), ("4", "5"), lang, ("",) * 4) for lang in ("en", "zh")]
    return {
        **how,
        "rubric": {"version": JUDGE_VERSION, "sha256": hashlib.sha256(canonical_json(rubric)).hexdigest()},
        "start_state": "no examples; in later rounds the judge's own earlier answers",
        "data": data,
        "labels": {k: release.manifest.get("annotation", {}).get(k) for k in ("people", "judges")},
        "scale": "shares in [0, 1]; F1 weighted by how often a class is true",
        "aggregation": f"each item once; 95 % intervals from {RESAMPLES:,} bootstrap resamples of items",
        "runs": 1,
        "seed": seed,
        "missing": {f"round {n}": sum(s.answers[n - 1] is None for s in said) for n in (1, 2, 3, 4)},
        "toolkit": version("ser-toolkit"),
        "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _write(result: JudgeEvaluation, items: Sequence[Item]) -> None:
    from .report.judges import render_judges

    try:
        text = json.dumps(result.to_json(), ensure_ascii=False, indent=1)
        (result.folder / "evaluation.json").write_text(text + "\n", encoding="utf-8")
        (result.folder / "report.html").write_text(render_judges(result), encoding="utf-8")
        for letter, judge in zip("ab", result.judges, strict=False):
            rows = (
                {
                    "id": i.id,
                    "labels": i.labels,
                    "generated_position": i.generated_position,
                    **s.model_dump(exclude={"id"}),
                }
                for i, s in zip(items, judge.said, strict=True)
            )
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (result.folder / f"answers-{letter}.jsonl").write_text("".join(lines), encoding="utf-8")
    except OSError as exc:
        raise DataError(
            f"{result.folder}: cannot be written: {exc.strerror}", "name another folder: --out DIR"
        ) from exc
