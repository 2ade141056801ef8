"""A judge asked about the labelled items of a release: in process, or as any chat model over dependent rounds.

What is asked is the text of `judgements/` as the release holds it, each round after the judge's own earlier answers.
Round 4 is asked a second time with the two replies exchanged, for the position bias. What this comes to is counted in
`measures.py`. May import: the ground.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ser_toolkit.engine import Watcher, run_stage
from ser_toolkit.errors import DataError, RecordError
from ser_toolkit.llm.chat import ChatModel, Image
from ser_toolkit.media.sniffing import sniff
from ser_toolkit.releases.judged import PROCESS_ANSWERS, take_apart
from ser_toolkit.releases.judging import REPLY_ANSWERS, STEP_ANSWERS
from ser_toolkit.releases.load import Release
from ser_toolkit.rewards.rounds import Answer, Asking, Round, ask_rounds
from ser_toolkit.rewards.unified import ALLOWED
from ser_toolkit.schema import Lang, Record
from ser_toolkit.training.extra import require_train
from ser_toolkit.verdicts import Position

from .rounds import JudgeChat
from .speculation import judge_together
from .verdicts import Judged

CONFIG = "judgements"
Kind = Literal["unified", "prm", "orm"]


class Item(Record):
    """One row of `judgements/`: what is asked, and what was decided.

    `labels` are the allowed answers of the four rounds, `None` where nobody decided. `exchanged` is round 4 with the
    replies in the other order, and `lengths` theirs as shown, in characters; `process` and `outcome` are the questions
    of the two separate judges. These are unknown where the questions are worded otherwise than this version words them.
    """

    id: str
    lang: Lang
    system: str
    questions: tuple[str, ...]
    labels: tuple[str | None, str | None, str | None, str | None]
    generated_position: Position
    exchanged: str = ""
    lengths: tuple[int, int] | None = None
    process: str = ""
    outcome: str = ""
    images: tuple[bytes, ...] = Field(default=(), repr=False)


class Said(Record):
    """What a judge answered to an item, by round; `None` is missing, and `notes` say why.

    `chances`: answer -> probability, where the judge gives them. `exchanged` is the answer to `Item.exchanged`.
    """

    id: str
    answers: tuple[str | None, ...]
    chances: tuple[dict[str, float] | None, ...]
    exchanged: str | None = None
    notes: tuple[str, ...] = ()


def read_items(release: Release, split: str = "test", limit: int | None = None) -> list[Item]:
    """The labelled items of a split, or of all ("all"). Raises DataError where there are none."""
    held = release.rows.get(CONFIG, {})
    if not any(held.values()):
        reason = release.manifest.get("absent", {}).get(CONFIG, "it has no judgements")
        raise DataError(
            f"{release.path.name} has no labels: {reason}",
            "label it (`ser annotate serve`, or `ser annotate judge`) and export again; a release uses the labels of "
            "annotate.sources",
        )
    if split != "all" and not held.get(split):
        had = ", ".join(f"{s} ({n})" for s, n in held.items() if n)
        raise DataError(f"{release.path.name} has no labelled item in {split}", f"it has: {had}; or take --split all")
    rows = release.frame(CONFIG, None if split == "all" else split).head(limit or 1 << 62)
    return [item_of(row) for row in rows.iter_rows(named=True)]


def item_of(row: Mapping[str, Any]) -> Item:
    """The item of a row of `judgements/`. Raises DataError for one that has not four questions."""
    said = {role: [m["content"] for m in row["messages"] if m["role"] == role] for role in ("system", "user")}
    if len(said["user"]) != len(ALLOWED):
        raise DataError(f"{row['id']}: {len(said['user'])} questions, not {len(ALLOWED)}", "export the release again")
    exchanged, lengths, process, outcome = "", None, "", ""
    try:
        parts = take_apart(said["user"], row["lang"])
    except RecordError:
        pass  # worded by another version: it can be asked, but neither turned around nor shortened to one turn
    else:
        exchanged, lengths = parts.exchanged().unified()[3], (len(parts.replies[0]), len(parts.replies[1]))
        process, outcome = parts.process(), parts.outcome()
    one, two, three = (None if label is None else str(bool(label)) for label in row["labels"])
    return Item(
        id=row["id"],
        lang=row["lang"],
        system="\n\n".join(said["system"]),
        questions=tuple(said["user"]),
        labels=(one, two, three, REPLY_ANSWERS[row["verdict"]] if row["verdict"] else None),
        generated_position=row["generated_position"],
        exchanged=exchanged,
        lengths=lengths,
        process=process,
        outcome=outcome,
        images=tuple(i["bytes"] for i in row.get("images") or ()),
    )


async def ask_chat_model(
    items: Sequence[Item],
    chat: ChatModel,
    *,
    concurrency: int,
    seed: int = 0,
    max_tokens: int,
    watcher: Watcher | None = None,
) -> list[Said]:
    """The answers of any chat model, four dependent rounds an item; log-probabilities where the server gives them."""
    found: list[Record] = []

    async def ask(item: Item) -> list[Said]:
        rounds = [Round(q, a) for q, a in zip(item.questions, ALLOWED, strict=True)]
        rounds[3] = Round(rounds[3].question, rounds[3].allowed, item.exchanged)
        images = tuple(map(_image, item.images)) if chat.vision else ()
        asking = Asking(item.id, seed, max_tokens, logprobs=True)
        answers = await ask_rounds(chat, item.system, rounds, asking, images)
        return [_said(item, [a for a, _ in answers], answers[3][1])]

    await run_stage("judge", items, ask, lambda _, rows: found.extend(rows), concurrency=concurrency, watcher=watcher)
    return [s for s in found if isinstance(s, Said)]


def ask_model(
    items: Sequence[Item], model: Any, processing: Any, *, kind: Kind = "unified", batch_size: int = 8
) -> list[Said]:
    """The answers of a model of transformers in this process, by the likelihood of the allowed answers.

    `kind`: "prm" answers for the three steps in one turn, and says nothing of the reply; "orm" the other way round.
    """
    there = [_chat(i, kind) for i in items]
    turned = [_chat(i, kind, exchanged=True) for i in items]
    asked = [c for c in (*there, *turned) if c is not None]
    judged = dict(zip(map(id, asked), judge_together(model, processing, asked, batch_size=batch_size), strict=True))
    found = []
    for item, one, other in zip(items, there, turned, strict=True):
        answers = _answers(judged[id(one)], kind) if one else [Answer(None, note="worded by another version")] * 4
        found.append(_said(item, answers, _answers(judged[id(other)], kind)[3] if other else None))
    return found


def ask_run(spec: str, items: Sequence[Item], *, batch_size: int = 8) -> tuple[list[Said], str]:
    """The answers of a run of `ser train-rm`, or of a model's folder or Hub id, and the model's identity."""
    require_train()
    from ser_toolkit.training.models import load

    told = told_of(spec)
    loaded = load(spec, device="auto", text_only=bool(told.get("text_only")))
    processing = loaded.processing if loaded.is_vision else loaded.tokenizer
    kind: Any = told.get("kind", "unified")
    return ask_model(items, loaded.model, processing, kind=kind, batch_size=batch_size), loaded.identity


def told_of(spec: str) -> dict[str, Any]:
    """What run.json says that a run was told (its `kind`), also for the model in it; {} for any other model."""
    for folder in (Path(spec), Path(spec).parent):
        file = folder / "run.json"
        if Path(spec).is_dir() and file.is_file():
            try:
                return dict(json.loads(file.read_text(encoding="utf-8")).get("told") or {})
            except (OSError, ValueError) as exc:
                raise DataError(f"{file}: cannot be read: {exc}", "name the run's model/ copied elsewhere") from exc
    return {}


def _chat(item: Item, kind: Kind, *, exchanged: bool = False) -> JudgeChat | None:
    """What a judge of that kind is asked, `None` where that cannot be asked."""
    if exchanged and (kind == "prm" or not item.exchanged):
        return None
    if kind == "unified":
        last = item.exchanged if exchanged else item.questions[3]
        return JudgeChat(item.system, (*item.questions[:3], last), ALLOWED, item.images)
    if kind == "prm":
        return JudgeChat(item.system, (item.process,), (PROCESS_ANSWERS,), item.images) if item.process else None
    question = item.outcome.removesuffix(item.questions[3]) + item.exchanged if exchanged else item.outcome
    return JudgeChat(item.system, (question,), (ALLOWED[3],), item.images) if question else None


def _answers(judged: Judged, kind: Kind) -> list[Answer]:
    """The answers of the four rounds; what this kind of judge is not asked is missing."""
    if judged.trouble:
        return [Answer(None, note=judged.trouble)] * 4
    rounds = [Answer(v, chances) for v, chances in zip(judged.verdicts, judged.rounds, strict=True)]
    if kind == "unified":
        return rounds
    if kind == "orm":
        return [Answer(None)] * 3 + rounds
    words = str(rounds[0].answer).split(", ")
    return [Answer(words[n], _of_step(judged.rounds[0], n)) for n in range(3)] + [Answer(None)]


def _of_step(chances: Mapping[str, float], n: int) -> dict[str, float]:
    """True and False of one step, from the chances of all three together."""
    return {a: sum(c for words, c in chances.items() if words.split(", ")[n] == a) for a in STEP_ANSWERS}


def _image(data: bytes) -> Image:
    kind = sniff(data)
    return Image(data, kind.media_type if kind else "image/jpeg")


def _said(item: Item, answers: Sequence[Answer], exchanged: Answer | None) -> Said:
    notes = [f"round {n}: {a.note}" for n, a in enumerate(answers, 1) if a.note]
    if exchanged is not None and exchanged.note:
        notes.append(f"round 4, exchanged: {exchanged.note}")
    return Said(
        id=item.id,
        answers=tuple(a.answer for a in answers),
        chances=tuple(None if a.chances is None else dict(a.chances) for a in answers),
        exchanged=exchanged.answer if exchanged else None,
        notes=tuple(notes),
    )
