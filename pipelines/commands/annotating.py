"""`ser annotate`: people, and LLM judges, label steps and replies."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from .common import HERE, AsJson, Sets, WorkspaceDir, give, print_json, print_text

annotate = typer.Typer(
    help="People, and LLM judges, label steps and replies.", no_args_is_help=True, epilog="Each takes --json."
)

Annotators = Annotated[
    str, typer.Option("--annotators", metavar="A,B,C", help="Names of the people, separated by commas.")
]
To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="ROUTE",
        help="The annotation server: argilla, or any other route that is installed.",
    ),
]
Url = Annotated[str | None, typer.Option("--url", help="A server that runs already. Default: the one started here.")]
TokenEnv = Annotated[
    str | None, typer.Option("--token-env", metavar="VARIABLE", help="The environment variable that holds its key.")
]
Language = Annotated[str, typer.Option("--lang", help="What a new form says: en or zh.")]


def register(app: typer.Typer) -> None:
    app.add_typer(annotate, name="annotate")
    for command in (serve, status, report, judge, adjudicate, guidelines):
        annotate.command(command.__name__)(command)
    for command in (start, stop, push, pull):
        annotate.command(command.__name__)(command)


def serve(
    workspace: WorkspaceDir = HERE,
    annotators: Annotated[
        str, typer.Option("--annotators", metavar="A,B,C", help="Names of the people. Default: those of the round.")
    ] = "",
    overlap: Annotated[
        int | None, typer.Option("--overlap", min=1, max=9, help="People an item, when the round begins. Default: 2.")
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on; any other than this one opens it to a network.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: a free one.")] = 8400,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="Where people reach this server, if elsewhere (a proxy, a name)."),
    ] = None,
    revoke: Annotated[
        str, typer.Option("--revoke", metavar="A,B", help="Call back the links of these people; each gets a new one.")
    ] = "",
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Serve the built-in page: begin a round where there is none, and print a link for each person and the owner.

    The same command again serves the same round under the same links. Ctrl-C ends it; every answer is kept.
    """
    from ..serving import Links, serve_round

    def announce(links: Links) -> None:
        if as_json:
            print_json({"url": links.url, "owner": links.owner, "annotators": dict(links.annotators)})
        else:
            width = max(map(len, links.annotators), default=0)
            for name, link in links.annotators.items():
                typer.echo(f"{name:{width}}  {link}")
            typer.echo(f"\nowner: {links.owner}")
            typer.echo("Each person opens their own link; who has a link is that person. Ctrl-C ends.", err=True)
        sys.stdout.flush()

    try:
        serve_round(
            workspace,
            announce,
            annotators=split_names(annotators),
            overlap=overlap,
            host=host,
            port=port,
            url=url,
            revoke=split_names(revoke),
            sets=sets or (),
        )
    except KeyboardInterrupt:
        typer.echo("stopped; every answer is kept, and the same command serves the same links", err=True)


