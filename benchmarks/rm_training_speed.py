"""How long a judge's training step takes, beside TRL's SFTTrainer on the same tokens, on one CPU thread in float32.

    python -m benchmarks.rm_training_speed --data ESCOT_FOLDER [--steps 2] [--repeats 1] [--grouped 2 8]

A step: forward and backward over 8 traces in both orders of their replies (16 chats of four rounds), lengths and texts
from ESCoT's dialogues and chains of thought, the second reply another dialogue's; gradient checkpointing off; loss on
the judged answers alone. Beside each other, in one run:

* TRL as it comes: batches of 8 in the order of a shuffled data set, twice accumulated;
* TRL at its best: grouped by length, at the faster of micro-batches of 8 and of 2;
* ours: the trainer of `ser train-rm`, eight cases a batch.

Guard: the same loss to 1e-4, and gradients to 1e-4 of their norm. Limit: FLOPs of the tokens that are there once (three
times the forward ones), over the measured peak of a matrix product. Aims: 2.5x and 1.5x.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from benchmarks.torch_common import best_of, forward_flops, gemm_peak, make_model, make_tokenizer, one_thread
from rm_training.data import Item, Judgement, prepare
from ser_toolkit.releases.judged import Case
from ser_toolkit.training.layout import tree_of

TRACES = 8
AIMS = {"as it comes": 2.5, "at its best": 1.5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder with ESCoT's JSON files")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--grouped", type=int, nargs="+", default=(2, 8), help="micro-batches of TRL at its best")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    one_thread()
    cases = read_cases(options.data)
    random.Random(0).shuffle(cases)
    tokenizer = make_tokenizer([q for c in cases for q in (*c.case.unified(), c.case.opening)])
    items = prepare(cases[: options.steps * TRACES], "unified", tokenizer, max_tokens=8192, exchange=True).items
    steps = [items[n : n + TRACES] for n in range(0, len(items), TRACES)]
    peak = gemm_peak()
    result = measure(steps, tokenizer, peak, options.repeats, options.grouped)
    print(json.dumps(result, indent=1) if options.json else table(result, peak))


def read_cases(folder: Path) -> list[Judgement]:
    """The traces that ESCoT's annotations make: stimulus and appraisal, emotion, strategy and reason; two replies."""
    rows = [row for file in sorted(folder.glob("*.json")) for row in json.loads(file.read_text(encoding="utf-8"))]
    replies = [row["original_data"]["response"] for row in rows]
    out: list[Judgement] = []
    for number, row in enumerate(rows):
        thought, drawn = row["cot_data"], random.Random(number)
        history = tuple(f"{t['speaker'].title()}: {t['content']}" for t in row["original_data"]["dialog"])
        steps = (
            f"{thought['emotion_stimuli']} {thought['individual_appraisal']}",
            thought["emotion"],
            f"{thought['recognized_strategy']}. {thought['strategy_reason']}",
        )
        case = Case(history, steps, (replies[number], replies[number - 1]), "en")
        labels = (drawn.random() < 0.77, drawn.random() < 0.77, drawn.random() < 0.77)
        out.append(Judgement(str(row["id"]), case, labels, drawn.choice(["first_better", "second_better", "neither"])))
    return out


def measure(
    steps: Sequence[list[Item]], tokenizer: Any, peak: float, repeats: int, grouped_sizes: Sequence[int]
) -> dict[str, Any]:
    ours = Ours(make_model(tokenizer))
    trl = {size: TrlStep(make_model(tokenizer), tokenizer, size) for size in {8, *grouped_sizes}}
    seconds: dict[str, float] = {}
    worst = {"loss": 0.0, "gradient": 0.0}
    for number, step in enumerate(steps):
        rows = [example for item in step for example in item]
        random.Random(number).shuffle(rows)
        grouped = sorted(rows, key=lambda e: -len(e.ids))
        runs = {"ours": lambda s=step: ours(s), "trl shuffled 8": lambda r=rows: trl[8](r)}
        runs |= {f"trl grouped {size}": lambda r=grouped, t=trl[size]: t(r) for size in grouped_sizes}
        results: dict[str, tuple[float, torch.Tensor]] = {}
        for name, run in runs.items():
            spent, results[name] = best_of(run, repeats)
            seconds[name] = seconds.get(name, 0.0) + spent
            print(f"step {number}, {name}: {spent:.1f} s", file=sys.stderr)
        loss, gradient = results["trl shuffled 8"]
        for other_loss, other in results.values():
            worst["loss"] = max(worst["loss"], abs(other_loss - loss))
            worst["gradient"] = max(worst["gradient"], float((other - gradient).norm() / gradient.norm()))
    best = min(v for k, v in seconds.items() if "grouped" in k)
    lengths = [sum(len(e.ids) for i in step for e in i) for step in steps]
    return {
        "steps": len(steps),
        "tokens": sum(lengths),
        "unique": sum(len(tree_of([e.ids for e in item]).tokens) for step in steps for item in step),
        "seconds": {**seconds, "limit": sum(map(limit_flops, steps)) / peak},
        "as it comes": seconds["trl shuffled 8"] / seconds["ours"],
        "at its best": best / seconds["ours"],
        **worst,
    }


