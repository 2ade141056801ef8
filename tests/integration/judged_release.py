"""A release with labels, as `ser build`, `ser annotate judge` and `ser export` make one, over a loopback server."""

from __future__ import annotations

from pathlib import Path

from pipelines import build
from pipelines.annotating import judge
from pipelines.exporting import export
from ser_toolkit.workspace import Workspace
from tests.integration.conftest import write_dialogues
from tests.servers.openai_stand_in import StandIn

REPLIES = Path(__file__).parents[1] / "servers" / "judge_replies.py"


def judged_release(folder: Path, dialogues: int = 18) -> tuple[Path, Path]:
    """(release with labels, release without): traces of two rounds a dialogue, labelled by an LLM judge."""
    write_dialogues(folder / "in.jsonl", dialogues, rounds=2)
    with StandIn(reply=f"{REPLIES}:reply") as server:
        model, sets = "openai:stand-in", [f"llm.base_url={server.base_url}", "protect.enabled=false"]
        source = f"messages:{folder / 'in.jsonl'}"
        plain = build(folder / "w", sources=[source], quiet=True, model=model, sets=sets).export.made.path
        judge(folder / "w", model=model, sets=sets, quiet=True)
    return export(Workspace(folder / "w"), sets=["annotate.sources=[llm]"]).made.path, plain
