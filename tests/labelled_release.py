"""A release with labels, made in seconds and without any model: for tests of judges.

The labels follow the texts: a step that begins "Wrong" is False, and the longer reply is the better one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from ser_toolkit.releases.labels import TraceLabels
from ser_toolkit.releases.write import ReleaseInput, write_release
from ser_toolkit.schema import Dialogue, Source, Step, Trace, Turn

TOPICS = ("deadline", "landlord", "sister", "exam", "surgery", "visa", "divorce", "mortgage", "insomnia", "rent")
CAUSES = ("work", "money", "family", "health", "study", "housing", "love", "sleep", "travel", "age", "noise", "debt")


def labelled_release(folder: Path, count: int = 24, *, undecided: bool = True, turns: int = 3, seed: int = 0) -> Path:
    """`count` dialogues, a labelled trace each; `undecided`: of every fifth a step, of every seventh the verdict."""
    made = list(_records(count, turns, seed))
    labels = [_labels(n, trace, undecided) for n, (_, trace) in enumerate(made)]
    inputs = ReleaseInput(
        name="labelled",
        dialogues=[d for d, _ in made],
        traces=[t for _, t in made],
        ratios=(0.6, 0.2, 0.2),
        labels=labels,
    )
    return write_release(folder, inputs).path


def _records(count: int, turns: int, seed: int) -> Iterator[tuple[Dialogue, Trace]]:
    for n in range(count):
        draw = random.Random(f"{seed} {n}")
        topic, cause = draw.choice(TOPICS), draw.choice(CAUSES)
        said = [
            Turn(
                speaker="seeker" if i % 2 == 0 else "supporter",
                text=f"About the {topic}, {' '.join(draw.sample(TOPICS, 4))}, case {n} part {i}.",
            )
            for i in range(turns)
        ]
        reference = (
            "I see." if draw.random() < 0.5 else f"That {topic} sounds heavy, and it is no wonder that it hurts."
        )
        dialogue = Dialogue(
            id=f"d{n:03}",
            root_id=f"d{n:03}",
            lang="en",
            source=Source(format="esconv", file="some.json", position=f"record {n}", licence="CC-BY-4.0"),
            turns=(*said, Turn(speaker="supporter", text=reference)),
        )
        texts = [
            f"{'Wrong' if draw.random() < 0.3 else 'Right'}: the core problem is {cause}.",
            f"{'Wrong' if draw.random() < 0.3 else 'Right'}: negative, moderate, anxiety.",
            f"{'Wrong' if draw.random() < 0.3 else 'Right'}: ask about the {topic}.",
        ]
        yield (
            dialogue,
            Trace(
                id=f"t{n:03}",
                dialogue_id=dialogue.id,
                root_id=dialogue.id,
                lang="en",
                round=1,
                target=len(said),
                history_start=0,
                steps=tuple(Step(number=i, title="", text=t) for i, t in enumerate(texts, 1)),  # type: ignore[arg-type]
                reply=f"What about the {topic} weighs most?",
                reference=reference,
                stage="Exploration",
                strategy="Progressive Questioning",
                emotions=("Anxiety",),
                model="some-model",
                prompt="reason-whole/en@1",
            ),
        )


def _labels(n: int, trace: Trace, undecided: bool) -> TraceLabels:
    one, two, three = (not step.text.startswith("Wrong") for step in trace.steps)
    longer = "generated" if len(trace.reply) > len(trace.reference) else "reference"
    return TraceLabels(
        trace_id=trace.id,
        steps=(one, None if undecided and n % 5 == 4 else two, three),
        better=None if undecided and n % 7 == 6 else longer,
        votes=8,
    )
