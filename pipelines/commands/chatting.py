"""`ser chat`."""

from __future__ import annotations

from typing import Annotated

import typer

from .common import HERE, AsJson, Sets, WorkspaceDir


def register(app: typer.Typer) -> None:
    app.command("chat")(chat)


def chat(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A run's folder, or a SPEC: openai:MODEL, vllm:MODEL, embedded.")
    ],
    plain: Annotated[
        bool, typer.Option("--plain", help="Ask for a plain reply, not for the three steps and a reply.")
    ] = False,
    lang: Annotated[str | None, typer.Option("--lang", help="en or zh. Default: told from what is typed.")] = None,
    workspace: WorkspaceDir = HERE,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Talk with a model; its three steps are shown before its reply. Nothing is kept.

    Lines are read from the terminal, or from a pipe; with --json each answer is a line of JSON. A message that tells of
    a crisis brings up the helplines of protect.locale.
    """
    import json
    import sys

    from ser_toolkit.errors import UsageError
    from ser_toolkit.visible import visible_json

    from ..chatting import Exchange
    from ..chatting import chat as run_chat

    if lang not in (None, "en", "zh"):
        raise UsageError(f"--lang {lang}: not a language of SER", "en or zh")

    def as_line(exchange: Exchange) -> None:
        sys.stdout.write(visible_json(json.dumps(exchange.to_json(), ensure_ascii=False)) + "\n")
        sys.stdout.flush()

    run_chat(
        model,
        workspace=workspace,
        style="plain" if plain else "ser",
        lang="zh" if lang == "zh" else "en" if lang == "en" else None,
        sets=sets or (),
        show=as_line if as_json else None,
        warn=(lambda _: None) if as_json else None,
    )
