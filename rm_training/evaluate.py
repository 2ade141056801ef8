"""A judge asked about the labelled items of a release: in process, or as any chat model over dependent rounds.

What is asked is the text of `judgements/` as the release holds it, each round after the judge's own earlier answers.
Round 4 is asked a second time with the two replies exchanged, for the position bias. What this comes to is counted in
`measures.py`. May import: the ground.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from ser_toolkit.engine import Watcher, run_stage
from ser_toolkit.errors import DataError
from ser_toolkit.llm.chat import ChatModel, Image
from ser_toolkit.media.sniffing import sniff
from ser_toolkit.releases.judging import REPLY_ANSWERS, reply_question
from ser_toolkit.releases.load import Release
from ser_toolkit.rewards.rounds import Answer, Asking, Round, ask_rounds
from ser_toolkit.rewards.unified import ALLOWED
from ser_toolkit.schema import Lang, Record
from ser_toolkit.verdicts import Position

from .rounds import JudgeChat
from .verdicts import judge_plainly

CONFIG = "judgements"


class Item(Record):
    """One row of `judgements/`: what is asked, and what was decided.

    `labels` are the allowed answers of the four rounds, `None` where nobody decided. `exchanged` is round 4 with the
    replies in the other order, and `lengths` theirs as shown, in characters: unknown without the trace in the release.
    """

    id: str
    lang: Lang
    system: str
    questions: tuple[str, ...]
    labels: tuple[str | None, str | None, str | None, str | None]
    generated_position: Position
    exchanged: str = ""
    lengths: tuple[int, int] | None = None
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
    traces = release.frame("traces", None, text_only=True) if release.rows.get("traces") else None
    pairs: dict[str, tuple[str, str | None]] = {}
    if traces is not None:
        wanted = set(rows["id"])
        selected = traces.select("id", "reply", "reference").iter_rows()
        pairs = {id_: (reply, reference) for id_, reply, reference in selected if id_ in wanted}
    return [item_of(row, pairs.get(row["id"])) for row in rows.iter_rows(named=True)]


def item_of(row: Mapping[str, Any], replies: tuple[str, str | None] | None = None) -> Item:
    """The item of a row of `judgements/`; `replies` are the generated and the corpus' own one."""
    said = {role: [m["content"] for m in row["messages"] if m["role"] == role] for role in ("system", "user")}
    if len(said["user"]) != len(ALLOWED):
        raise DataError(f"{row['id']}: {len(said['user'])} questions, not {len(ALLOWED)}", "export the release again")
    exchanged, lengths = "", None
    if replies is not None and replies[1]:
        generated, reference = replies[0], replies[1]
        shown = (generated, reference) if row["generated_position"] == 1 else (reference, generated)
        lengths = (len(shown[0]), len(shown[1]))
        last = reply_question(shown, row["lang"])
        if said["user"][3].endswith(last):  # else another version of the question's text: not ours to turn around
            exchanged = said["user"][3].removesuffix(last) + reply_question((shown[1], shown[0]), row["lang"])
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


def ask_model(items: Sequence[Item], model: Any, processing: Any, *, batch_size: int = 8) -> list[Said]:
    """The answers of a model of transformers in this process, by the likelihood of the allowed answers."""
    chats = [JudgeChat(i.system, i.questions, ALLOWED, i.images) for i in items]
    turned = [JudgeChat(i.system, (*i.questions[:3], i.exchanged), ALLOWED, i.images) for i in items if i.exchanged]
    judged = judge_plainly(model, processing, [*chats, *turned], batch_size=batch_size)
    others = iter(judged[len(chats) :])
    found = []
    for item, one in zip(items, judged, strict=False):
        other = next(others) if item.exchanged else None
        answers = [
            Answer(None, note=one.trouble) if one.trouble else Answer(v, chances)
            for v, chances in zip(one.verdicts or (None,) * 4, one.rounds or (None,) * 4, strict=True)
        ]
        beside = None if other is None else Answer(None if other.trouble else other.verdicts[3], note=other.trouble)
        found.append(_said(item, answers, beside))
    return found


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
