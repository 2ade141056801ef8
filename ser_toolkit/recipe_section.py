"""What every part of a recipe is: frozen, and strict about its keys."""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator


class Section(BaseModel):
    """A part of the recipe: frozen, no unknown key passes, and a yes or no is no number (`rounds: yes` would be 1)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        kind = cls.model_fields[info.field_name or ""].annotation
        kinds = {kind, *get_args(kind)}
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else (value,)
        if {int, float} & kinds and bool not in kinds and any(isinstance(v, bool) for v in inside):
            raise ValueError("must be a number, not yes or no")
        return value
