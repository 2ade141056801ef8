"""Sample rounds sparsely: few rounds of each dialogue, most often from its middle.

Source: PEER, arXiv 2508.09521, section 3: p(i) is proportional to exp(-(i - mu)^2 / (2 sigma^2)) for i = 1..N_r, with
mu = N_r / 2 and sigma = N_r / 4. The paper leaves open how many rounds are drawn (here 3) and whether the drawn rounds
are the targets (default) or the only history kept (`sample.keep: history`).
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import lru_cache

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
    turns = dialogue.turns
    speakers = [turn.speaker for turn in turns]
    rounds: list[Round] = []
    index, start = 0, None
    while index < len(speakers):
        speaker, end = speakers[index], index + 1
        while end < len(speakers) and speakers[end] == speaker:
            end += 1
        if speaker == "supporter" and start is not None:
            reference = "\n".join([turn.text for turn in turns[index:end]])
            rounds.append(Round(len(rounds) + 1, start, index, end, reference))
        start = index if speaker == "seeker" else None
        index = end
    return rounds


@lru_cache(maxsize=256)
def weights(n_rounds: int) -> tuple[float, ...]:
    """The Gaussian weight of rounds 1..n_rounds, not normalised."""
    mu, sigma = n_rounds / 2, n_rounds / 4
    return tuple(math.exp(-((i - mu) ** 2) / (2 * sigma**2)) for i in range(1, n_rounds + 1))


def draw_rounds(n_rounds: int, n_draw: int, seed: int) -> list[int]:
    """`n_draw` different round numbers (all, where there are no more), in their order."""
    if n_rounds <= n_draw:
        return list(range(1, n_rounds + 1))
    left, chances = list(range(1, n_rounds + 1)), list(weights(n_rounds))
    draw = random.Random(seed)
    drawn: list[int] = []
    while len(drawn) < n_draw:
        at = draw.choices(range(len(left)), chances)[0]
        drawn.append(left.pop(at))
        del chances[at]
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
