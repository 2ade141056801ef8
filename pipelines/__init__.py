"""The top floor: the `ser` command, the stages of `ser build`, and the wiring of all packages.

from pipelines import build
result = build("workspace", sources=["esconv:ESConv.json"], limit=8)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .builder import BuildResult, build

__all__ = ["BuildResult", "build"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from . import builder  # the work is imported when asked for: `ser --help` must not pay for it

        return getattr(builder, name)
    raise AttributeError(f"module 'pipelines' has no attribute {name!r}")
