"""A rewritten trace: the source's steps and reply, over the rewritten history and reference."""

import pytest

from pipelines.stages.rewriting.carry import carry_trace
from ser_toolkit.errors import DataError
from ser_toolkit.releases.rows import trace_row
from tests.unit.release.making import dialogue, trace


def pair():
    kin = {"root_id": "a", "rewritten_from": "a"}
    old = dialogue("a", "I lost my job.", "What happened?", "They closed.", "That is hard.")
    new = dialogue("a-rw-1", "My job is gone.", "How come?", "The shop shut.", "So hard.", **kin)
    return old, new


def test_steps_and_reply_carry_over_and_the_rest_is_the_rewrites():
    old, new = pair()
    source = trace(old, 3, id="a-r2")
    made = carry_trace(source, new)
    assert (made.id, made.dialogue_id, made.root_id) == ("a-rw-1-r2", "a-rw-1", "a")
    assert (made.rewritten_from, made.labelled_id, source.labelled_id) == ("a-r2", "a-r2", "a-r2")
    same = {"steps", "reply", "stage", "strategy", "emotions", "target", "history_start", "round", "model", "prompt"}
    assert made.model_dump(include=same) == source.model_dump(include=same)
    row = trace_row(new, made)
    assert row["reference"] == "So hard." and "The shop shut." in row["prompt"][-1]["content"]
    assert row["completion"] == trace_row(old, source)["completion"]


def test_an_absent_reference_stays_absent():
    old, new = pair()
    assert carry_trace(trace(old, 3).model_copy(update={"reference": ""}), new).reference == ""


def test_a_trace_of_another_dialogue_is_refused():
    old, new = pair()
    with pytest.raises(DataError, match="is no trace of the dialogue"):
        carry_trace(trace(new, 3), new)
    with pytest.raises(DataError):
        carry_trace(trace(old, 3).model_copy(update={"target": 2}), new)
