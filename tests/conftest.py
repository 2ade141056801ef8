"""Fixtures and settings that every suite uses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side: one thread each, also in what they start

settings.register_profile("ser", deadline=None)  # a busy machine is no fault
settings.load_profile("ser")

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("SER_SHARED_DATA", ROOT.parent / "shared" / "data"))


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file's tests stay on one worker, which builds what they share once; unit tests go where there is room."""
    for item in items:
        if "unit" not in item.path.parts and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture
def shared_data() -> Path:
    """Other people's corpora, read from beside the checkout and never copied into it."""
    if not SHARED.is_dir():
        pytest.skip(f"no corpora at {SHARED}: set SER_SHARED_DATA to run the tests on real files")
    return SHARED
