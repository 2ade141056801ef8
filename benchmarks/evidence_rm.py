"""Does a judge learn what it should? Two data sets, `ser train-rm` and `ser eval rm` as everyone runs them.

    python -m benchmarks.evidence_rm [--items 2000] [--seeds 0 1 2] [--epochs 12]      (a) generated, a tiny model
    python -m benchmarks.evidence_rm --data PATH --model embedded                      (b) real steps of ESCoT

(a) In each generated item the seeker states a cause, a feeling and what is wanted (so the stage); a step is False where
it contradicts one of these, and a reply is poor where it does. A Llama of two layers learns on three quarters from
random weights. Each seed draws its own items and weights, so the test items of all seeds are pooled for the intervals.
Judges: unified; unified that saw each pair in one order only; a process and an outcome judge of the same size.
(b) Steps of ESCoT's annotators, made wrong by exchanging the feeling or the strategy with another dialogue's; one seed.

Everything is printed, whatever comes out. docs/evidence.md keeps a run.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rm_training.evaluate import Item, Said, ask_model, read_items
from rm_training.measures import compare, measure
from ser_toolkit.releases.judging import JUDGE_INSTRUCTIONS
from ser_toolkit.releases.labels import TraceLabels, judgement_row
from ser_toolkit.releases.load import load_release
from ser_toolkit.releases.manifest import file_hash, write_manifest
from ser_toolkit.releases.rows import CONFIGS
from ser_toolkit.schema import Dialogue, Source, Step, Trace, Turn
from ser_toolkit.verdicts import Better

CAUSES = ("exam", "job", "divorce", "move", "illness", "debt", "quarrel", "funeral")
FEELINGS = {"Fear": "afraid", "Anger": "angry", "Sadness": "sad", "Shame": "ashamed", "Anxiety": "anxious"}
"""Label -> the seeker's word for it."""
WANTED = {
    "Exploration": ("I cannot sort it out.", ("Progressive Questioning", "Content Restatement"), "Tell me more."),
    "Reassurance": ("I feel so alone.", ("Affirmation and Comfort", "Emotional Mapping"), "You are not alone."),
    "Action": ("What can I do?", ("Provide Suggestions", "Provide Information"), "Try one small step."),
}
"""Stage -> what the seeker says, the strategies that fit, what a fitting reply ends on."""
OPENINGS = ("It has been a bad week.", "Thank you for listening.", "I do not sleep.", "Nobody knows yet.", "Hello.")
ASIDES = ("I am here.", "Take your time.", "Thank you for telling me.", "That is a lot.", "I hear you.")
FALSE_SHARE, GOOD_REFERENCE = 0.23, 0.7
BETTER: dict[tuple[bool, bool], Better] = {
    (True, True): "almost_equal", (True, False): "generated", (False, True): "reference", (False, False): "neither",
}  # fmt: skip
"""Whether the generated reply is good, and the reference -> the verdict."""
Case = tuple[Dialogue, Trace, TraceLabels]


@dataclass(frozen=True)
class View:
    """What somebody takes the matter to be."""

    cause: str
    feeling: str
    stage: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=float, default=None, help="default: 12 for (a), 1 for (b)")
    parser.add_argument("--set", dest="sets", action="append", default=[], help="as of ser train-rm")
    parser.add_argument("--data", type=Path, help="(b): the folder that holds escot/, or an ESCoT file")
    parser.add_argument("--model", default="embedded", help="(b): what is trained")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write all figures there")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(options.threads)
    found = real(options) if options.data else generated(options)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


