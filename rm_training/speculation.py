"""The four-round verdicts of many chats together: what they share is computed once, and their rounds in one pass.

A round hangs on the verdicts before it, so each chat's rounds are laid out under assumed verdicts (the first allowed
answer: most steps are sound), every allowed answer a branch of the same tree. Where an assumption turns out wrong, what
came before it holds, and only the rounds after it are computed again, the shared beginning kept. What comes out is what
`verdicts.judge_plainly` says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ser_toolkit.training.layout import Tree, tree_of, trunk_length
from ser_toolkit.training.pictures import shape_of
from ser_toolkit.training.shared_prefix import CACHE_FROM, Trunk, tree_logps
from ser_toolkit.training.sharing import reason_against

from .rounds import ChatEncoder, EncodedChat, JudgeChat, Tokens
from .verdicts import Judged, context_of, encode_all, judging, softmax

if TYPE_CHECKING:
    from torch import Tensor

CHATS = 32
"""How many chats go through the model together."""


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

    def sequences(self) -> list[tuple[Tokens, int]]:
        """By open round and allowed answer: the chat up to and with that answer, and how long the answer is."""
        out: list[tuple[Tokens, int]] = []
        path: Tokens = ()
        for number, (asked, answers) in enumerate(zip(self.encoded.asked, self.encoded.answers, strict=True)):
            path += asked
            settled = number < len(self.given)
            if not settled:
                out += [(path + answer, len(answer)) for answer in answers]
            path += answers[self.given[number] if settled else 0]
        return out

    def take(self, logps: Sequence[float]) -> None:
        """The answers' log-probabilities, in the order of `sequences`: settles rounds up to a wrong assumption."""
        left = list(logps)
        for number in range(len(self.given), len(self.encoded.asked)):
            count = len(self.encoded.answers[number])
            chances = softmax(left[:count])
            left = left[count:]
            if chances is None:
                self.trouble = f"round {number + 1}: the model's numbers are not finite"
                return
            self.found.append(dict(zip(self.allowed[number], chances, strict=True)))
            self.given.append(chances.index(max(chances)))
            if self.given[-1] != 0:
                return


def _judge(model: Any, chats: Sequence[_Progress]) -> None:
    """Passes over the chats until every round is settled."""
    trunk: Trunk | None = None
    pictures = {0: 0}  # whose pictures: chats of one scene share the very tensors, and text has none
    while open_ := [c for c in chats if not c.is_done]:
        named = [c.sequences() for c in open_]
        flat = [s for own in named for s in own]
        of = [pictures.setdefault(id(c.encoded.media), len(pictures)) if c.encoded.media else 0 for c in open_]
        tree = tree_of([s for s, _ in flat], [g for g, own in zip(of, named, strict=True) for _ in own])
        media = {g: c.encoded.media for g, c in zip(of, open_, strict=True) if g}
        wanted = sorted({i for path, (_, n) in zip(tree.paths, flat, strict=True) for i in path[len(path) - n :]})
        if (
            trunk is None
            and trunk_length(tree) >= CACHE_FROM
            and not reason_against(model, max(tree.depths) + 1, media)
        ):
            length = trunk_length(tree)
            trunk = Trunk(model, tree, length, [length - 1], media)
        logps = trunk.logps(tree, wanted) if trunk else tree_logps(model, tree, wanted, media=media)
        sums = iter(_sums(tree, [n for _, n in flat], wanted, logps))
        for chat, own in zip(open_, named, strict=True):
            chat.take([next(sums) for _ in own])


def _sums(tree: Tree, lengths: Sequence[int], wanted: Sequence[int], logps: Tensor) -> list[float]:
    """By sequence: the log-probability of its last tokens."""
    told = dict(zip(wanted, logps.double().tolist(), strict=True))
    return [math.fsum(told[i] for i in path[len(path) - n :]) for path, n in zip(tree.paths, lengths, strict=True)]
