"""Advantages of groups in which rewards may be missing.

    A_i = (r_i - mean) / max(std, floor)

Mean and deviation are over the rewards of a group that are known. A completion without a reward, and a whole group
whose known rewards do not differ, have advantage 0 and are *not alive*: the trainer takes them out of the loss, so that
they give no KL gradient either. May import torch, which is imported by what calls this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

Scale = Literal["group", "batch", "none"]
EQUAL = 1e-6
"""Rewards whose deviation is below this are equal."""
EPSILON = 1e-4
"""Added to the deviation, as TRL does."""


def group_advantages(
    rewards: torch.Tensor, group_size: int, scale: Scale = "group", floor: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """(advantages, alive), both (N,): `rewards` (N,) in whole groups, NaN where missing; `alive` is bool."""
    groups = rewards.view(-1, group_size)
    known = ~groups.isnan()
    counts = known.sum(1, keepdim=True)
    filled = groups.nan_to_num(0.0)
    centred = (filled - filled.sum(1, keepdim=True) / counts.clamp(min=1)) * known
    deviation = _deviation(centred.square().sum(1, keepdim=True), counts)
    alive = (known & (deviation > EQUAL)).view(-1)
    if scale == "batch":
        everywhere = rewards[~rewards.isnan()]
        spread = everywhere.std() if len(everywhere) > 1 else rewards.new_zeros(())
        deviation = spread.expand_as(deviation)
    advantages = centred if scale == "none" else centred / (deviation.clamp(min=floor) + EPSILON)
    return advantages.view(-1) * alive, alive


def _deviation(squares: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """The sample deviation (N - 1), as TRL takes it; 0 for fewer than two."""
    return (squares / (counts - 1).clamp(min=1)).sqrt() * (counts > 1)
