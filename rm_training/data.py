"""`judgements/` of a release as training examples: chats in tokens, with a loss on what the judge has to say alone.

Three kinds of judge learn from the same rows: `unified` (four rounds), `prm` (one turn, the three steps), `orm` (one
turn, the two replies). The tokens are those that scoring uses (`rounds.ChatEncoder`), so training and scoring cannot
drift apart. A case shown in both orders of its replies is one item of two sequences. May import: the ground.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ser_toolkit.errors import DataError, RecordError, UsageError
from ser_toolkit.releases.judged import EXCHANGED, PROCESS_ANSWERS, Case, take_apart
from ser_toolkit.releases.judging import JUDGE_INSTRUCTIONS, REPLY_ANSWERS
from ser_toolkit.releases.load import Release
from ser_toolkit.schema import Failure
from ser_toolkit.verdicts import Shown

from .rounds import UNIFIED_ROUNDS, ChatEncoder, JudgeChat

CONFIG = "judgements"
STAGE = "train-rm"
Kind = Literal["unified", "prm", "orm"]
ALLOWED: Mapping[Kind, tuple[tuple[str, ...], ...]] = {
    "unified": UNIFIED_ROUNDS,
    "prm": (PROCESS_ANSWERS,),
    "orm": (tuple(REPLY_ANSWERS.values()),),
}
"""By kind of judge: the allowed answers of its rounds."""
IGNORED = -100
"""The label of a token that bears no loss."""
Steps = tuple[bool | None, bool | None, bool | None]


@dataclass(frozen=True, slots=True)
class Judgement:
    """A labelled case. What nobody decided is `None`. `images` are files' bytes, before the first question."""

    id: str
    case: Case
    steps: Steps
    verdict: Shown | None
    images: tuple[bytes, ...] = ()
    rewritten_from: str | None = None

    def exchanged(self) -> Judgement:
        """The same with the two replies in the other order: the verdict goes with them."""
        verdict = EXCHANGED[self.verdict] if self.verdict else None
        return replace(self, case=self.case.exchanged(), verdict=verdict)


@dataclass(frozen=True, slots=True)
class Example:
    """One chat in tokens. By token: `labels` (its own id where it bears a loss, else IGNORED) and `weights`."""

    ids: tuple[int, ...]
    labels: tuple[int, ...]
    weights: tuple[float, ...]
    chat: JudgeChat


Item = tuple[Example, ...]
"""A case as it is learnt from: its chat, or its two chats with the replies in either order."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The items of a split, what could not be used, and what was seen: counts for the run's record."""

    items: list[Item]
    failures: list[Failure]
    facts: dict[str, Any]


def read_judgements(
    release: Release, split: str, *, text_only: bool = False, rewrites: bool = True
) -> tuple[list[Judgement], list[Failure]]:
    """The labelled cases of a split, in the release's order, and the rows that are malformed.

    Raises DataError for a release without labels (in that split).
    """
    held = release.rows.get(CONFIG, {})
    if not held.get(split):
        reason = release.manifest.get("absent", {}).get(CONFIG, "it has no judgements")
        others = ", ".join(f"{s} ({n})" for s, n in held.items() if n)
        raise DataError(
            f"{release.path.name} has no labels{f' in {split}, only in {others}' if others else f': {reason}'}",
            "add dialogues, or widen the split (`split.ratios`)"
            if others
            else "label it (`ser annotate serve`, or `ser annotate judge`), then `ser export`; labels of an LLM are "
            "used with --set 'annotate.sources=[llm]'",
        )
    found: list[Judgement] = []
    failures: list[Failure] = []
    for row in release.frame(CONFIG, split, text_only=text_only).iter_rows(named=True):
        if row["rewritten_from"] and not rewrites:
            continue
        try:
            found.append(judgement_of(row))
        except RecordError as exc:
            failures.append(Failure(kind=exc.kind, stage=STAGE, reason=exc.reason, record_id=row["id"], text=exc.text))
    return found, failures


