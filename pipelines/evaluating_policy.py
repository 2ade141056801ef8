"""`ser eval policy`: a model through a suite, its transcripts kept, its scores with intervals and their run card.

Made to be run again: every call is in the workspace's journal, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from rl_training.evaluate import STAGE, Evaluation, Judge, Transcript
from rl_training.figures import HEADING, CrisisFigures, Figure, crisis_figures, figures, habits, measures
from rl_training.policy import Policy, Style
from rl_training.suites import OWN_RUBRIC, Suite, suite_called
from ser_toolkit.engine import run_stage
from ser_toolkit.errors import TooManyFailures, UsageError
from ser_toolkit.journal import Journal
from ser_toolkit.llm.chat import ChatModel
from ser_toolkit.llm.journaled import JournaledChat
from ser_toolkit.llm.open import open_model
from ser_toolkit.progress import Progress
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Llm, Recipe, load_recipe
from ser_toolkit.releases.prompting import PROMPT_VERSION
from ser_toolkit.schema import Failure, Lang, Scenario, canonical_json
from ser_toolkit.store import write_json
from ser_toolkit.workspace import Workspace, writing

from .suites import SuiteItems, read_suite

TRANSCRIPTS, REPORT = "transcripts.jsonl", "report.json"
SEEKER_PROMPTS = ("seeker", "seeker_feeling")


@dataclass(frozen=True, slots=True)
class PolicyEvaluation:
    """What a run came to. `card` says how each score was made; `failed` is what could not be played or scored."""

    suite: Suite
    card: dict[str, Any]
    figures: list[Figure]
    habits: list[Figure]
    crisis: CrisisFigures
    transcripts: int
    failed: dict[str, int]
    out: Path
    calls: int
    replayed: int

    def to_json(self) -> dict[str, Any]:
        return {
            "suite": self.suite.name,
            "transcripts": self.transcripts,
            "figures": [f.to_json() for f in self.figures],
            "habits": [f.to_json() for f in self.habits],
            "crisis": self.crisis.to_json(),
            "failures": self.failed,
            "card": self.card,
            "out": str(self.out),
            "calls": self.calls,
            "replayed": self.replayed,
        }

    def render(self) -> str:
        told = ", ".join(f"{k} {n}" for k, n in sorted(self.failed.items())) or "none"
        return "\n".join(
            [
                f"{self.suite.title}: {self.card['policy']['model']} ({self.card['policy']['style']}), "
                f"{self.transcripts} talks",
                HEADING,
                *(f.render() for f in self.figures),
                *(f.render() for f in self.habits),
                *self.crisis.render(),
                f"failures: {told}",
                f"{OWN_RUBRIC} ({self.out / REPORT} says how they were made)",
                f"{self.calls} calls, {self.replayed} replayed; transcripts: {self.out / TRANSCRIPTS}",
            ]
        )


def evaluate_policy(
    model: str,
    suite: str,
    data: str,
    *,
    workspace: str | Path = ".",
    seeker: str | None = None,
    judges: Sequence[str] = (),
    style: Style = "ser",
    rounds: int | None = None,
    limit: int | None = None,
    out: str | Path | None = None,
    retry_failures: bool = False,
    sets: Iterable[str] = (),
    quiet: bool = False,
) -> PolicyEvaluation:
    """Put `model` (a SPEC, or a folder of weights) through a suite whose file is at `data`.

    Raises UsageError, DataError, RemoteError; TooManyFailures (after all is written) where more than
    `failures.max_share` of the items could not be played or scored.
    """
    home = Workspace(Path(workspace))
    flags: dict[str, Any] = {"evaluate.policy.model": spec_of(model)}
    flags |= {} if seeker is None else {"evaluate.seeker.model": seeker}
    flags |= {} if rounds is None else {"evaluate.rounds": rounds}
    flags |= {"evaluate.judges": [{"model": j} for j in judges]} if judges else {}
    recipe = load_recipe(home.root, sets, flags)
    chosen = suite_called(suite)
    read = read_suite(chosen, data, limit, home.maps)
    with home.locked(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(
            _run(home, recipe, chosen, read, style, Path(out) if out else None, Progress(quiet=quiet), retry_failures)
        )


def spec_of(model: str) -> str:
    """The SPEC of a model that is named by one, or by a folder (a run, or weights). Raises UsageError for no folder."""
    if "/" in model and ":" not in model and not Path(model).is_dir():
        raise UsageError(f"{model}: no such folder", "name a run, or a SPEC: openai:MODEL, vllm:MODEL, embedded")
    return f"local:{model}" if Path(model).is_dir() else model


@dataclass(slots=True)
class _Models:
    """The chat models of a run behind one journal; equal settings are one model."""

    journal: Journal
    stack: AsyncExitStack
    open: dict[bytes, JournaledChat] = field(default_factory=dict)

    async def get(self, settings: Llm) -> JournaledChat:
        key = canonical_json(settings.model_dump(mode="json", exclude={"temperature", "top_p", "max_tokens"}))
        if key not in self.open:
            inner: ChatModel = open_model(settings)
            self.stack.push_async_callback(inner.aclose)
            check = getattr(inner, "check", None)
            if check is not None:
                await check()
            self.open[key] = JournaledChat(inner, self.journal)
        return self.open[key]


async def _run(
    home: Workspace,
    recipe: Recipe,
    suite: Suite,
    read: SuiteItems,
    style: Style,
    out: Path | None,
    progress: Progress,
    retry_failures: bool,
) -> PolicyEvaluation:
    wanted, prompts = recipe.evaluate, Prompts(home.prompts)
    journal = Journal(home.journal)
    try:
        async with AsyncExitStack() as stack:
            models = _Models(journal, stack)
            settings = wanted.policy.over(recipe.llm)
            style_ = "bare" if style == "plain" and suite.told else style
            policy = Policy(await models.get(settings), settings, prompts, style_, recipe.seed, STAGE)
            seeker_settings = wanted.seeker.over(recipe.llm)
            seeker = policy.chat if suite.told else await models.get(seeker_settings)
            if not suite.told:
                _can_write(seeker, read.items)
            judges = [
                Judge(*named, await models.get(judge), judge.temperature if "temperature" in own else 0.0)
                for named, judge, own in _judges(recipe, suite)
            ]
            work = Evaluation(suite, policy, seeker, seeker_settings, judges, recipe, prompts)
            card = _card(work, read, style)
            folder = out or home.root / "evaluations" / _name(suite, card)
            if retry_failures:
                journal.retire(_failed_keys(folder))
            rows, failures = await _play(work, read.items, policy.settings, progress)
            journal.flush()
            calls = sum(m.calls for m in models.open.values())
            replayed = sum(m.replayed for m in models.open.values())
    finally:
        journal.close()
    lost = {f.record_id for f in failures} - {t.id for t in rows}
    counted = {"unplayed": len(lost), "resamples": wanted.resamples, "seed": recipe.seed}
    result = PolicyEvaluation(
        suite,
        card,
        figures(rows, measures(suite), **counted),
        figures(rows, habits(suite, style), **{**counted, "unplayed": 0}),
        crisis_figures(rows, suite, locale=recipe.protect.locale, resamples=wanted.resamples, seed=recipe.seed),
        len(rows),
        dict(Counter(f.kind for f in (*read.failures, *failures))),
        folder,
        calls,
        replayed,
    )
    _write(result, rows, [*read.failures, *failures])
    _check_share(result, rows, read, failures, recipe)
    return result


def _judges(recipe: Recipe, suite: Suite) -> list[tuple[tuple[str, int], Llm, frozenset[str]]]:
    """((name, seat), settings, the keys that the recipe sets itself) of each judge; the second of one model is "#2"."""
    if suite.rubric is None:
        return []
    seats: Counter[str] = Counter()
    found: list[tuple[tuple[str, int], Llm, frozenset[str]]] = []
    for judge in recipe.evaluate.judges or (Llm(),):
        settings = judge.over(recipe.llm)
        model = settings.model.partition(":")[2] or settings.model
        seats[model] += 1
        name = model if seats[model] == 1 else f"{model}#{seats[model]}"
        found.append(((name, seats[model]), settings, frozenset(judge.model_fields_set)))
    return found


def _can_write(seeker: ChatModel, items: Sequence[Scenario]) -> None:
    """Raises UsageError where the seeker's model is known not to write an item's language."""
    foreign = Counter(i.lang for i in items if seeker.languages and i.lang not in seeker.languages)
    if foreign:
        told = ", ".join(f"{n} in {lang}" for lang, n in foreign.items())
        raise UsageError(
            f"the seeker's model {seeker.model} writes {', '.join(sorted(seeker.languages))} only: {told}",
            "name another with --seeker",
        )


async def _play(
    work: Evaluation, items: Sequence[Scenario], settings: Llm, progress: Progress
) -> tuple[list[Transcript], list[Failure]]:
    rows: list[Transcript] = []
    failures: list[Failure] = []

    def keep(_: Scenario, made: list[Any]) -> None:
        for row in made:
            (failures if isinstance(row, Failure) else rows).append(row)  # type: ignore[arg-type]

    progress.chat = work.policy.chat if isinstance(work.policy.chat, JournaledChat) else None
    progress.start(STAGE, len(items))
    try:
        await run_stage(STAGE, items, work.run, keep, concurrency=2 * settings.concurrency, watcher=progress)
    finally:
        progress.stop()
    return rows, failures


def _card(work: Evaluation, read: SuiteItems, style: Style) -> dict[str, Any]:
    """How the scores were made: whatever would change one stands here."""
    recipe, policy, suite = work.recipe, work.policy, work.suite
    langs: list[Lang] = sorted({i.lang for i in read.items})

    def labels(*tasks: str) -> list[str]:
        return [f"{lang}/{(p := work.prompts.get(t, lang)).label} {p.sha[:12]}" for t in tasks for lang in langs]

    card: dict[str, Any] = {
        "suite": suite.name,
        "data": read.told,
        "policy": {
            **_model_card(policy.chat),
            "style": style,
            "temperature": policy.settings.temperature,
            "max_tokens": policy.settings.max_tokens,
            "prompt": PROMPT_VERSION if style == "ser" else labels("policy_plain") if policy.style == "plain" else None,
        },
        "rounds": work.rounds,
        "runs": 1,
        "seed": recipe.seed,
        "intervals": f"95 %, percentile bootstrap over items, {recipe.evaluate.resamples} resamples",
        "missing": "left out of means and counted; a policy that gave no reply scores 0",
    }
    if not suite.told:
        start = recipe.evaluate.start_feeling if suite.tracks else None
        card["seeker"] = {**_model_card(work.seeker), "prompts": labels(*SEEKER_PROMPTS), "start_feeling": start}
    if suite.rubric is not None:
        card["judges"] = [{**_model_card(j.chat), "name": j.name, "temperature": j.temperature} for j in work.judges]
        card["rubric"] = {"prompts": labels(suite.rubric.task), "scale": suite.rubric.scale, "own": OWN_RUBRIC}
        card["aggregation"] = "mean over the judges that answered, then over items"
    return card


def _model_card(chat: ChatModel) -> dict[str, str]:
    return {"model": chat.model, "identity": chat.identity}


def _name(suite: Suite, card: dict[str, Any]) -> str:
    """The run's folder: what is asked, of whom, and eight digits of how."""
    model = re.sub(r"[^A-Za-z0-9._-]+", "-", card["policy"]["model"]).strip("-.")[-60:]
    return f"{suite.name}-{model}-{hashlib.sha256(canonical_json(card)).hexdigest()[:8]}"


