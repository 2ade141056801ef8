"""What a test needs and may lack on somebody's machine; in CI it must be there."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def lacking(what: str) -> NoReturn:
    """Skip with the reason; with CI set, fail."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)
