"""Sample rounds sparsely: few rounds of each dialogue, most often from its middle.

Source: PEER, arXiv 2508.09521, section 3: p(i) is proportional to exp(-(i - mu)^2 / (2 sigma^2)) for i = 1..N_r, with
mu = N_r / 2 and sigma = N_r / 4. The paper leaves open how many rounds are drawn (here 3) and whether the drawn rounds
are the targets (default) or the only history kept (`sample.keep: history`).
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from itertools import groupby

from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Dialogue
from ser_toolkit.seeds import derive_seed


@dataclass(frozen=True, slots=True)
class Round:
    """A seeker's block of turns and the supporter's block that answers it.

    `number` counts from 1; `start` is the index of the block's first seeker turn, `target` that of the supporter's
    first turn, `end` one past the supporter's last; `reference` is what the supporter said.
    """

    number: int
    start: int
    target: int
    end: int
    reference: str


def rounds_of(dialogue: Dialogue) -> list[Round]:
    """The rounds of a dialogue; a supporter's opening, and a last seeker's block without reply, make none."""
    rounds: list[Round] = []
    index, start = 0, None
    for speaker, block in groupby(dialogue.turns, key=lambda t: t.speaker):
        turns = list(block)
        if speaker == "supporter" and start is not None:
            reference = "\n".join(t.text for t in turns)
            rounds.append(Round(len(rounds) + 1, start, index, index + len(turns), reference))
        start = index if speaker == "seeker" else None
        index += len(turns)
    return rounds


def weights(n_rounds: int) -> list[float]:
    """The Gaussian weight of rounds 1..n_rounds, not normalised."""
    mu, sigma = n_rounds / 2, n_rounds / 4
    return [math.exp(-((i - mu) ** 2) / (2 * sigma**2)) for i in range(1, n_rounds + 1)]


def draw_rounds(n_rounds: int, n_draw: int, seed: int) -> list[int]:
    """`n_draw` different round numbers (all, where there are no more), in their order."""
    if n_rounds <= n_draw:
        return list(range(1, n_rounds + 1))
    left = dict(zip(range(1, n_rounds + 1), weights(n_rounds), strict=True))
    draw = random.Random(seed)
    drawn: list[int] = []
    while len(drawn) < n_draw:
        number = draw.choices(list(left), list(left.values()))[0]
        drawn.append(number)
        del left[number]
    return sorted(drawn)


def drawn_rounds(dialogue: Dialogue, recipe: Recipe) -> list[Round]:
    """The rounds that are reasoned about. The draw hangs on the recipe's seed and the dialogue's id."""
    rounds = rounds_of(dialogue)
    seed = derive_seed(recipe.seed, dialogue.id, "sample")
    return [rounds[n - 1] for n in draw_rounds(len(rounds), recipe.sample.rounds, seed)]


def keep_drawn(dialogue: Dialogue, recipe: Recipe) -> Dialogue:
    """The dialogue with its drawn rounds as the only turns (`sample.keep: history`), flagged so."""
    turns = tuple(t for r in drawn_rounds(dialogue, recipe) for t in dialogue.turns[r.start : r.end])
    return dialogue.model_copy(update={"turns": turns, "flags": (*dialogue.flags, "only_drawn_rounds")})