def status(
    workspace: WorkspaceDir = HERE,
    to: Annotated[
        str | None, typer.Option("--to", metavar="ROUTE", help="How an annotation server stands, not the round.")
    ] = None,
    url: Url = None,
    token_env: TokenEnv = None,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """How far the round is, and how well its annotators agree; or, with --to, how an annotation server stands."""
    from ..annotation_reports import render_status, round_status

    if to is not None:
        from ..annotation_routes import Destination
        from ..annotation_routes import status as route_status

        print_or_json(route_status(workspace, Destination(to, url, token_env), sets or ()), as_json)
        return

    found = round_status(workspace, sets or ())
    if as_json:
        print_json(found)
    else:
        print_text(render_status(found))


def report(
    workspace: WorkspaceDir = HERE,
    answers: Annotated[
        Path | None, typer.Option("--answers", metavar="FILE", help="Write every answer there, a line of JSON each.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the report there as a page.")
    ] = None,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """How each annotator judges: time, agreement, bias to a side, drift, gold items, self-consistency."""
    from ..annotation_reports import render_report, round_report, write_answers, write_page

    if answers is not None:
        typer.echo(f"{write_answers(workspace, answers)} answers written to {answers}", err=True)
    found = round_report(workspace, sets or ())
    if html is not None:
        write_page(found, html)
        typer.echo(f"page written to {html}", err=True)
    if as_json:
        print_json(found)
    else:
        print_text(render_report(found))


def judge(
    workspace: WorkspaceDir = HERE,
    model: Annotated[
        str | None, typer.Option("--model", metavar="SPEC", help="embedded[:PATH.gguf], openai:MODEL or vllm:MODEL.")
    ] = None,
    seats: Annotated[
        int, typer.Option("--seats", min=1, max=9, help="Independent votes that this model may have on an item.")
    ] = 3,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Let an LLM answer the same items as people, blinded alike.

    Its votes are marked `source: llm` and never mixed silently with people's: a release uses them only where the recipe
    says so (annotate.sources). The same command again asks nothing twice.
    """
    from ..annotating import judge as run_judge

    result = run_judge(workspace, model=model, seats=seats, sets=sets or ())
    give(result, as_json)


def adjudicate(
    item: Annotated[
        str | None, typer.Argument(metavar="[ITEM]", help="The item to decide. Default: list them.")
    ] = None,
    workspace: WorkspaceDir = HERE,
    step1: Annotated[bool | None, typer.Option("--step1/--not-step1", help="Step 1 is True, or False.")] = None,
    step2: Annotated[bool | None, typer.Option("--step2/--not-step2", help="Step 2 is True, or False.")] = None,
    step3: Annotated[bool | None, typer.Option("--step3/--not-step3", help="Step 3 is True, or False.")] = None,
    verdict: Annotated[
        str | None,
        typer.Option("--verdict", help="first_better, second_better, almost_equal or neither, as the item shows them."),
    ] = None,
    note: Annotated[str, typer.Option("--note", help="Why; kept in the log.")] = "",
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Decide what the annotators left undecided.

    Without ITEM, the items that wait, each with its votes. With ITEM alone, the item as an annotator sees it, the
    replies in an order drawn for the owner.
    """
    from ..adjudicating import adjudicate as run_adjudicate

    found = run_adjudicate(workspace, item, (step1, step2, step3), verdict, note, sets or ())
    give(found, as_json)


def guidelines(
    lang: Annotated[str, typer.Option("--lang", help="en or zh.")] = "en",
    workspace: WorkspaceDir = HERE,
    as_json: AsJson = False,
) -> None:
    """What annotators are told, in Markdown. A workspace's guidelines/LANG.md takes its place."""
    from ..annotation_reports import guidelines_text

    text = guidelines_text(workspace, lang)
    if as_json:
        print_json({"lang": lang, "text": text})
    else:
        print_text(text)


def start(
    to: To,
    annotators: Annotators = "",
    workspace: WorkspaceDir = HERE,
    lang: Language = "en",
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Start an annotation server here, in an environment of its own, and put the round into it.

    The first start installs that environment (minutes, once). The server runs on when this command has ended; the same
    command again finds it.
    """
    from ..annotation_routes import Destination
    from ..annotation_routes import start as run_start

    print_or_json(run_start(workspace, Destination(to, lang=lang), split_names(annotators), sets or ()), as_json)


def stop(to: To, workspace: WorkspaceDir = HERE, as_json: AsJson = False) -> None:
    """End the annotation server that `start` has started; all that it holds is kept for the next start."""
    from ..annotation_routes import stop as run_stop

    print_or_json(run_stop(workspace, to), as_json)


def push(
    to: To,
    annotators: Annotators = "",
    workspace: WorkspaceDir = HERE,
    url: Url = None,
    token_env: TokenEnv = None,
    lang: Language = "en",
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Carry what is due to an annotation server. Pushed twice is pushed once; an interrupted push goes on."""
    from ..annotation_routes import Destination
    from ..annotation_routes import push as run_push

    where = Destination(to, url, token_env, lang)
    print_or_json(run_push(workspace, where, split_names(annotators), sets or ()), as_json)


def pull(
    to: To,
    workspace: WorkspaceDir = HERE,
    url: Url = None,
    token_env: TokenEnv = None,
    take_back: Annotated[
        bool, typer.Option("--take-back", help="Then take back what is not answered, so that another route gets it.")
    ] = False,
    sets: Sets = None,
    as_json: AsJson = False,
) -> None:
    """Bring answers home from an annotation server; each is checked, and those that cannot be used are listed."""
    from ..annotation_routes import Destination
    from ..annotation_routes import pull as run_pull

    where = Destination(to, url, token_env)
    print_or_json(run_pull(workspace, where, sets or (), take_back=take_back), as_json)


def print_or_json(found: dict[str, object], as_json: bool) -> None:
    """A route's result: lines for people, or JSON."""
    if as_json:
        print_json(found)
        return
    lines: list[str] = []
    for name, value in found.items():
        if isinstance(value, list):
            lines.append(f"{name}: {len(value)}")
            lines += [f"  {e['reason'] if isinstance(e, dict) and 'reason' in e else e}" for e in value]
        elif isinstance(value, dict):
            lines += [f"{name}: {key}  {entry}" for key, entry in value.items()]
        elif value not in (None, ""):
            lines.append(f"{name}: {value}")
    print_text("\n".join(lines))


def split_names(annotators: str) -> list[str]:
    """Names separated by commas. Raises UsageError for one that comes twice."""
    from ser_toolkit.errors import UsageError

    names = [n.strip() for n in annotators.split(",") if n.strip()]
    if len(set(names)) < len(names):
        raise UsageError(f"{annotators}: a name comes twice", "each person has a name of their own")
    return names
