"""--set of a training command: our keys and the trainer's, and words for what is wrong."""

from __future__ import annotations

import pytest
from transformers import TrainingArguments

from rm_training.settings import DECIDED, JudgeTraining, trainer_defaults
from ser_toolkit.errors import UsageError
from ser_toolkit.training.models import Lora
from ser_toolkit.training.settings import make_arguments, read_sets

pytestmark = pytest.mark.train


def read(*sets: str):
    return read_sets(sets, JudgeTraining, TrainingArguments, DECIDED)


def test_our_keys_and_the_trainers_are_told_apart_and_typed():
    own, given = read(
        "lora_r=8", "learning_rate=1e-4", "max_steps=3", "false_weight=balanced", "bf16=false", "eval_strategy=no"
    )
    assert (own.lora_r, own.false_weight) == (8, "balanced")
    assert given == {"learning_rate": 1e-4, "max_steps": 3, "bf16": False, "eval_strategy": "no"}


def test_defaults_are_the_papers():
    own, given = read()
    assert (own.lora, own.lora_r, own.lora_alpha) == (True, Lora().r, Lora().alpha) == (True, 16, 64)
    for processes in (1, 2, 8):
        told = trainer_defaults(own, given, processes, on_gpu=False)
        cases = told["per_device_train_batch_size"] * told["gradient_accumulation_steps"] * processes
        assert (told["learning_rate"], 2 * cases) == (2e-4, 32), "PEER: 32 chats a step"


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ("learning_rat=1", "there is no setting 'learning_rat'"),
        ("lora_r=many", "must be a whole number"),
        ("lora_r", "not of the form key=value"),
        ("output_dir=x", "decides output_dir itself"),
        ("label_smoothing_factor=0.1", "decides label_smoothing_factor itself"),
        ("false_weight=[", "not YAML"),
    ],
)
def test_what_is_wrong_is_named(item, said):
    with pytest.raises(UsageError, match=said):
        read(item)


def test_what_the_trainer_refuses_is_a_usage_error(tmp_path):
    for given, said in (({"learning_rate": "fast"}, "a number is wanted"), ({"eval_strategy": "often"}, "often")):
        with pytest.raises(UsageError, match=said):
            make_arguments(TrainingArguments, given, {}, output_dir=str(tmp_path), use_cpu=True)
    _, given = read("learning_rate=3e-5")
    made = make_arguments(TrainingArguments, given, {"learning_rate": 1.0}, output_dir=str(tmp_path), use_cpu=True)
    assert made.learning_rate == 3e-5