def judgement_of(row: Mapping[str, Any]) -> Judgement:
    """A row of `judgements/`; what `loss_rounds` masks counts as undecided. Raises RecordError (malformed)."""
    case = take_apart([m["content"] for m in row["messages"] if m["role"] == "user"], row["lang"])
    decided = list(row["loss_rounds"])
    if len(decided) != 4 or len(row["labels"]) != 3 or row["verdict"] not in (None, *REPLY_ANSWERS):
        raise RecordError("malformed", "not four rounds, three labels and a verdict")
    one, two, three = (label if is_told else None for label, is_told in zip(row["labels"], decided[:3], strict=True))
    return Judgement(
        row["id"],
        case,
        (one, two, three),
        row["verdict"] if decided[3] else None,
        tuple(image["bytes"] for image in row.get("images") or ()),
        row["rewritten_from"],
    )


def chat_of(judgement: Judgement, kind: Kind) -> tuple[JudgeChat, tuple[str | None, ...]]:
    """The chat that a judge of this kind is asked, and the right answer of each round, `None` where undecided."""
    case, steps = judgement.case, judgement.steps
    reply = REPLY_ANSWERS[judgement.verdict] if judgement.verdict else None
    questions, answers = {
        "unified": lambda: (case.unified(), (*(None if s is None else str(s) for s in steps), reply)),
        "prm": lambda: ((case.process(),), (None if None in steps else ", ".join(map(str, steps)),)),
        "orm": lambda: ((case.outcome(),), (reply,)),
    }[kind]()
    return JudgeChat(JUDGE_INSTRUCTIONS[case.lang], questions, ALLOWED[kind], judgement.images), answers


def prepare(
    judgements: Sequence[Judgement],
    kind: Kind,
    processing: Any,
    *,
    max_tokens: int,
    exchange: bool = False,
    false_weight: float = 1.0,
) -> Prepared:
    """The items to learn from. Every picture is opened and its tokens are counted here, before any training.

    `exchange`: each case in both orders of its replies. `false_weight`: how much the answer False counts in the loss;
    the weights are scaled so that their mean over the judged tokens is 1. A case of which this kind has nothing decided
    is left out and counted; one that stays too long without its history, or has a damaged picture, is a failure.
    """
    encoder = ChatEncoder(processing)
    items: list[Item] = []
    failures: list[Failure] = []
    facts: Counter[str] = Counter(undecided=0, turns_cut=0, cases_cut=0, pictures=0)
    lengths: list[int] = []
    for judgement in judgements:
        if not any(chat_of(judgement, kind)[1]):
            facts["undecided"] += 1
            continue
        try:
            cut, item = _item(judgement, kind, encoder, max_tokens, exchange and kind != "prm", false_weight)
        except RecordError as exc:
            failures.append(Failure(kind=exc.kind, stage=STAGE, reason=exc.reason, record_id=judgement.id))
            continue
        items.append(item)
        lengths += [len(example.ids) for example in item]
        facts.update(turns_cut=cut, cases_cut=bool(cut), pictures=len(item[0].chat.images))
    items = list(_scaled(items))
    facts.update(
        cases=len(items),
        sequences=len(lengths),
        tokens=sum(lengths),
        judged_tokens=sum(label != IGNORED for item in items for e in item for label in e.labels),
    )
    return Prepared(items, failures, {**facts, "longest": max(lengths, default=0)})


def balanced_false_weight(judgements: Iterable[Judgement]) -> float:
    """True steps over False ones: the weight by which both classes count alike. 1 where one of them is absent."""
    counted = Counter(label for j in judgements for label in j.steps if label is not None)
    return counted[True] / counted[False] if counted[True] and counted[False] else 1.0


def template_hash(processing: Any) -> str:
    """SHA-256 of what the chat template writes around a chat's parts: the same for training, scoring and serving."""
    return hashlib.sha256("\0".join(_frame(processing)).encode()).hexdigest()


