"""The ground floor of SER toolkit: vocabulary, data, model access, the engine, releases.

The public names of the Python API stand here and are imported when first used:

    from ser_toolkit import load_release, Dialogue, Trace, parse_trace
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import SerError
    from .reasoning import parse_trace, render_trace
    from .recipe import Recipe, load_recipe
    from .releases.load import load_release
    from .schema import Dialogue, Failure, Scenario, Trace, Turn

__all__ = [
    "Dialogue",
    "Failure",
    "Recipe",
    "Scenario",
    "SerError",
    "Trace",
    "Turn",
    "load_recipe",
    "load_release",
    "parse_trace",
    "render_trace",
]

_ROOMS = {
    "errors": ("SerError",),
    "reasoning": ("parse_trace", "render_trace"),
    "recipe": ("Recipe", "load_recipe"),
    "releases.load": ("load_release",),
    "schema": ("Dialogue", "Failure", "Scenario", "Trace", "Turn"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'ser_toolkit' has no attribute {name!r}")
    return getattr(import_module(f".{_ROOM_OF[name]}", __name__), name)
