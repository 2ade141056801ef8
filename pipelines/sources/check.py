"""`ser sources check FORMAT PATH`: all of a source read once, and what was, and what was not, understood."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ser_toolkit.recipe import SourceSpec
from ser_toolkit.schema import Dialogue, Failure, Label, Scenario
from ser_toolkit.taxonomy import LabelMap, load_map
from ser_toolkit.visible import visible

from .base import ReadContext
from .specs import formats_of

FIRST_FAILURES = 10
WORDS_KEPT = 1000
"""Different words of one kind that are counted apart; free text in a label's place must not fill the memory."""
OTHER_WORDS = "(further words)"


class LabelCount(BaseModel):
    """How often a label stands, and the SER word that it is mapped to, None where there is none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    count: int
    ser: str | None


class Unmapped(BaseModel):
    """Words that no map holds, with how often they stand."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategies: dict[str, int]
    emotions: dict[str, int]
    problems: dict[str, int]
    speakers: dict[str, int]


class CheckReport(BaseModel):
    """What a source holds. `records` = `dialogues` + `scenarios` + `failures`: none vanishes.

    `shapes` counts how the turns of the dialogues were laid out; `labels` the known labels by their corpus' spelling;
    `flags` those of dialogues and turns; `failure_kinds` the failures by kind.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str
    path: str
    records: int
    dialogues: int
    scenarios: int
    failures: int
    unmapped: Unmapped
    shapes: dict[str, int]
    labels: dict[str, dict[str, LabelCount]]
    flags: dict[str, int]
    failure_kinds: dict[str, int]
    first_failures: list[Failure]


def check_source(spec: SourceSpec, maps: Path | None = None) -> CheckReport:
    """Reads all of a source, up to its `limit`, in the memory of one record. `maps` is a workspace's folder of them.

    Raises UsageError for an unknown format or a missing path.
    """
    fmt = formats_of([spec])[spec.format]
    tally = _Tally(spec.format, load_map(spec.format, maps))
    for record in islice(fmt.read(Path(spec.path), ReadContext(spec, maps)), spec.limit):
        if isinstance(record, Failure):
            tally.add_failure(record)
        elif isinstance(record, Dialogue):
            tally.add_dialogue(record)
        else:
            tally.add_scenario(record)
    return tally.report(spec.path)


def render_report(report: CheckReport) -> str:
    """The report as plain text, for people."""
    lines = [
        f"{report.format}: {report.path}",
        f"  {report.records} records: {report.dialogues} dialogues, {report.scenarios} scenarios, "
        f"{report.failures} failures",
    ]
    lines += _listing("shapes of the turns", report.shapes.items())
    for kind, counts in report.labels.items():
        if kind == "problems":  # SER has no words for them
            lines += _listing(kind, ((word, entry.count) for word, entry in counts.items()))
            continue
        mapped = sum(entry.ser is not None for entry in counts.values())
        rows = ((f"{word} -> {entry.ser or 'no SER word'}", entry.count) for word, entry in counts.items())
        lines += _listing(f"{kind}: {mapped} of {len(counts)} have a SER word", rows)
    for kind, words in report.unmapped:
        lines += _listing(f"{kind} that no map holds", words.items())
    lines += _listing("flags", report.flags.items())
    lines += _listing("failures by kind", report.failure_kinds.items())
    if report.first_failures:
        lines.append(f"  first failures ({len(report.first_failures)} of {report.failures}):")
    for failure in report.first_failures:
        place = ", ".join(part for part in (failure.file, failure.position) if part)
        name = f" [{failure.record_id}]" if failure.record_id else ""
        lines.append(f"    {visible(f'{place}{name}: {failure.kind}: {failure.reason}', one_line=True)}")
    return "\n".join(lines)


def _listing(title: str, rows: Iterable[tuple[str, int]]) -> list[str]:
    listed = [(visible(word, one_line=True), count) for word, count in sorted(rows, key=lambda row: -row[1])]
    return [f"  {title}:", *(f"  {count:>8}  {word}" for word, count in listed)] if listed else []


@dataclass(slots=True)
class _Tally:
    format: str
    map: LabelMap
    dialogues: int = 0
    scenarios: int = 0
    shapes: Counter[str] = field(default_factory=Counter)
    flags: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    first: list[Failure] = field(default_factory=list)
    known: dict[str, dict[str, tuple[int, str | None]]] = field(default_factory=dict)
    unknown: dict[str, Counter[str]] = field(default_factory=dict)

    def add_dialogue(self, dialogue: Dialogue) -> None:
        self.dialogues += 1
        shape = dialogue.meta.get("shape")
        self.shapes[shape if isinstance(shape, str) else self.format] += 1
        self.flags.update(flag.partition(":")[0] for flag in dialogue.flags)
        self._label("emotions", dialogue.emotion)
        self._problem(dialogue.problem)
        for turn in dialogue.turns:
            self.flags.update(turn.flags)
            for label in turn.strategies:
                self._label("strategies", label)
            for label in turn.emotions:
                self._label("emotions", label)

    def add_scenario(self, scenario: Scenario) -> None:
        self.scenarios += 1
        if isinstance(flags := scenario.meta.get("flags"), list):
            self.flags.update(map(str, flags))
        self._label("emotions", scenario.emotion)
        self._problem(scenario.problem)

    def add_failure(self, failure: Failure) -> None:
        self.kinds[failure.kind] += 1
        if len(self.first) < FIRST_FAILURES:
            self.first.append(failure)
        if failure.kind == "unknown_speaker":
            self._count("speakers", failure.text or failure.reason)

    def report(self, path: str) -> CheckReport:
        failures = self.kinds.total()
        return CheckReport(
            format=self.format,
            path=path,
            records=self.dialogues + self.scenarios + failures,
            dialogues=self.dialogues,
            scenarios=self.scenarios,
            failures=failures,
            unmapped=Unmapped(
                **{kind: dict(self.unknown.get(kind, Counter()).most_common()) for kind in Unmapped.model_fields}
            ),
            shapes=dict(self.shapes.most_common()),
            labels={
                kind: {word: LabelCount(count=count, ser=ser) for word, (count, ser) in sorted(words.items())}
                for kind, words in self.known.items()
            },
            flags=dict(self.flags.most_common()),
            failure_kinds=dict(self.kinds.most_common()),
            first_failures=self.first,
        )

    def _label(self, kind: str, label: Label | None) -> None:
        if label is None:
            return
        if label.corpus is None:
            self._count(kind, label.original)
            return
        words = self.known.setdefault(kind, {})
        words[label.corpus] = (words.get(label.corpus, (0, None))[0] + 1, label.ser)

    def _problem(self, problem: str) -> None:
        """Free text where the corpus has no vocabulary of problems."""
        if self.map.problems:
            self._label("problems", self.map.problem(problem))

    def _count(self, kind: str, word: str) -> None:
        words = self.unknown.setdefault(kind, Counter())
        words[word if word in words or len(words) < WORDS_KEPT else OTHER_WORDS] += 1
