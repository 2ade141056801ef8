"""What a mix did not reach, in words for people: nothing falls short silently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ser_toolkit.recipe import Synthesize

from .mix import Plan
from .mix_program import is_met


def shortfalls(
    plan: Plan, settings: Synthesize, made: Mapping[tuple[str, str | None], int], total: int
) -> Iterator[str]:
    """A line for dialogues that are missing from `settings.count`, and one for each share of the mix that is not met.

    `made`: dialogues by dimension and value; `total`: dialogues in all.
    """
    if settings.count is not None and plan.count < settings.count:
        yield (
            f"synthesize.count asks for {settings.count} dialogues, the scenarios give {plan.count}: "
            "raise synthesize.per_scenario, or allow synthesize.invent"
        )
    if total < plan.count:
        gone = f"{plan.count - total} of {plan.count} dialogues to be synthesized are missing"
        yield f"{gone}: rejected (see the failures) or withdrawn"
    planned = plan.shares()
    for dimension, shares in settings.mix.dimensions():
        for word, share in shares.items():
            have = made.get((dimension, word), 0)
            if not total or is_met(have, share, total):
                continue
            told = f"{dimension} {word!r}: {have} of {total} dialogues ({have / total:.1%}, asked {share:.1%})"
            yield f"the mix is not met for {told}: {_reason(planned[dimension][word], share, plan.count, settings)}"


def _reason(planned: int, share: float, count: int, settings: Synthesize) -> str:
    if not any(is_met(n, share, count) for n in (int(share * count), int(share * count) + 1)):
        return "too few dialogues for so small a share"
    if is_met(planned, share, count):
        return "others were rejected"
    return "the scenarios do not give it" + ("" if settings.invent else "; synthesize.invent would have it written")
