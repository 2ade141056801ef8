"""What a judge's answers are worth: figures with intervals, and beside each what a rule without any judge would reach.

Missing answers are left out of a figure and counted beside it. Items are resampled one by one, although several may
come from one dialogue: intervals are then a little too narrow. May import: the ground.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ser_toolkit.metrics.calibration import Bin, expected_calibration_error, reliability
from ser_toolkit.metrics.classification import (
    RESAMPLES,
    Difference,
    Interval,
    Metric,
    accuracy,
    interval,
    paired_difference,
    recall_of,
    weighted_f1,
)
from ser_toolkit.metrics.exact import binomial_two_sided
from ser_toolkit.releases.judging import REPLY_ANSWERS, STEP_ANSWERS
from ser_toolkit.rewards.unified import ALLOWED, VERDICT_OF
from ser_toolkit.verdicts import Better, as_shown, unblinded

from .evaluate import Item, Said

Answers = Sequence[str | None]
BASELINES = ("majority", "longest", "shortest", "first")
PARTS = ("step 1", "step 2", "step 3", "reply")
_RIGHT = (False, True)


@dataclass(frozen=True, slots=True)
class Score:
    """One figure: value with its interval, how many answers were missing, and each baseline's value on the same items.

    `p` is of an exact test against one half, where that is the question.
    """

    key: str
    title: str
    value: Interval
    missing: int = 0
    baselines: dict[str, float | None] = field(default_factory=dict)
    p: float | None = None

    def to_json(self) -> dict[str, Any]:
        v = self.value
        return {
            "key": self.key, "title": self.title, "value": v.value, "low": v.low, "high": v.high, "n": v.n,
            "missing": self.missing, "baselines": self.baselines, "p": self.p,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measured:
    """All figures of one judge. `bins`: part -> reliability; `confusion`: part -> counts, rows true, columns judged."""

    scores: tuple[Score, ...]
    bins: dict[str, list[Bin]]
    confusion: dict[str, list[list[int]]]


def measure(
    items: Sequence[Item],
    said: Sequence[Said],
    *,
    learnt_from: Sequence[Item] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Measured:
    """Every figure. The majority baseline knows the labels of `learnt_from` (default: the items themselves)."""
    scores: list[Score] = []
    bins: dict[str, list[Bin]] = {}
    confusion: dict[str, list[list[int]]] = {}
    for n, part in enumerate(PARTS):
        true, given = columns(items, said, n)
        rules = baselines(items, n, learnt_from or items)
        confusion[part] = _confusion(true, given, ALLOWED[n])
        for key, title, metric in metrics_of(n):
            value = interval(true, given, ALLOWED[n], metric, resamples=resamples, seed=seed)
            beside = {name: _point(true, rule, ALLOWED[n], metric) for name, rule in rules.items()}
            scores.append(Score(key, title, value, len(true) - value.n, beside))
    scores += [_inconsistency(items, said, resamples, seed), *_position(items, said, resamples, seed)]
    for name, parts in (("steps", (0, 1, 2)), ("reply", (3,))):
        bins[name] = _reliability(items, said, parts)
        scores.append(_calibration(name, bins[name]))
    return Measured(tuple(scores), bins, confusion)


def compare(
    items: Sequence[Item], first: Sequence[Said], second: Sequence[Said], *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Difference]:
    """first - second of each figure that takes an answer an item, over the items that both answered; paired."""
    found: dict[str, Difference] = {}
    for n in range(len(PARTS)):
        true, one = columns(items, first, n)
        _, other = columns(items, second, n)
        for key, _, metric in metrics_of(n):
            found[key] = paired_difference(true, one, other, ALLOWED[n], metric, resamples=resamples, seed=seed)
    one, other = ([is_inconsistent(i, s.answers) for i, s in zip(items, x, strict=True)] for x in (first, second))
    always = [True] * len(items)
    found["inconsistency"] = paired_difference(always, one, other, _RIGHT, accuracy, resamples=resamples, seed=seed)
    return found


def metrics_of(part: int) -> list[tuple[str, str, Metric]]:
    """(key, title, metric) of a part, by its place 0 to 3."""
    if part < 3:
        false = STEP_ANSWERS.index("False")
        return [
            (f"step{part + 1}.weighted_f1", f"Step {part + 1}, weighted F1", weighted_f1),
            (f"step{part + 1}.recall_false", f"Step {part + 1}, recall of False", recall_of(false)),
        ]
    return [("reply.weighted_f1", "Reply, weighted F1", weighted_f1), ("reply.accuracy", "Reply, accuracy", accuracy)]


def columns(items: Sequence[Item], said: Sequence[Said], part: int) -> tuple[list[str], list[str | None]]:
    """(true, answered) of the items whose part was decided; what was answered may be missing."""
    pairs = [(i.labels[part], s.answers[part]) for i, s in zip(items, said, strict=True) if i.labels[part] is not None]
    return [str(t) for t, _ in pairs], [a for _, a in pairs]


def baselines(items: Sequence[Item], part: int, learnt_from: Sequence[Item]) -> dict[str, Answers]:
    """Rule -> its answers to the decided items: the commonest label, and for replies length and place alone."""
    decided = [i for i in items if i.labels[part] is not None]
    if part < 3:
        common = Counter(label for i in learnt_from if (label := i.labels[part]) is not None)
        most = common.most_common(1)[0][0] if common else None
        return {"majority": [most] * len(decided)}
    first, second = REPLY_ANSWERS["first_better"], REPLY_ANSWERS["second_better"]
    return {
        "majority": _majority_reply(decided, learnt_from),
        "longest": [None if i.lengths is None else first if i.lengths[0] >= i.lengths[1] else second for i in decided],
        "shortest": [None if i.lengths is None else first if i.lengths[0] <= i.lengths[1] else second for i in decided],
        "first": [first] * len(decided),
    }


def _majority_reply(decided: Sequence[Item], learnt_from: Sequence[Item]) -> Answers:
    """The commonest verdict on the generated reply, as it reads from where that one stands."""
    common: Counter[Better] = Counter(b for i in learnt_from if (b := better(i, i.labels[3])) is not None)
    if not common:
        return [None] * len(decided)
    most: Better = common.most_common(1)[0][0]
    return [REPLY_ANSWERS[as_shown(most, i.generated_position)] for i in decided]


def better(item: Item, answer: str | None) -> Better | None:
    """What an answer of round 4 says of the generated reply."""
    return unblinded(None if answer is None else VERDICT_OF[answer], item.generated_position)


def is_inconsistent(item: Item, answers: Answers) -> bool | None:
    """Whether process and outcome point opposite ways: all steps sound and the reply not (the reference better, or
    neither acceptable), or a step unsound and the reply the better one. `None` where an answer is missing.

    The paper gives a ratio (1.2 % against 8.9 %) and no definition; this one is ours, and is not to be set beside it.
    """
    verdict = better(item, answers[3])
    if verdict is None or None in answers[:3]:
        return None
    is_sound = all(a == STEP_ANSWERS[0] for a in answers[:3])
    return verdict in ("reference", "neither") if is_sound else verdict == "generated"


def _inconsistency(items: Sequence[Item], said: Sequence[Said], resamples: int, seed: int) -> Score:
    flags = [is_inconsistent(i, s.answers) for i, s in zip(items, said, strict=True)]
    true = [f for i in items if (f := is_inconsistent(i, i.labels)) is not None]
    value = _share(flags, resamples, seed)
    labels = {"labels": sum(true) / len(true) if true else None}
    return Score("inconsistency", "Process-outcome inconsistency", value, len(flags) - value.n, labels)


def _position(items: Sequence[Item], said: Sequence[Said], resamples: int, seed: int) -> list[Score]:
    """How often the first reply wins over both orders (one half without a bias), and how often both orders agree."""
    first, second = REPLY_ANSWERS["first_better"], REPLY_ANSWERS["second_better"]
    both = [(i, s.answers[3], s.exchanged) for i, s in zip(items, said, strict=True) if i.exchanged]
    decisive = [a == first for _, *pair in both for a in pair if a in (first, second)]
    agree: list[bool | None] = []
    for item, answer, exchanged in both:
        there = better(item, answer)
        turned = item.model_copy(update={"generated_position": 3 - item.generated_position})
        back = better(turned, exchanged)
        agree.append(None if there is None or back is None else there == back)
    p = binomial_two_sided(sum(decisive), len(decisive))
    missing = sum(None in pair for _, *pair in both)
    same = _share(agree, resamples, seed)
    return [
        Score("position.first", "First reply wins, both orders", _share(decisive, resamples, seed), missing, p=p),
        Score("position.agreement", "Same verdict in both orders", same, len(agree) - same.n),
    ]


def _share(flags: Sequence[bool | None], resamples: int, seed: int) -> Interval:
    return interval([True] * len(flags), flags, _RIGHT, accuracy, resamples=resamples, seed=seed)


def _reliability(items: Sequence[Item], said: Sequence[Said], parts: Sequence[int]) -> list[Bin]:
    """Of each answered and decided part: the judge's confidence in its answer, and whether that is right."""
    told = [
        (s.chances[n], i.labels[n]) for i, s in zip(items, said, strict=True) for n in parts if i.labels[n] is not None
    ]
    tops = [(max(c, key=c.__getitem__), c, label) for c, label in told if c]
    return reliability([c[top] for top, c, _ in tops], [top == label for top, _, label in tops])


def _calibration(name: str, bins: Sequence[Bin]) -> Score:
    """The expected calibration error; it has no interval, since resampling only raises it."""
    value = expected_calibration_error(bins)
    return Score(
        f"calibration.{name}", f"Calibration error, {name}", Interval(value, None, None, sum(b.n for b in bins))
    )


def _point(true: Answers, given: Answers, classes: Sequence[str], metric: Metric) -> float | None:
    return interval(true, given, classes, metric, resamples=0).value


def _confusion(true: Answers, given: Answers, classes: Sequence[str]) -> list[list[int]]:
    counts = Counter(zip(true, given, strict=True))
    return [[counts[t, g] for g in classes] for t in classes]