def check_template(processing: Any) -> None:
    """Raises UsageError where the template adds words of its own to a judge's chat: a default system text, a date,
    thinking tags. They would be learnt, and be missing or others wherever the judge is served.
    """
    special = "|".join(map(re.escape, sorted(ChatEncoder(processing).tokenizer.get_added_vocab(), key=len)[::-1]))
    for gap in _frame(processing):
        thoughts = re.search(r"</?\s*\w*think\w*\s*/?>", gap, re.IGNORECASE)
        words = re.sub(special, " ", gap) if special else gap
        own = [w for w in re.findall(r"[^\W_]+", words) if w.lower() not in _ROLES]
        if thoughts or own:
            raise UsageError(
                f"this model's chat template adds {(thoughts[0] if thoughts else ' '.join(own))[:80]!r} to a chat",
                "give a template that writes roles and texts alone: --set chat_template=FILE.jinja",
            )


_ROLES = {"system", "user", "assistant", "model", "human", "bot", "gpt", "developer", "ai", "s", "inst", "sys"}


def _frame(processing: Any) -> list[str]:
    """What the template writes before, between and after the parts of a chat of two rounds."""
    parts = [f"SERpart{n}mark" for n in range(3)]
    system, *asked = parts
    text = ChatEncoder(processing).render(JudgeChat(system, tuple(asked), (("x",), ("x",))))
    return re.split(r"SERpart\dmark|SERanswer\dmark7f3a", text)


def _item(
    judgement: Judgement, kind: Kind, encoder: ChatEncoder, max_tokens: int, exchange: bool, false_weight: float
) -> tuple[int, Item]:
    """How many turns were cut off the history's front, and the item. Raises RecordError where it does not fit."""
    cut = 0
    while True:
        short = replace(judgement, case=judgement.case.without(cut))
        item = tuple(
            _example(way, kind, encoder, false_weight) for way in ([short, short.exchanged()] if exchange else [short])
        )
        over = max(len(example.ids) for example in item) - max_tokens
        if over <= 0:
            return cut, item
        if len(short.case.history) < 2:
            raise RecordError("malformed", f"it takes {over} tokens more than {max_tokens}, its history left out")
        cut += _turns_of(short.case.history, over, encoder.tokenizer)


def _turns_of(history: Sequence[str], tokens: int, tokenizer: Any) -> int:
    """How many turns from the front hold that many tokens, but for the last turn: at least one."""
    held = 0
    for number, line in enumerate(history[:-1], 1):
        held += len(tokenizer(line + "\n", add_special_tokens=False)["input_ids"])
        if held >= tokens:
            return number
    return len(history) - 1


def _example(judgement: Judgement, kind: Kind, encoder: ChatEncoder, false_weight: float) -> Example:
    """The chat with its right answers in tokens; an undecided round has an empty answer and bears no loss."""
    chat, answers = chat_of(judgement, kind)
    allowed = tuple(a if told is not None else ("",) for a, told in zip(chat.allowed, answers, strict=True))
    encoded = encoder.encode(replace(chat, allowed=allowed))
    ids: list[int] = []
    labels: list[int] = []
    weights: list[float] = []
    for number, told in enumerate(answers):
        asked = encoded.asked[number]
        said = encoded.answers[number][allowed[number].index(told)] if told is not None else ()
        weight = _weight(told, false_weight) if told is not None else 0.0
        ids += [*asked, *said]
        labels += [IGNORED] * len(asked) + list(said)
        weights += [0.0] * len(asked) + [weight] * len(said)
    return Example(tuple(ids), tuple(labels), tuple(weights), chat)


def _weight(answer: str, false_weight: float) -> float:
    """How much an answer counts: the mean over its verdicts on steps."""
    said = answer.split(", ")
    return sum(false_weight if word == "False" else 1.0 for word in said) / len(said)


def _scaled(items: Sequence[Item]) -> Iterator[Item]:
    """The items with their weights scaled to a mean of 1 over the judged tokens."""
    weights = [w for item in items for e in item for w in e.weights if w]
    mean = sum(weights) / len(weights) if weights else 1.0
    for item in items:
        yield tuple(replace(e, weights=tuple(w / mean for w in e.weights)) for e in item)
