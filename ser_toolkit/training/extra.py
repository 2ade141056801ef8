"""Whether the libraries of the extra `[train]` are there. Imports none of them."""

from __future__ import annotations

from importlib.util import find_spec

from ..errors import UsageError

NEEDED = ("torch", "transformers", "peft", "accelerate", "safetensors", "trl")
PIP_LINE = "pip install 'ser-toolkit[train]'"


def require_train(*more: str) -> None:
    """Raises UsageError, with the line that installs what is missing. Call it before anything imports torch."""
    missing = [name for name in (*NEEDED, *more) if find_spec(name) is None]
    if missing:
        raise UsageError(f"training needs {', '.join(missing)}", PIP_LINE)
