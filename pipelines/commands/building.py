"""`ser build`: dialogues in, a release out."""

from __future__ import annotations

from typing import Annotated

import typer

from .common import HERE, AsJson, Sets, WorkspaceDir, give


def register(app: typer.Typer) -> None:
    app.command("build")(build)


def build(
    workspace: WorkspaceDir = HERE,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            metavar="FORMAT:PATH",
            help="What to read; repeatable. Default: the recipe's sources, else the bundled seeds.",
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Records to take from each source, at most.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="SPEC", help="embedded[:PATH.gguf], openai:MODEL or vllm:MODEL."),
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="Where the stages run: local.")] = "local",
    sets: Sets = None,
    version: Annotated[str | None, typer.Option("--version", metavar="X.Y.Z", help="The release's version.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Empty the tables and ask every call again.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first record that cannot be read.")] = False,
    retry_failures: Annotated[
        bool,
        typer.Option("--retry-failures", help="Ask again the calls behind the failures of the last build."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make a SER release from dialogues or scenarios.

    Imports (and synthesizes from scenarios), filters, samples rounds, writes reasoning traces, exports. The same
    command again goes on where the last one stopped: no call that was paid for is made twice.
    """
    from ser_toolkit.errors import UsageError

    from ..builder import build as run_build

    if engine != "local":
        raise UsageError(f"--engine {engine}: there is no such engine", "known: local")
    result = run_build(
        workspace,
        sources=source or (),
        limit=limit,
        model=model,
        sets=sets or (),
        version=version,
        fresh=fresh,
        strict=strict,
        retry_failures=retry_failures,
    )
    give(result, as_json)
