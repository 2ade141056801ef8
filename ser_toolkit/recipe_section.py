"""What every part of a recipe is: frozen, and strict about its keys."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the recipe: frozen, and no unknown key passes."""

    model_config = ConfigDict(frozen=True, extra="forbid")
