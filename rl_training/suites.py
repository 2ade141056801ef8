"""The suites that a policy is put through, and the rubrics that score it. The rubrics and all prompts are our own: a
score made with them is never set beside a paper's (METHOD 5). The suites' files come by path.
"""

from __future__ import annotations

from dataclasses import dataclass

from ser_toolkit.errors import UsageError

OWN_RUBRIC = "scores by a rubric and prompts of our own: not to be set beside published figures"


@dataclass(frozen=True, slots=True)
class Rubric:
    """What judges score: whole numbers from `low` to `high` on each of `dimensions`; `task` is its prompt."""

    task: str
    dimensions: tuple[str, ...]
    low: int
    high: int

    @property
    def scale(self) -> str:
        return f"{self.low}-{self.high}"


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite. `format` is the source format of its file; `rounds` the supporter's replies at most; `tracks`: the
    seeker's feeling is tracked, and is the score. `told`: the parts of an item are told, and nobody plays a seeker.
    """

    name: str
    title: str
    format: str
    rounds: int
    rubric: Rubric | None = None
    tracks: bool = False
    told: bool = False


SUCCESS, FAILURE = 100, 10
"""SAGE: a talk succeeds that ends at 100 or more, and fails below 10."""

_ESC = Rubric("judge_esc_eval", ("fluency", "diversity", "empathy", "suggestion", "humanoid", "safety"), 0, 3)
_EQ = Rubric(
    "judge_eqbench3",
    ("empathy", "reading_others", "self_awareness", "social_skill", "insight", "boundaries", "usefulness"),
    0,
    5,
)
SUITES = {
    s.name: s
    for s in (
        Suite("esc-eval", "ESC-Eval as PEER uses it", "esc-eval", 5, _ESC),
        Suite("sage", "SAGE", "sage", 20, tracks=True),
        Suite("eqbench3", "EQ-Bench 3 scenarios", "eqbench3", 20, _EQ, told=True),
    )
}


def suite_called(name: str) -> Suite:
    """The suite of that name. Raises UsageError."""
    if name not in SUITES:
        raise UsageError(f"no suite is called {name!r}", f"known: {', '.join(SUITES)}")
    return SUITES[name]
