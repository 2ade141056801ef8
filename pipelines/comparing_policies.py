"""`ser eval compare`: two policies on the items that both were put through: paired differences, and people's verdicts.

For people, each item becomes one of `ser annotate`: the opening that both policies met is the history, and the two
candidates are what the talks came to, blinded like any two replies. The steps beside them are those of A's first
answer; one that A did not write is shown as such. The round stands in a folder of its own.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from annotation.consensus import all_consensus
from annotation.items import Item, ShownStep, ShownTurn
from annotation.ledger import Ledger, ledger_path
from annotation.rounds import RoundSettings
from rl_training.evaluate import TalkTurn, Transcript
from rl_training.figures import HEADING, Figure, measures
from rl_training.policy import read_answer
from rl_training.suites import OWN_RUBRIC, Suite, suite_called
from ser_toolkit.errors import DataError, UsageError
from ser_toolkit.history import ROLE_NAMES, one_line
from ser_toolkit.metrics.exact import binomial_two_sided
from ser_toolkit.metrics.intervals import RESAMPLES, mean_interval
from ser_toolkit.protection.crisis import find_crisis, highest
from ser_toolkit.reasoning import TITLES
from ser_toolkit.schema import Lang, content_id
from ser_toolkit.verdicts import is_pair

from .evaluating_policy import REPORT, TRANSCRIPTS

_UNWRITTEN: dict[Lang, str] = {"en": "(This step was not written.)", "zh": "（没有写这一步。）"}
VERDICTS = {"generated": "a_better", "reference": "b_better", "almost_equal": "almost_equal", "neither": "neither"}


@dataclass(frozen=True, slots=True)
class Run:
    """One finished `ser eval policy`: its folder, its report, its transcripts by item."""

    folder: Path
    report: dict[str, Any]
    transcripts: dict[str, Transcript]

    @property
    def model(self) -> str:
        return self.report["card"]["policy"]["model"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A beside B. `differences` are means of A - B over the items that both have a score for; `people` the decided
    verdicts, `p` the exact two-sided p of A's wins among the decisive; `left_out` items without a pair, by reason.
    """

    a: Run
    b: Run
    suite: Suite
    differences: list[Figure]
    notes: tuple[str, ...]
    pairs: int | None = None
    left_out: dict[str, int] | None = None
    people: dict[str, int] | None = None
    p: float | None = None
    out: Path | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "a": {"model": self.a.model, "folder": str(self.a.folder)},
            "b": {"model": self.b.model, "folder": str(self.b.folder)},
            "suite": self.suite.name,
            "differences": [f.to_json() for f in self.differences],
            "notes": list(self.notes),
            "pairs": self.pairs,
            "left_out": self.left_out,
            "people": self.people,
            "p": self.p,
            "out": str(self.out) if self.out else None,
        }

    def render(self) -> str:
        lines = [f"{self.suite.title}: {self.a.model} - {self.b.model}", HEADING]
        lines += [f.render() for f in self.differences]
        lines += [*(f"note: {n}" for n in self.notes), OWN_RUBRIC]
        if self.pairs is not None:
            told = ", ".join(f"{k} {n}" for k, n in sorted((self.left_out or {}).items()))
            lines.append(f"{self.pairs} pairs for people{f' (left out: {told})' if told else ''}")
        if self.people:
            p = "–" if self.p is None else f"{self.p:.3f}"
            lines.append(f"people: {', '.join(f'{k} {n}' for k, n in self.people.items())}; exact p {p}")
        if self.out:
            lines.append(f"next: ser annotate serve -w {self.out} --annotators NAME,NAME; then this command again")
        return "\n".join(lines)


def compare_policies(
    run_a: str | Path, run_b: str | Path, *, out: str | Path | None = None, resamples: int = RESAMPLES, seed: int = 0
) -> Comparison:
    """Two runs of one suite, item by item; with `out`, the round in which people judge the pairs, begun or gone on
    with.

    Raises UsageError for folders that hold no run, or runs of two suites; DataError where no item is in both.
    """
    a, b = _load(Path(run_a)), _load(Path(run_b))
    if a.report["suite"] != b.report["suite"]:
        raise UsageError(f"{a.report['suite']} and {b.report['suite']} are two suites", "compare runs of one")
    suite = suite_called(a.report["suite"])
    both = [i for i in a.transcripts if i in b.transcripts]
    if not both:
        raise DataError("no item was played in both runs", "evaluate both on the same --data")
    missing = len({*a.transcripts, *b.transcripts}) - len(both)
    differences = [
        Figure(name, scale, mean_interval(
            [*(_minus(value(a.transcripts[i]), value(b.transcripts[i])) for i in both), *(None,) * missing],
            resamples=resamples, seed=seed,
        ))
        for name, (scale, value) in measures(suite).items()
    ]  # fmt: skip
    found = Comparison(a, b, suite, differences, tuple(_unlike(a, b)))
    return found if out is None else _ask_people(found, both, Path(out))


