"""The four-round verdicts of many chats together: what they share is computed once, and their rounds in one pass.

A round hangs on the verdicts before it, so a chat's rounds are laid out under assumed verdicts (the first allowed
answer: most steps are sound), every allowed answer a branch of the same tree. Where an assumption turns out wrong, what
came before it holds, its keys are kept, and only the rounds after it are read again. What comes out is what
`verdicts.judge_plainly` says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ser_toolkit.training.layout import Tree, tree_of, trunk_length
from ser_toolkit.training.lines import Line, Lines
from ser_toolkit.training.pictures import shape_of
from ser_toolkit.training.shared_prefix import CACHE_FROM, Trunk, tree_logps
from ser_toolkit.training.sharing import reason_against

from .rounds import ChatEncoder, EncodedChat, JudgeChat, Tokens
from .verdicts import Judged, context_of, encode_all, judging, softmax

if TYPE_CHECKING:
    from torch import Tensor

CHATS = 32
"""How many chats go through the model together."""
AHEAD: Mapping[str, int] = {"cpu": 256, "cuda": 2048}
"""By device: up to how many tokens a pass reads rounds ahead. Beyond, a pass takes as long as its tokens, and what was
read under a wrong assumption costs more than a pass saved gains: then each round waits for the one before it."""


def judge_together(
    model: Any, processing: Any, chats: Sequence[JudgeChat], *, batch_size: int = CHATS, max_tokens: int | None = None
) -> list[Judged]:
    """As `judge_plainly`, and equal to it: the faster the more the chats have in common, such as history and photo."""
    return judge_encoded(
        model, chats, encode_all(ChatEncoder(processing, max_tokens or context_of(model)), chats), batch_size
    )


def judge_encoded(
    model: Any, chats: Sequence[JudgeChat], encoded: Sequence[EncodedChat | str], batch_size: int = CHATS
) -> list[Judged]:
    """The same for chats whose tokens are known; a text in place of tokens is the reason why there are none."""
    out = [Judged(trouble=e) if isinstance(e, str) else Judged() for e in encoded]
    usable = [(i, e) for i, e in enumerate(encoded) if isinstance(e, EncodedChat)]
    usable.sort(key=lambda one: (shape_of(one[1].media), one[1].asked))  # like beginnings stand together
    with judging(model):
        for _, alike in groupby(usable, key=lambda one: shape_of(one[1].media)):
            left = list(alike)
            for start in range(0, len(left), batch_size):
                batch = [(i, _Progress(chats[i].allowed, e)) for i, e in left[start : start + batch_size]]
                _judge(model, [progress for _, progress in batch])
                for i, progress in batch:
                    out[i] = Judged(trouble=progress.trouble) if progress.trouble else Judged(tuple(progress.found))
    return out


@dataclass(slots=True)
class _Progress:
    """One chat: the chances of the rounds that are settled, and the answers that stand in it (by number)."""

    allowed: Sequence[Sequence[str]]
    encoded: EncodedChat
    found: list[Mapping[str, float]] = field(default_factory=list)
    given: list[int] = field(default_factory=list)
    trouble: str = ""

    @property
    def is_done(self) -> bool:
        return bool(self.trouble) or len(self.found) == len(self.encoded.asked)

    def path(self, number: int) -> Tokens:
        """The chat up to the question of a round, under the answers that stand in it, and assumed ones behind them."""
        path: Tokens = ()
        for n, answers in enumerate(self.encoded.answers[:number]):
            path += self.encoded.asked[n] + answers[self.given[n] if n < len(self.given) else 0]
        return path + self.encoded.asked[number]

    def sequences(self, rounds: int) -> list[tuple[Tokens, int]]:
        """By open round (`rounds` of them at most) and allowed answer: the chat up to and with it, and its length."""
        open_ = range(len(self.given), min(len(self.given) + rounds, len(self.encoded.asked)))
        return [(self.path(n) + answer, len(answer)) for n in open_ for answer in self.encoded.answers[n]]

    def take(self, logps: Sequence[float]) -> int:
        """The answers' log-probabilities, in the order of `sequences`: settles rounds up to a wrong assumption.

        Returns which of the sequences the chat goes on with.
        """
        at = 0
        while True:
            number = len(self.given)
            chances = softmax(logps[at : at + len(self.encoded.answers[number])])
            if chances is None:
                self.trouble = f"round {number + 1}: the model's numbers are not finite"
                return at
            self.found.append(dict(zip(self.allowed[number], chances, strict=True)))
            self.given.append(chances.index(max(chances)))
            on = at + self.given[-1]
            at += len(chances)
            if self.given[-1] != 0 or at == len(logps):
                return on


def _judge(model: Any, chats: Sequence[_Progress]) -> None:
    """Passes over the chats until every round is settled."""
    trunk = _trunk(model, chats)
    if trunk is None:
        return _judge_anew(model, chats)
    lines, stands = Lines(trunk), {id(c): Line() for c in chats}
    ahead = AHEAD.get(model.device.type, AHEAD["cuda"])
    while open_ := [c for c in chats if not c.is_done]:
        named = [c.sequences(_rounds(open_, ahead)) for c in open_]
        known = [trunk.length + len(stands[id(c)].places) for c in open_]
        flat = [(stands[id(c)], s[k:], n) for c, k, own in zip(open_, known, named, strict=True) for s, n in own]
        sums, ends = lines.grown(*zip(*flat, strict=True))
        at = 0
        for chat, own in zip(open_, named, strict=True):
            stands[id(chat)] = ends[at + chat.take(sums[at : at + len(own)])]
            at += len(own)


def _trunk(model: Any, chats: Sequence[_Progress]) -> Trunk | None:
    """What all the chats begin with, computed; `None` where they share little, or the model does not let them."""
    tree, media = _tree(chats, [[(c.path(0), 0)] for c in chats])
    length = min(trunk_length(tree) or len(tree.tokens), min(len(c.encoded.asked[0]) for c in chats) - 1)
    longest = max(sum(map(len, c.encoded.asked)) + sum(max(map(len, a)) for a in c.encoded.answers) for c in chats)
    if len(tree.roots) > 1 or length < CACHE_FROM or reason_against(model, longest, media):
        return None
    return Trunk(model, tree, length, [], media)


def _rounds(chats: Sequence[_Progress], ahead: int) -> int:
    """How many rounds go into one pass: as many as stay within `ahead` tokens, and one in any case."""
    for rounds in (4, 3, 2):
        if sum(len(a) for c in chats for a in c.encoded.asked[len(c.given) : len(c.given) + rounds]) <= ahead:
            return rounds
    return 1


def _judge_anew(model: Any, chats: Sequence[_Progress]) -> None:
    """The same where no keys can be kept: every pass reads the open chats from their beginning."""
    while open_ := [c for c in chats if not c.is_done]:
        named = [c.sequences(len(c.encoded.asked)) for c in open_]
        tree, media = _tree(open_, named)
        lengths = [n for own in named for _, n in own]
        wanted = sorted({i for path, n in zip(tree.paths, lengths, strict=True) for i in path[len(path) - n :]})
        sums = iter(_sums(tree, lengths, wanted, tree_logps(model, tree, wanted, media=media)))
        for chat, own in zip(open_, named, strict=True):
            chat.take([next(sums) for _ in own])


def _tree(
    chats: Sequence[_Progress], named: Sequence[Sequence[tuple[Tokens, int]]]
) -> tuple[Tree, dict[int, Mapping[str, Any]]]:
    """The chats' sequences as a tree, and its pictures. Chats of one scene share the very tensors; text has none."""
    pictures = {0: 0}
    of = [pictures.setdefault(id(c.encoded.media), len(pictures)) if c.encoded.media else 0 for c in chats]
    tree = tree_of([s for own in named for s, _ in own], [g for g, own in zip(of, named, strict=True) for _ in own])
    return tree, {g: c.encoded.media for g, c in zip(of, chats, strict=True) if g}


def _sums(tree: Tree, lengths: Sequence[int], wanted: Sequence[int], logps: Tensor) -> list[float]:
    """By sequence: the log-probability of its last tokens."""
    told = dict(zip(wanted, logps.double().tolist(), strict=True))
    return [math.fsum(told[i] for i in path[len(path) - n :]) for path, n in zip(tree.paths, lengths, strict=True)]
