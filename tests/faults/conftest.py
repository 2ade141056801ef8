"""`ser build` in a process of its own, to be interrupted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def command(workspace: Path, source: str, base_url: str, *more: str) -> list[str]:
    return [
        sys.executable, "-m", "pipelines", "build", "-w", str(workspace), "--source", source, "--model", "openai:m",
        "--set", f"llm.base_url={base_url}", "--json", *more,
    ]  # fmt: skip


def start(workspace: Path, source: str, base_url: str, *more: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command(workspace, source, base_url, *more),
        cwd=ROOT,
        stdout=pipe,
        stderr=pipe,
        text=True,
        start_new_session=True,
    )


def finish(workspace: Path, source: str, base_url: str, *more: str) -> dict[str, Any]:
    process = start(workspace, source, base_url, *more)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out)