def generated(options: argparse.Namespace) -> dict[str, Any]:
    """(a): every arm on every seed, then the pooled table."""
    arms = {"unified": ("unified", []), "unified, one order": ("unified", ["position_swap=false"]),
            "prm": ("prm", []), "orm": ("orm", [])}  # fmt: skip
    pooled: dict[str, list[Said]] = {name: [] for name in arms}
    items: list[Item] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in options.seeds:
            home = Path(folder) / str(seed)
            release = write_release(home / "release", list(generate(options.items, seed)))
            model = tiny_model(home / "model", release, seed)
            test = read_items(load_release(release), "test")
            items += test
            for name, (kind, more) in arms.items():
                start = time.perf_counter()
                sets = [
                    "lora=false", "learning_rate=3e-3", f"num_train_epochs={options.epochs or 12}",
                    "per_device_train_batch_size=16", f"seed={seed}", "verify=false", *more, *options.sets,
                ]  # fmt: skip
                said = train_and_ask(release, str(model), home / f"run-{name}", kind, sets, test)
                pooled[name] += said
                tell(f"seed {seed}: {name} trained and asked in {time.perf_counter() - start:.0f} s")
    pooled["prm + orm"] = [merged(p, o) for p, o in zip(pooled["prm"], pooled["orm"], strict=True)]
    return report(f"(a) {len(items)} test items of {len(options.seeds)} seeds", items, pooled, [
        ("unified", "prm + orm"), ("unified", "unified, one order"),
    ])  # fmt: skip


def real(options: argparse.Namespace) -> dict[str, Any]:
    """(b): one seed on ESCoT's steps."""
    file = options.data if options.data.is_file() else next(iter(sorted(options.data.rglob("*.json"))), None)
    if file is None:
        sys.exit(f"{options.data}: no ESCoT file (*.json) is there")
    seed = options.seeds[0]
    with tempfile.TemporaryDirectory() as folder:
        release = write_release(Path(folder) / "release", list(exchanged_steps(file, options.items, seed)))
        test = read_items(load_release(release), "test")
        sets = [
            f"num_train_epochs={options.epochs or 1}", "max_length=1024", "per_device_train_batch_size=1",
            f"seed={seed}", "verify=false", *options.sets,
        ]  # fmt: skip
        said = {"untrained": ask(options.model, test, "unified")}
        tell("the untrained judge is asked")
        said["trained"] = train_and_ask(release, options.model, Path(folder) / "run", "unified", sets, test)
    return report(f"(b) {len(test)} test items of ESCoT", test, said, [("trained", "untrained")])


def train_and_ask(release: Path, model: str, run: Path, kind: Any, sets: list[str], test: list[Item]) -> list[Said]:
    from rm_training.train import train_rm

    train_rm(release, model, run, kind=kind, sets=sets, quiet=True)
    return ask(str(run), test, kind)


def ask(model: str, test: list[Item], kind: Any) -> list[Said]:
    from ser_toolkit.training.models import load

    loaded = load(model)
    return ask_model(test, loaded.model, loaded.tokenizer, kind=kind, batch_size=16)


def merged(process: Said, outcome: Said) -> Said:
    """A process judge's steps and an outcome judge's verdict, as two separate judges give them."""
    return Said(
        id=process.id,
        answers=(*process.answers[:3], outcome.answers[3]),
        chances=(*process.chances[:3], outcome.chances[3]),
        exchanged=outcome.exchanged,
    )


