"""A run's folder: what it was told is kept, two runs never meet, and a half-written checkpoint is no checkpoint."""

from __future__ import annotations

import json
import math

import pytest

from ser_toolkit.errors import CheckpointError, DataError, UsageError
from ser_toolkit.training.runs import (
    METRICS,
    SEAL,
    append_metrics,
    checkpoints_of,
    cut_metrics,
    newest_checkpoint,
    open_run,
    seal,
)

TOLD = {"command": "train-x", "settings": {"lora_r": 16}, "trainer": {"seed": 1}}


def checkpoint(run, step: int, *, sealed: bool = True):
    folder = run.checkpoints / f"checkpoint-{step}"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "weights").write_bytes(b"w" * step)
    (folder / "state").write_text(str(step))
    if sealed:
        seal(folder)
    return folder


def test_what_a_run_was_told_and_came_to_is_kept(tmp_path):
    with open_run(tmp_path / "r", TOLD, resume=False) as run:
        assert run.result is None
        run.note(result={"steps": 3})
    record = json.loads((tmp_path / "r" / "run.json").read_text())
    assert record["told"] == TOLD and record["result"] == {"steps": 3} and record["versions"]["torch"]
    with pytest.raises(UsageError, match="a finished run stands here"), open_run(tmp_path / "r", TOLD, resume=False):
        pass
    with open_run(tmp_path / "r", TOLD, resume=True) as run:
        assert run.result == {"steps": 3}


def test_going_on_wants_the_same_run(tmp_path):
    with pytest.raises(CheckpointError, match="no run to go on with"), open_run(tmp_path / "r", TOLD, resume=True):
        pass
    assert not (tmp_path / "r").exists()
    with open_run(tmp_path / "r", TOLD, resume=False):
        pass
    other = {**TOLD, "settings": {"lora_r": 8}}
    with (
        pytest.raises(CheckpointError, match=r"told otherwise: settings.lora_r was 16, is 8"),
        open_run(tmp_path / "r", other, resume=True),
    ):
        pass
    (tmp_path / "r" / "run.json").write_text("{")
    with pytest.raises(CheckpointError, match="cannot be read"), open_run(tmp_path / "r", TOLD, resume=True):
        pass


def test_two_runs_never_meet_in_one_folder(tmp_path):
    with (
        open_run(tmp_path / "r", TOLD, resume=False),
        pytest.raises(DataError, match="another command"),
        open_run(tmp_path / "r", TOLD, resume=True),
    ):
        pass


def test_a_checkpoint_without_its_seal_is_dropped_and_a_changed_one_refused(tmp_path):
    with open_run(tmp_path / "r", TOLD, resume=False) as run:
        assert newest_checkpoint(run) is None
        for step, sealed in ((5, True), (10, True), (15, False)):
            checkpoint(run, step, sealed=sealed)
        assert [c.name for c in checkpoints_of(run.checkpoints)] == ["checkpoint-5", "checkpoint-10", "checkpoint-15"]
        found = newest_checkpoint(run)
        assert found is not None and found.name == "checkpoint-10"
        assert not (run.checkpoints / "checkpoint-15").exists()
        (found / "deep" / "weights").write_bytes(b"x" * 10)
        with pytest.raises(CheckpointError, match="not as it was saved") as caught:
            newest_checkpoint(run)
        assert "checkpoint before" in caught.value.hint and caught.value.exit_code == 6
        (found / "deep" / "weights").unlink()
        with pytest.raises(CheckpointError):
            newest_checkpoint(run)
        (found / SEAL).write_text("{")
        with pytest.raises(CheckpointError):
            newest_checkpoint(run)


def test_metrics_past_the_checkpoint_are_dropped_and_no_number_is_no_zero(tmp_path):
    with open_run(tmp_path / "r", TOLD, resume=False) as run:
        for step, loss in ((1, 0.5), (2, math.nan), (3, 0.25)):
            append_metrics(run, step, {"loss": loss})
        with (tmp_path / "r" / METRICS).open("a") as file:
            file.write('{"step": 4, "lo')  # a line that a kill cut off
        assert [line["loss"] for line in run.lines()] == [0.5, None, 0.25]
        cut_metrics(run, 2)
        append_metrics(run, 3, {"loss": 0.125})
        assert [(line["step"], line["loss"]) for line in run.lines()] == [(1, 0.5), (2, None), (3, 0.125)]