def _ask_people(found: Comparison, both: Sequence[str], out: Path) -> Comparison:
    if (out / "tables").exists():
        raise UsageError(f"{out}: a build stands here", "--out names a folder of its own for the comparison")
    items: list[Item] = []
    left_out: Counter[str] = Counter()
    for item in both:
        made = pair_item(found.a.transcripts[item], found.b.transcripts[item])
        if isinstance(made, str):
            left_out[made] += 1
        else:
            items.append(made)
    if not items:
        raise DataError("no pair can be shown to people", f"left out: {dict(left_out)}")
    out.mkdir(parents=True, exist_ok=True)
    with Ledger(ledger_path(out), RoundSettings()) as ledger:
        ledger.add_items(items)
        ours = {i.id for i in items}
        decided = Counter(
            VERDICTS[label]
            for c in all_consensus(ledger.state, ("person",))
            if c.item_id in ours and "reply" in c.parts and (label := c.parts["reply"].label) is not None
        )
    people = {v: decided[v] for v in VERDICTS.values()} if decided else None
    wins, losses = decided["a_better"], decided["b_better"]
    p = binomial_two_sided(wins, wins + losses) if wins + losses else None
    return Comparison(
        found.a, found.b, found.suite, found.differences, found.notes, len(items), dict(left_out), people, p, out
    )


def pair_item(a: Transcript, b: Transcript) -> Item | str:
    """What people judge of one item (A's talk is the "generated" one), or why they cannot."""
    openings, rests = zip(*(_parted(t) for t in (a, b)), strict=True)
    if [t.text for t in openings[0]] != [t.text for t in openings[1]]:
        return "other_opening"
    texts = [_lines(rest, a.lang) for rest in rests]
    if not all(texts):
        return "silent"
    if not is_pair(texts[0], texts[1]):
        return "equal"
    written = read_answer(rests[0][0].written or "").steps
    one, two, three = (
        ShownStep(number=n, title=TITLES[a.lang][n - 1], text=step or _UNWRITTEN[a.lang])  # type: ignore[arg-type]
        for n, step in enumerate(written, 1)
    )
    body = Item(
        id="",
        trace_id=a.id,
        dialogue_id=a.id,
        lang=a.lang,
        history=tuple(_shown(t, a.lang) for t in openings[0]),
        steps=(one, two, three),
        generated=texts[0],
        reference=texts[1],
    )
    return body.model_copy(update={"id": content_id("item", body.model_dump(mode="json"))})


def _parted(transcript: Transcript) -> tuple[list[TalkTurn], list[TalkTurn]]:
    """What the policy first answered to, and all from its first answer on."""
    turns = list(transcript.turns)
    at = next((i for i, t in enumerate(turns) if t.speaker == "supporter"), len(turns))
    return turns[:at], turns[at:]


def _lines(turns: Sequence[TalkTurn], lang: Lang) -> str:
    """A single reply as it is; a talk as lines with names, so that no turn speaks for another."""
    if len(turns) == 1:
        return turns[0].text.strip()
    colon = "：" if lang == "zh" else ": "
    return "\n".join(f"{ROLE_NAMES[lang][t.speaker]}{colon}{one_line(t.text)}" for t in turns)


def _shown(turn: TalkTurn, lang: Lang) -> ShownTurn:
    level = highest(s.level for s in find_crisis(turn.text, lang)) if turn.speaker == "seeker" else None
    return ShownTurn(speaker=turn.speaker, text=turn.text, risk=level)


def _load(folder: Path) -> Run:
    try:
        report = json.loads((folder / REPORT).read_text(encoding="utf-8"))
        lines = (folder / TRANSCRIPTS).read_text(encoding="utf-8").splitlines()
        rows = [Transcript.model_validate_json(line) for line in lines]
        _ = report["suite"], report["card"]["policy"]["model"]
    except OSError as exc:
        raise UsageError(f"{folder}: holds no evaluation", "name a folder that `ser eval policy` wrote") from exc
    except (ValueError, KeyError, TypeError, ValidationError) as exc:
        raise DataError(f"{folder}: the evaluation cannot be read: {exc}", "run `ser eval policy` again") from exc
    return Run(folder, report, {t.id: t for t in rows})


def _unlike(a: Run, b: Run) -> list[str]:
    """What else than the policy differs between two runs, by their run cards."""
    keys = ("data", "seeker", "judges", "rubric", "rounds", "seed")
    one, other = a.report["card"], b.report["card"]
    return [f"{key} differs between the runs" for key in keys if one.get(key) != other.get(key)]


def _minus(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b
