"""Carry a trace over to a rewritten dialogue.

What people label is the source trace; the rewriting keeps meaning, emotion and the number of utterances, so labels
carry over (PEER, arXiv 2508.09521, section 3). Therefore a rewritten trace has the three steps and the generated reply
of its source word for word (they are what was labelled), over the history and the reference of the rewritten dialogue.
The generated reply is not reworded: nobody judged another wording. The trace names its source (`rewritten_from`), and
labels are joined through it on export, so that it makes no difference whether rewriting or annotation came first.
"""

from __future__ import annotations

from ser_toolkit.errors import DataError
from ser_toolkit.schema import Dialogue, Trace

from ..sample import rounds_of


def carry_trace(trace: Trace, rewritten: Dialogue) -> Trace:
    """The trace over the rewritten dialogue; an absent reference stays absent. Raises DataError: not its dialogue."""
    references = {r.target: r.reference for r in rounds_of(rewritten)}
    if trace.dialogue_id != rewritten.rewritten_from or trace.target not in references:
        raise DataError(
            f"{trace.id}: is no trace of the dialogue that {rewritten.id} rewrites",
            "run `ser build` again: it replays without new calls",
        )
    return trace.model_copy(
        update={
            "id": rewritten.id + trace.id.removeprefix(trace.dialogue_id),
            "dialogue_id": rewritten.id,
            "root_id": rewritten.root_id,
            "reference": references[trace.target] if trace.reference else "",
            "rewritten_from": trace.id,
        }
    )
