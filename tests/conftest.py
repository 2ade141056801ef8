"""Fixtures that every suite may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("SER_SHARED_DATA", ROOT.parent / "shared" / "data"))


@pytest.fixture
def shared_data() -> Path:
    """Other people's corpora, read from beside the checkout and never copied into it."""
    if not SHARED.is_dir():
        pytest.skip(f"no corpora at {SHARED}: set SER_SHARED_DATA to run the tests on real files")
    return SHARED
