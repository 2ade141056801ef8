"""`ser train-rm`: a generative judge (UnifiReward, or a baseline of it) from the labels of a release.

The loop is transformers' Trainer; ours are the data, the loss (`trainer.py`) and what is kept of a run
(`ser_toolkit/training/runs.py`). Deviates from the paper: each case is shown in both orders of its replies unless told
otherwise; epochs, schedule and warm-up are ours, since the paper does not tell them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ser_toolkit.errors import CheckpointError, DataError, TooManyFailures
from ser_toolkit.releases.judging import JUDGE_VERSION
from ser_toolkit.releases.load import Release, load_release
from ser_toolkit.training.extra import require_train
from ser_toolkit.visible import visible

from .card import write_model_card
from .data import (
    Judgement,
    Kind,
    Prepared,
    balanced_false_weight,
    chat_of,
    check_template,
    prepare,
    read_judgements,
    template_hash,
)
from .probing import PROBES, TOLERANCE, farthest, probe, probe_saved
from .settings import DECIDED, JudgeTraining, trainer_defaults

if TYPE_CHECKING:
    from ser_toolkit.training.models import Loaded
    from ser_toolkit.training.runs import RunFolder

COMMAND = "train-rm"


@dataclass(frozen=True, slots=True)
class TrainResult:
    """A finished run: where it is, and what run.json says that it came to. Of several processes one `is_main`."""

    run: Path
    record: Mapping[str, Any]
    is_new: bool
    is_main: bool = True

    def to_json(self) -> dict[str, Any]:
        return {"run": str(self.run), "is_new": self.is_new, **self.record["result"]}

    def render(self) -> str:
        result, data = self.record["result"], self.record["data"]
        lines = [
            f"judge {self.run / 'model'}" + ("" if self.is_new else "  (finished before: nothing was done)"),
            f"  learnt from  {data['train']['cases']} cases, {data['train']['sequences']} chats, "
            f"{data['train']['judged_tokens']} judged tokens; {result['steps']} steps",
            f"  loss         {_number(result['loss'])}, on validation {_number(result['eval_loss'])}",
        ]
        if result["verified"] is not None:
            lines.append(f"  verified     loaded anew its probabilities differ by at most {result['verified']:.1e}")
        lines.append(f"  next         ser eval rm RELEASE --model {self.run}")
        return "\n".join(lines)


def train_rm(
    release: str | Path | Release,
    model: str,
    out: Path,
    *,
    kind: Kind = "unified",
    text_only: bool = False,
    resume: bool = False,
    sets: Iterable[str] = (),
    quiet: bool = False,
) -> TrainResult:
    """Train a judge on `judgements/` of a release; `out` becomes a run, its result `out/model`.

    `release`: a folder, or an id on the Hub. `sets`: key=value, of `JudgeTraining` or transformers' TrainingArguments.
    Raises UsageError ([train] missing, a wrong setting), DataError (no labels), CheckpointError (no run to resume, a
    damaged checkpoint, a saved judge that judges otherwise), TooManyFailures.
    """
    require_train("tensorboard")
    import torch
    from accelerate import PartialState
    from transformers import TrainingArguments

    from ser_toolkit.training.runs import open_run
    from ser_toolkit.training.settings import read_sets

    settings, given = read_sets(sets, JudgeTraining, TrainingArguments, DECIDED)
    data = release if isinstance(release, Release) else load_release(release)
    cases = _read(data, text_only, settings)
    state = PartialState(cpu=not torch.cuda.is_available())
    told = {
        "command": COMMAND,
        "kind": kind,
        "text_only": text_only,
        "model": model,
        "release": {k: data.manifest[k] for k in ("name", "version", "content_hash")},
        "settings": settings.model_dump(mode="json"),
        "trainer": given,
        "processes": state.num_processes,
        "judge_version": JUDGE_VERSION,
    }
    with state.main_process_first():
        opened = open_run(out, told, resume=resume, is_main=state.is_main_process)
        run = opened.__enter__()
    try:
        if run.result is None:
            _Training(run, told, cases, settings, given, quiet or not run.is_main).go()
            return TrainResult(out, run.record, True, run.is_main)
        return TrainResult(out, run.record, False, run.is_main)
    finally:
        opened.__exit__(None, None, None)


@dataclass(frozen=True, slots=True)
class _Cases:
    """The labelled cases of a release: those to learn from, and those to look at meanwhile."""

    release: Release
    train: list[Judgement]
    validation: list[Judgement]
    failures: list[Any]


def _read(release: Release, text_only: bool, settings: JudgeTraining) -> _Cases:
    train, failures = read_judgements(release, "train", text_only=text_only, rewrites=settings.rewrites)
    validation: list[Judgement] = []
    if release.rows.get("judgements", {}).get("validation"):
        validation, more = read_judgements(release, "validation", text_only=text_only, rewrites=False)
        failures += more
    return _Cases(release, train, validation, failures)


@dataclass(slots=True)
class _Training:
    """One run, from a model as it is to a judge that was saved and checked."""

    run: RunFolder
    told: Mapping[str, Any]
    cases: _Cases
    settings: JudgeTraining
    given: dict[str, Any]
    quiet: bool

    def go(self) -> None:
        from transformers import set_seed

        arguments, keep = self._arguments()
        set_seed(arguments.seed)
        loaded = self._load()
        train, validation = self._prepare(loaded)
        self._say(
            f"{train.facts['cases']} cases, {train.facts['judged_tokens']} judged tokens of {train.facts['tokens']}"
        )
        trainer = self._trainer(loaded, arguments, train, validation)
        self._follow(trainer, keep)
        self._train(trainer)
        finished = self._finished(trainer)
        if self.run.is_main:
            del trainer
            self._save(loaded, finished)

    def _arguments(self) -> tuple[Any, int | None]:
        """The trainer's arguments, and how many checkpoints to keep."""
        import torch
        from transformers import TrainingArguments

        from ser_toolkit.training.settings import make_arguments

        on_gpu = torch.cuda.is_available()
        given = dict(self.given)
        keep = given.pop("save_total_limit", 2)
        defaults = trainer_defaults(self.settings, given, self.told["processes"], on_gpu)
        if not self.cases.validation:
            defaults["eval_strategy"] = "no"
        arguments = make_arguments(
            TrainingArguments,
            given,
            defaults,
            output_dir=str(self.run.checkpoints),
            report_to=["tensorboard"],
            disable_tqdm=True,
            remove_unused_columns=False,
            label_names=["labels"],
            prediction_loss_only=True,
        )
        return arguments, keep

    def _load(self) -> Loaded:
        from ser_toolkit.training.models import Lora, load

        s = self.settings
        loaded = load(
            self.told["model"],
            text_only=self.told["text_only"],
            lora=Lora(s.lora_r, s.lora_alpha, s.lora_dropout) if s.lora else None,
            freeze_vision=s.freeze_vision,
            chat_template=s.chat_template,
        )
        check_template(loaded.processing)
        return loaded

    def _prepare(self, loaded: Loaded) -> tuple[Prepared, Prepared]:
        from .verdicts import context_of

        settings, kind = self.settings, self.told["kind"]
        balanced = settings.false_weight == "balanced"
        weight = balanced_false_weight(self.cases.train) if balanced else settings.false_weight
        limit = min(settings.max_length, context_of(loaded.model) or settings.max_length)

        def prepared(cases: list[Judgement], false_weight: float) -> Prepared:
            return prepare(
                self._shown(cases, loaded),
                kind,
                loaded.processing,
                max_tokens=limit,
                exchange=settings.position_swap,
                false_weight=false_weight,
            )

        train, validation = prepared(self.cases.train, float(weight)), prepared(self.cases.validation, 1.0)
        self._count_failures([*self.cases.failures, *train.failures, *validation.failures])
        if not train.items:
            raise DataError(
                f"{self.cases.release.path.name} has nothing decided for a judge of kind {kind}",
                "label more, or train another kind",
            )
        self.run.note(
            data={
                "train": train.facts,
                "validation": validation.facts,
                "false_weight": weight,
                "template_hash": template_hash(loaded.processing),
                "licences": sorted({str(s["licence"]) for s in self.cases.release.manifest.get("sources", ())}),
                "machinery_only": bool(self.cases.release.manifest.get("machinery_only")),
            }
        )
        return train, validation

    def _count_failures(self, failures: list[Any]) -> None:
        rows = len(self.cases.train) + len(self.cases.validation) + len(self.cases.failures)
        for failure in failures[:5]:
            self._say(f"{failure.record_id}: {failure.kind}: {failure.reason}")
        self.run.note(failures=[f.model_dump(include={"record_id", "kind", "reason"}) for f in failures])
        if len(failures) > self.settings.max_share * rows:
            raise TooManyFailures(
                f"{len(failures)} of {rows} labelled rows cannot be used, more than max_share "
                f"({self.settings.max_share:g}) allows; the first: {failures[0].record_id}: {failures[0].reason}",
                "run.json lists them; --set max_share=... allows more, --set max_length=... longer chats",
            )

    def _trainer(self, loaded: Loaded, arguments: Any, train: Prepared, validation: Prepared) -> Any:
        from .trainer import ItemSet, collate, make_trainer

        return make_trainer(
            way="auto" if self.settings.share_prefix else "plain",
            model=loaded.model,
            args=arguments,
            train_dataset=ItemSet(train.items, loaded.processing),
            eval_dataset=ItemSet(validation.items, loaded.processing) if validation.items else None,
            data_collator=collate,
            processing_class=loaded.processing,
        )

    def _follow(self, trainer: Any, keep: int | None) -> None:
        from transformers.integrations.integration_utils import TensorBoardCallback

        from ser_toolkit.training.runs import follow

        follow(trainer, self.run, keep=keep, quiet=self.quiet)
        for callback in trainer.callback_handler.callbacks:
            if isinstance(callback, TensorBoardCallback):
                callback.logging_dir = str(self.run.tensorboard)

    def _train(self, trainer: Any) -> None:
        from ser_toolkit.training.runs import newest_checkpoint

        with trainer.args.main_process_first():
            checkpoint = newest_checkpoint(self.run)
        if checkpoint is not None:
            self._say(f"going on from {checkpoint.name}")
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)

    def _finished(self, trainer: Any) -> dict[str, Any]:
        """What the trainer measured; on all processes, since the validation is shared among them."""
        log = trainer.state.log_history
        last = max((x["step"] for x in log if "eval_loss" in x), default=-1)
        if trainer.eval_dataset is not None and last < trainer.state.global_step:
            trainer.evaluate()
        losses = [x["loss"] for x in log if "loss" in x]
        evaluated = [x["eval_loss"] for x in log if "eval_loss" in x]
        return {
            "steps": trainer.state.global_step,
            "epochs": trainer.state.epoch,
            "loss": losses[-1] if losses else None,
            "eval_loss": evaluated[-1] if evaluated else None,
        }

    def _save(self, loaded: Loaded, finished: dict[str, Any]) -> None:
        from ser_toolkit.training.models import merged, save
        from ser_toolkit.training.runs import model_hash

        run, dtype = self.run, _dtype(loaded)
        probes = PROBES if self.settings.verify else 0
        cases = self._shown(self.cases.validation or self.cases.train, loaded)[:probes]
        chats = [chat_of(case, self.told["kind"])[0] for case in cases]
        if chats:
            self._say(f"asking the trained judge about {len(chats)} cases ...")
        wanted = probe(loaded.model, loaded.processing, chats)
        saved: list[Path] = []
        if loaded.has_adapter:
            save(loaded, run.adapter)
            saved.append(run.adapter)
            if self.settings.merge:
                loaded = merged(loaded)
        if not loaded.has_adapter:
            save(loaded, run.model)
            saved.append(run.model)
        loaded.model.to("cpu")  # room for the process that loads it anew
        off = self._verify(saved, chats, wanted, dtype)
        for folder in saved:
            write_model_card(folder, {**run.record, "result": finished}, loaded.identity)
        run.note(
            result={
                **finished,
                "model": saved[-1].name,
                "weights": {folder.name: model_hash(folder) for folder in saved},
                "verified": off,
                "probes": len(chats),
                "dtype": dtype,
            }
        )

    def _shown(self, cases: list[Judgement], loaded: Loaded) -> list[Judgement]:
        """The cases as this model is shown them: a text model sees no pictures."""
        return cases if loaded.is_vision else [replace(case, images=()) for case in cases]

    def _verify(self, saved: list[Path], chats: list[Any], wanted: Any, dtype: str) -> float | None:
        """How far the saved judges are off, each loaded in a fresh process. Raises CheckpointError where too far."""
        if not self.settings.verify:
            return None
        self._say("asking what was saved the same, in a fresh process ...")
        worst = 0.0
        for folder, found in zip(saved, probe_saved(saved, chats, self.told["text_only"], dtype), strict=True):
            off = farthest(wanted, found)
            if off > TOLERANCE[dtype]:
                raise CheckpointError(
                    f"{folder}: loaded anew, it judges otherwise: a probability differs by {off:.3g}",
                    "do not use it; a checkpoint of this run may be whole: --resume tries again",
                )
            worst = max(worst, off)
        return worst

    def _say(self, text: str) -> None:
        if not self.quiet:
            print(visible(text), file=sys.stderr, flush=True)


def _dtype(loaded: Loaded) -> str:
    """The type of most weights: adapters are kept in float32 beside a bfloat16 model."""
    largest = max(loaded.model.parameters(), key=lambda p: p.numel())
    return str(largest.dtype).removeprefix("torch.")


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4f}"