def report(title: str, items: list[Item], said: dict[str, list[Said]], pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Print a table a judge with its baselines, and the paired differences; return all of it."""
    from pipelines.evaluating_rm import shown, span, table

    print(title)
    found: dict[str, Any] = {"title": title, "judges": {}, "differences": {}}
    for name, answers in said.items():
        measured = measure(items, answers)
        scores = [s for s in measured.scores if s.value.n]
        print("\n".join(["", name, *table(scores)]))
        found["judges"][name] = [s.to_json() for s in scores]
    for a, b in pairs:
        print(f"\n{a} - {b}, paired")
        differences = compare(items, said[a], said[b])
        for key, d in differences.items():
            if d.value is not None:
                print(f"  {key:<24}{shown(d.value, True):>7}  {span(d.low, d.high, True):>16}  p {d.p:.4f}")
        found["differences"][f"{a} - {b}"] = {k: [d.value, d.low, d.high, d.p] for k, d in differences.items()}
        for name in (a, b):
            print(f"  {name}: position bias {shown(bias(items, said[name]))} points from one half")
    return found


def bias(items: Sequence[Item], said: Sequence[Said]) -> float | None:
    """How far the share of first replies among decisive verdicts lies from one half, over both orders."""
    score = next(s for s in measure(items, said, resamples=0).scores if s.key == "position.first")
    return None if score.value.value is None else abs(score.value.value - 0.5)


def generate(count: int, seed: int) -> Iterator[Case]:
    """Items by seed: what is so, what the steps take it for, and the labels that follow."""
    draw = random.Random(f"evidence {seed}")
    for n in range(count):
        truth = View(draw.choice(CAUSES), draw.choice(list(FEELINGS)), draw.choice(list(WANTED)))
        wrong = [draw.random() < FALSE_SHARE for _ in range(3)]
        cause, stage = (truth.cause, truth.stage)
        if wrong[0] and draw.random() < 0.5:
            cause = other(draw, CAUSES, cause)
        elif wrong[0]:
            stage = other(draw, tuple(WANTED), stage)
        feeling = other(draw, tuple(FEELINGS), truth.feeling) if wrong[1] else truth.feeling
        acts_on = other(draw, tuple(WANTED), truth.stage) if wrong[2] else truth.stage
        steps = (
            f"The core problem is the {cause} . Stage : {stage} .",
            f"Negative , Moderate : {feeling} .",
            f"{draw.choice(WANTED[acts_on][1])} .",
        )
        told = View(cause, feeling, acts_on if acts_on != truth.stage else stage)
        good = told == truth
        good_reference = draw.random() < GOOD_REFERENCE
        reference = truth if good_reference else spoilt(draw, truth)
        better = BETTER[good, good_reference]
        turns = (
            Turn(speaker="seeker", text=f"{draw.choice(OPENINGS)} It is about the {truth.cause} ."),
            Turn(speaker="supporter", text=draw.choice(ASIDES)),
            Turn(speaker="seeker", text=f"I am {FEELINGS[truth.feeling]} . {WANTED[truth.stage][0]}"),
        )
        labels = (not wrong[0], not wrong[1], not wrong[2])
        yield case(f"g{seed}-{n}", turns, steps, reply(draw, told), reply(draw, reference), labels, better)


def other(draw: random.Random, among: Sequence[str], than: str) -> str:
    return draw.choice([x for x in among if x != than])


def spoilt(draw: random.Random, truth: View) -> View:
    """Wrong in one respect."""
    kind = draw.randrange(3)
    if kind == 0:
        return View(other(draw, CAUSES, truth.cause), truth.feeling, truth.stage)
    if kind == 1:
        return View(truth.cause, other(draw, tuple(FEELINGS), truth.feeling), truth.stage)
    return View(truth.cause, truth.feeling, other(draw, tuple(WANTED), truth.stage))


def reply(draw: random.Random, view: View) -> str:
    """A reply that takes the matter for `view`; how long it is says nothing of how good it is."""
    asides = draw.sample(ASIDES, draw.randrange(3))
    return " ".join([*asides, f"The {view.cause} leaves you {FEELINGS[view.feeling]} .", WANTED[view.stage][2]])


def exchanged_steps(file: Path, count: int, seed: int) -> Iterator[Case]:
    """ESCoT's dialogues with the annotators' reasoning as steps; some get the feeling or strategy of another dialogue.

    The corpus' reply is the reference; the generated one is that reply where all steps stand, else another dialogue's.
    """
    draw = random.Random(f"escot {seed}")
    records = [r for r in json.loads(file.read_text(encoding="utf-8")) if _usable(r)][:count]
    for n, record in enumerate(records):
        data, cot = record["original_data"], record["cot_data"]
        far = [r for r in records if r["cot_data"]["emotion"] != cot["emotion"]]
        acting = [r for r in records if r["cot_data"]["recognized_strategy"] != cot["recognized_strategy"]]
        wrong = (False, bool(far) and draw.random() < 0.4, bool(acting) and draw.random() < 0.4)
        feels = draw.choice(far)["cot_data"]["emotion"] if wrong[1] else cot["emotion"]
        acts = draw.choice(acting)["cot_data"] if wrong[2] else cot
        steps = (
            f"{cot['emotion_stimuli']} {cot['individual_appraisal']}",
            f"The seeker feels {feels}.",
            f"{acts['recognized_strategy']}. {acts['strategy_reason']}",
        )
        turns: list[Turn] = []
        for turn in data["dialog"]:
            speaker = "seeker" if str(turn["speaker"]).lower() in ("seeker", "user", "usr", "speaker") else "supporter"
            turns.append(Turn(speaker=speaker, text=str(turn["content"]).strip()))
        good = not any(wrong)
        strange = draw.choice([r for r in records if r is not record])["original_data"]["response"]
        better: Better = "reference"
        written = strange
        if good and draw.random() < 0.5:  # the corpus' reply against a stranger's: the generated one is better
            better, written, data = "generated", data["response"], {**data, "response": strange}
        labels = (not wrong[0], not wrong[1], not wrong[2])
        yield case(f"e{n}", tuple(turns), steps, written, data["response"], labels, better)


def _usable(record: dict[str, Any]) -> bool:
    cot = record.get("cot_data") or {}
    wanted = ("emotion", "emotion_stimuli", "individual_appraisal", "recognized_strategy", "strategy_reason")
    return all(str(cot.get(k) or "").strip() for k in wanted) and bool(
        (record.get("original_data") or {}).get("dialog")
    )


def case(
    id_: str, turns: tuple[Turn, ...], steps: tuple[str, str, str], written: str, reference: str,
    labels: tuple[bool, bool, bool], better: Better,
) -> Case:  # fmt: skip
    answered = Turn(speaker="supporter", text=reference)
    dialogue = Dialogue(
        id=id_, root_id=id_, lang="en", source=Source(format="evidence", licence="CC0-1.0"), turns=(*turns, answered)
    )
    one, two, three = (Step(number=n, title="", text=t) for n, t in enumerate(steps, 1))  # pyright: ignore[reportArgumentType]
    trace = Trace(
        id=id_, dialogue_id=id_, root_id=id_, lang="en", round=1, target=len(turns), steps=(one, two, three),
        reply=written, reference=reference, model="evidence",
    )  # fmt: skip
    return dialogue, trace, TraceLabels(trace_id=id_, steps=labels, better=better, source="person", votes=2)


def write_release(folder: Path, cases: list[Case]) -> Path:
    """`judgements/` of a release, three quarters to train; written directly, since this set is made of near copies."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {**row, "id": t.id, "dialogue_id": d.id, "root_id": d.id, "lang": d.lang,
         "licence": d.source.licence}
        for d, t, x in cases
        if (row := judgement_row(d, t, x)) is not None
    ]  # fmt: skip
    schema = CONFIGS["judgements"].schema(False)
    cut = len(rows) * 3 // 4
    (folder / "judgements").mkdir(parents=True)
    files: dict[str, Any] = {}
    counts = {"train": cut, "test": len(rows) - cut}
    for split, part in (("train", rows[:cut]), ("test", rows[cut:])):
        path = folder / "judgements" / f"{split}.parquet"
        pq.write_table(pa.Table.from_pylist(part, schema=schema), path)
        files[f"judgements/{split}.parquet"] = {"sha256": file_hash(path), "rows": len(part)}
    write_manifest(
        folder,
        {
            "name": "evidence", "version": "0.1.0", "schema_version": "1", "content_hash": "0" * 64, "files": files,
            "rows": {"judgements": counts}, "absent": {}, "languages": {"en": len(rows)}, "totals": {}, "sources": [],
            "left_out": [], "failures": {}, "verdicts": {}, "lineage": {"recipe": {}},
        },
    )  # fmt: skip
    return folder


CHATML = (
    "{% for m in messages %}<|im_start|> {{ m['role'] }} {{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|> assistant {% endif %}"
)


def tiny_model(folder: Path, release: Path, seed: int) -> Path:
    """A narrow Llama of two layers with random weights, and a tokenizer of this set's own words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    special = ["<|pad|>", "<|im_start|>", "<|im_end|>", "<unk>"]
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    texts = [i.questions for i in read_items(load_release(release), "train")]
    words = trainers.WordLevelTrainer(special_tokens=special)
    tokenizer.train_from_iterator((t for q in texts for t in (*q, *JUDGE_INSTRUCTIONS.values())), words)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<|pad|>", eos_token="<|im_end|>", unk_token="<unk>",
        additional_special_tokens=["<|im_start|>"],
    )  # fmt: skip
    fast.chat_template = CHATML
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(fast), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=1024, pad_token_id=0, eos_token_id=2, bos_token_id=1,
        tie_word_embeddings=False, initializer_range=0.125,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