def limit_flops(step: list[Item]) -> float:
    """Forward and backward over each distinct token of each case once; the head for the judged tokens."""
    total = 0.0
    for item in step:
        tree = tree_of([e.ids for e in item])
        trunk = next((d for d, e in zip(tree.depths, tree.ends, strict=True) if e < len(tree.tokens)), len(tree.tokens))
        spans = [(trunk, 0)] + [(len(path) - trunk, trunk) for path in tree.paths if len(path) > trunk]
        total += 3 * forward_flops(spans, sum(bool(w) for e in item for w in e.weights), 8192)
    return total


class Ours:
    """The trainer of `ser train-rm`."""

    def __init__(self, model: Any) -> None:
        from transformers import TrainingArguments

        from rm_training.trainer import collate, make_trainer

        self._collate = collate
        arguments = TrainingArguments(
            output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=False, report_to=[], disable_tqdm=True
        )
        self._trainer = make_trainer(way="auto", model=model, args=arguments, data_collator=collate)
        self._model = model.train()

    def __call__(self, step: list[Item]) -> tuple[float, torch.Tensor]:
        self._model.zero_grad(set_to_none=True)
        batch = self._collate([(item, {}) for item in step])
        judged = int((batch["labels"] != -100).sum())
        loss = self._trainer.training_step(self._model, batch, num_items_in_batch=torch.tensor(judged))
        return float(loss), gradient_of(self._model)


class TrlStep:
    """TRL's SFTTrainer: 16 chats in micro-batches of `size`, accumulated, in the order in which they are given."""

    def __init__(self, model: Any, tokenizer: Any, size: int) -> None:
        from datasets import Dataset, disable_progress_bars
        from trl import SFTConfig, SFTTrainer

        disable_progress_bars()
        arguments = SFTConfig(
            output_dir=tempfile.mkdtemp(),
            use_cpu=True,
            bf16=False,
            report_to=[],
            disable_tqdm=True,
            gradient_checkpointing=False,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=2 * TRACES // size,
            max_length=None,
        )
        some = Dataset.from_list([{"input_ids": [1, 2, 3], "labels": [-100, 2, 3]}] * 2)
        self._trainer = SFTTrainer(model=model, args=arguments, train_dataset=some, processing_class=tokenizer)
        self._model = model.train()
        self._size = size

    def __call__(self, rows: Sequence[Any]) -> tuple[float, torch.Tensor]:
        self._model.zero_grad(set_to_none=True)
        judged = torch.tensor(sum(label != -100 for e in rows for label in e.labels))
        self._trainer.current_gradient_accumulation_steps = 2 * TRACES // self._size
        loss = 0.0
        for start in range(0, len(rows), self._size):
            chosen = [{"input_ids": list(e.ids), "labels": list(e.labels)} for e in rows[start : start + self._size]]
            batch = self._trainer.data_collator(chosen)
            loss += float(self._trainer.training_step(self._model, batch, num_items_in_batch=judged))
        return loss, gradient_of(self._model)


def gradient_of(model: Any) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).clone()


def table(r: dict[str, Any], peak: float) -> str:
    s = r["seconds"]
    lines = [
        f"one thread, float32; peak of a matrix product {peak / 1e9:.1f} GFLOP/s; {r['steps']} steps of 16 chats, "
        f"{r['tokens'] / r['steps']:.0f} tokens a step, {r['unique'] / r['steps']:.0f} of them once",
        "| | s a step | of the limit | over ours |",
        "|---|---|---|---|",
    ]
    for name in sorted(s, key=lambda n: -s[n]):
        share = "" if name == "limit" else f"{s['limit'] / s[name]:.0%}"
        lines.append(f"| {name} | {s[name] / r['steps']:.2f} | {share} | {s[name] / s['ours']:.2f}x |")
    lines += [f"TRL {k}: {r[k]:.2f}x (aim {aim}x)" for k, aim in AIMS.items()]
    lines.append(f"largest difference: loss {r['loss']:.0e}, gradients {r['gradient']:.0e} of their norm (aim 1e-4)")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
