"""Dialogues and traces to release: six that must not be split (FIELD_CASES C4), and a crowd of unlike ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ser_toolkit.releases.write import ReleaseInput, ReleaseResult, write_release
from ser_toolkit.schema import Cue, Dialogue, Lang, Role, Source, Step, Trace, Turn

REPLIES = ("That sounds heavy. What weighs most?", "I am glad that you tell me. Since when?", "Who knows about it?")


def dialogue(
    id: str,
    *said: str,
    licence: str = "CC-BY-4.0",
    first: Role = "seeker",
    lang: Lang = "en",
    root_id: str | None = None,
    rewritten_from: str | None = None,
    cues: Sequence[Cue] = (),
    origin: str = "corpus",
) -> Dialogue:
    """Turns in alternation from `first`; the cues belong to the seeker's turns."""
    roles: tuple[Role, Role] = ("seeker", "supporter") if first == "seeker" else ("supporter", "seeker")
    turns = [
        Turn(speaker=roles[n % 2], text=text, origin=origin, cues=tuple(cues) if roles[n % 2] == "seeker" else ())
        for n, text in enumerate(said)
    ]
    return Dialogue(
        id=id,
        root_id=root_id or id,
        rewritten_from=rewritten_from,
        lang=lang,
        source=Source(format="esconv", file="some.json", position=f"record {id}", licence=licence),
        turns=tuple(turns),
        situation="A hard week.",
        problem="work",
    )


def trace(of: Dialogue, target: int | None = None, start: int = 0, id: str | None = None) -> Trace:
    """A trace for the dialogue's last supporter turn, or for `target`."""
    if target is None:
        target = max(n for n, t in enumerate(of.turns) if t.speaker == "supporter")
    return Trace(
        id=id or f"{of.id}-t{target}",
        dialogue_id=of.id,
        root_id=of.root_id,
        lang=of.lang,
        round=1,
        target=target,
        history_start=start,
        steps=(
            Step(number=1, title="", text="The core problem is pressure at work. Stage: Exploration."),
            Step(number=2, title="", text="Negative, moderate: anxiety."),
            Step(number=3, title="", text="Progressive Questioning, to learn more."),
        ),
        reply="What part of it weighs most on you?",
        reference=of.turns[target].text,
        stage="Exploration",
        strategy="Progressive Questioning",
        emotions=("Anxiety",),
        model="some-model",
        prompt="reason-whole/en@1",
    )


WORDS = (
    "deadline", "landlord", "sister", "exam", "surgery", "visa", "divorce", "mortgage",
    "insomnia", "commute", "teacher", "loneliness", "rent", "promotion", "argument", "grandmother",
    "stutter", "migraine", "roommate", "layoff", "anniversary", "funeral", "betrayal", "pregnancy",
    "gambling", "eviction",
)  # fmt: skip


def crowd(count: int) -> list[Dialogue]:
    """Unlike dialogues: each opening is a different draw of words, none a near duplicate of another."""
    made = []
    for n in range(count):
        digest = hashlib.sha256(str(n).encode()).digest()
        a, b, c, d = (WORDS[x % len(WORDS)] + str(digest[i + 8] % 90) for i, x in enumerate(digest[:4]))
        opening = f"My {a} and the {b} are too much for me, case {n}."
        made.append(
            dialogue(f"d{n:03}", opening, REPLIES[n % 3], f"Mostly the {c}, and {d} too.", REPLIES[(n + 1) % 3])
        )
    return made


def essays(count: int) -> Iterator[Dialogue]:
    """Unlike dialogues of 10 kB each, made as they are asked for."""
    for n in range(count):
        said = " ".join(hashlib.sha256(f"{n} {k}".encode()).hexdigest() for k in range(150))
        yield dialogue(f"essay{n}", said, "I see.")


def six() -> list[Dialogue]:
    """FIELD_CASES C4: O1 three times in three spellings, O2, O3 twice with different replies."""
    return [
        dialogue("o1a", "I lost my job today, and I can't breathe.", "What happened?"),
        dialogue("o1b", "  I lost my job -- today and,  I can't  breathe!! ", "I am so sorry to hear that."),
        dialogue(
            "o1c",
            "Ｉ ｌｏｓｔ ｍｙ ｊｏｂ ｔｏｄａｙ， ａｎｄ Ｉ ｃａｎ＇ｔ ｂｒｅａｔｈｅ。",
            "That must be frightening.",
        ),
        dialogue("o2", "My cat is old and will not eat.", "How old is it?"),
        dialogue("o3a", "Nobody came to my birthday.", "That hurts. Did they say why?"),
        dialogue("o3b", "Nobody came to my birthday.", "Whom had you hoped to see most of all?"),
    ]


def make(folder: Path, dialogues: Iterable[Dialogue], *, version: str | None = None, **kwargs: object) -> ReleaseResult:
    """A release of these dialogues, with one trace each."""
    kwargs.setdefault("name", "ser")
    if "traces" not in kwargs:
        kwargs["traces"] = [trace(d) for d in dialogues]
    return write_release(folder, ReleaseInput(dialogues=dialogues, **kwargs), version)  # pyright: ignore[reportArgumentType]
