"""Run `ser` as its users do: another process, real exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def ser(tmp_path: Path) -> Run:
    """`ser("build", ...)` in an empty folder; `env` adds to the environment."""

    def run(*args: object, env: Mapping[str, str] | None = None, cwd: Path | None = None, timeout: float = 300):
        return subprocess.run(
            [sys.executable, "-m", "pipelines", *map(str, args)],
            cwd=cwd or tmp_path,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run