def _write(result: PolicyEvaluation, rows: Sequence[Transcript], failures: Sequence[Failure]) -> None:
    """Transcripts (and the failures beside them) and the report, each whole or not at all."""
    with writing(result.out):
        result.out.mkdir(parents=True, exist_ok=True)
        for name, records in ((TRANSCRIPTS, rows), ("failures.jsonl", failures)):
            part = result.out / f"{name}.part"
            part.write_bytes(b"".join(_line(r) for r in records))
            part.replace(result.out / name)
    told = result.to_json()
    write_json(result.out / REPORT, {k: v for k, v in told.items() if k not in ("calls", "replayed", "out")})


def _line(record: Transcript | Failure) -> bytes:
    return (json.dumps(record.model_dump(mode="json"), ensure_ascii=False) + "\n").encode("utf-8", "replace")


def _failed_keys(folder: Path) -> list[str]:
    """The journal's keys of the calls behind an earlier run's failures."""
    file = folder / "failures.jsonl"
    if not file.is_file():
        return []
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [row["request_key"] for row in rows if row.get("request_key")]


def _check_share(
    result: PolicyEvaluation, rows: Sequence[Transcript], read: SuiteItems, failures: Sequence[Failure], recipe: Recipe
) -> None:
    unscored = sum(bool(t.scores) and all(s.scores is None for s in t.scores) for t in rows)
    items = len(read.items) + len(read.failures)
    bad = items - len(rows) + unscored
    if bad > recipe.failures.max_share * items:
        first = (*read.failures, *failures)[0]
        raise TooManyFailures(
            f"{STAGE}: {bad} of {items} items could not be played or scored, more than failures.max_share "
            f"({', '.join(f'{k} {n}' for k, n in sorted(result.failed.items()))})",
            f"the first: {first.record_id}: {first.reason}; the rest is in {result.out}, and --retry-failures asks "
            "the failed calls again",
        )
