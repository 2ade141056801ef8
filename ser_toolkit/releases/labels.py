"""Labels of traces, as a release takes them, and the rows of `steps`, `preferences` and `judgements` made from them.

A label belongs to the source trace; a rewritten one has the same (`Trace.labelled_id`). What nobody decided is `None`:
an undecided step leaves the trace out of `steps`, an undecided round is masked in `judgements`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ser_toolkit.history import render_history
from ser_toolkit.schema import Dialogue, Record, Trace
from ser_toolkit.seeds import derive_seed
from ser_toolkit.verdicts import Better, Position, as_shown, is_pair

from .judging import REPLY_ANSWERS, judge_chat
from .prompting import policy_prompt

Row = dict[str, Any]
_TEXT, _BOOL, _INT = pa.string(), pa.bool_(), pa.int64()
_MESSAGES = pa.list_(pa.struct([("role", _TEXT), ("content", _TEXT)]))
_LABELLED = {"label_source": _TEXT, "votes": _INT, "by_owner": _BOOL, "rewritten_from": _TEXT}

STEP_COLUMNS = {"prompt": _TEXT, "completions": pa.list_(_TEXT), "labels": pa.list_(_BOOL), **_LABELLED}
PREFERENCE_COLUMNS = {
    "prompt": _MESSAGES, "chosen": _MESSAGES, "rejected": _MESSAGES, "chosen_is_generated": _BOOL, **_LABELLED,
}  # fmt: skip
JUDGEMENT_COLUMNS = {
    "messages": _MESSAGES, "loss_rounds": pa.list_(_BOOL), "labels": pa.list_(_BOOL), "verdict": _TEXT,
    "generated_position": _INT, **_LABELLED,
}  # fmt: skip


class TraceLabels(Record):
    """What was decided of one trace. `better` says which reply, `None` where undecided or not asked.

    `source` is whose votes these are: "person", "llm" or "person+llm". `by_owner`: some part was adjudicated.
    """

    trace_id: str
    steps: tuple[bool | None, bool | None, bool | None]
    better: Better | None = None
    source: str = "person"
    votes: int = 0
    by_owner: bool = False


def step_row(dialogue: Dialogue, trace: Trace, labels: TraceLabels) -> Row | None:
    """The three steps, each True or False (TRL's former stepwise supervision); `None` where one is undecided."""
    if None in labels.steps:
        return None
    return {
        "prompt": render_history(dialogue.turns[trace.history_start : trace.target], dialogue.lang),
        "completions": [s.text for s in trace.steps],
        "labels": list(labels.steps),
        **_labelled(trace, labels),
    }


def preference_row(dialogue: Dialogue, trace: Trace, labels: TraceLabels) -> Row | None:
    """A decisive verdict: the better reply and the other one, to the history as a chat; `None` for any other."""
    if labels.better not in ("generated", "reference") or not is_pair(trace.reply, trace.reference):
        return None
    is_generated = labels.better == "generated"
    pair = (trace.reply, trace.reference) if is_generated else (trace.reference, trace.reply)
    chosen, rejected = ([{"role": "assistant", "content": text}] for text in pair)
    return {
        "prompt": policy_prompt(dialogue, trace.target, trace.history_start).messages[1:],
        "chosen": chosen,
        "rejected": rejected,
        "chosen_is_generated": is_generated,
        **_labelled(trace, labels),
    }


def judgement_row(dialogue: Dialogue, trace: Trace, labels: TraceLabels) -> Row | None:
    """The four-round chat of the unified judge. `loss_rounds` is False, and the answer empty, for a round that nobody
    decided; `None` where there is no pair of replies, or no round was decided.
    """
    if not is_pair(trace.reply, trace.reference) or (set(labels.steps) == {None} and labels.better is None):
        return None
    position = drawn_position(trace.id)
    pair = (trace.reply, trace.reference) if position == 1 else (trace.reference, trace.reply)
    verdict = as_shown(labels.better, position) if labels.better else None
    answers = [*("" if s is None else str(s) for s in labels.steps), REPLY_ANSWERS[verdict] if verdict else ""]
    return {
        "messages": judge_chat(
            dialogue.turns[trace.history_start : trace.target],
            [s.text for s in trace.steps],
            pair,
            dialogue.lang,
            answers,
        ),
        "loss_rounds": [bool(a) for a in answers],
        "labels": list(labels.steps),
        "verdict": verdict,
        "generated_position": position,
        **_labelled(trace, labels),
    }


def drawn_position(trace_id: str) -> Position:
    """Where the generated reply stands in `judgements`: by a hash of the trace's id, half and half."""
    return 1 if derive_seed("generated_position", trace_id) % 2 == 0 else 2


def _labelled(trace: Trace, labels: TraceLabels) -> Row:
    return {
        "label_source": labels.source,
        "votes": labels.votes,
        "by_owner": labels.by_owner,
        "rewritten_from": trace.rewritten_from,
    }
