"""`ser init DIR`: a workspace with a commented ser.yaml."""

from __future__ import annotations

from pathlib import Path

from ser_toolkit.errors import UsageError
from ser_toolkit.recipe import RECIPE_FILE
from ser_toolkit.workspace import writing

TEMPLATE = Path(__file__).parent / "ser.yaml"


def init(folder: Path) -> Path:
    """Make the folder and its recipe; an existing recipe is never overwritten. Raises UsageError."""
    file = folder / RECIPE_FILE
    if file.exists():
        raise UsageError(f"{file}: there is a recipe already", "edit it, or choose another folder")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(TEMPLATE.read_text(encoding="utf-8"), encoding="utf-8")
    return file
