"""The command `ser`: one Typer app, one place where errors become messages and exit codes.

At module level this room and `commands/` import typer and the standard library only: `ser --help` must start in
300 ms of CPU.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from importlib import import_module

import typer

from .commands.common import tell_error

INTERRUPTED = 130  # as ser_toolkit.errors has it, which is not imported before something is to be done

ROOMS = {
    "setup": ("init", "doctor"),
    "building": ("build",),
    "data": ("sources", "show", "withdraw"),
    "annotating": ("annotate",),
    "releasing": ("export", "diff", "push", "convert"),
    "policies": ("train-sft", "train-rl"),
    "training": ("train-rm",),
    "evaluating": ("eval", "report"),
    "chatting": ("chat",),
}
"""Each module of `commands/`, and the commands that it registers."""


def make_app(command: str = "") -> typer.Typer:
    """`ser` with the module of this command alone, which starts sooner; for any other word, with all."""
    app = typer.Typer(
        name="ser",
        help="Build, label and learn from structured empathetic reasoning (SER) data.",
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Every command takes --json (for machines; an error too is then an object on stdout) and --debug (shows "
        "the traceback of an error). "
        "Exit codes: 0 ok, 1 a fault of ours, 2 usage or recipe, 3 data or workspace, 4 a remote service, "
        "5 an annotation server, 6 a checkpoint, 7 too many failures, 130 interrupted.",
    )
    for room in [name for name, commands in ROOMS.items() if command in commands] or ROOMS:
        import_module(f"{__package__}.commands.{room}").register(app)
    app.callback()(_version)
    return app


def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and end.", is_eager=True),
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"ser {installed('ser-toolkit')}")
        raise typer.Exit


def main() -> None:
    """Run `ser`; end the process with the exit code of the contract."""
    argv = sys.argv[1:]
    debug = "--debug" in argv
    code = run([a for a in argv if a != "--debug"], debug=debug)
    if code == INTERRUPTED:  # at once: an interpreter that met Ctrl-C inside a C import kills itself by the signal
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(argv: list[str], *, debug: bool = False) -> int:
    """One command, with its exit code as the result: what went wrong is told on stderr."""
    as_json = "--json" in argv
    try:
        code = _run(argv, debug, as_json)
    except KeyboardInterrupt:
        code = INTERRUPTED
    if code == INTERRUPTED:
        tell_error(
            "interrupted",
            "what was paid for is kept; the same command goes on from there",
            code,
            as_json=as_json,
            kind="",
        )
    return code


def _run(argv: list[str], debug: bool, as_json: bool) -> int:
    from ser_toolkit.errors import SerError

    try:
        app = make_app(argv[0] if argv else "")
        return int(app(argv or ["--help"], standalone_mode=False, prog_name="ser") or 0)
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except typer.TyperException as exc:  # the command line itself is wrong
        context = getattr(exc, "ctx", None)
        command = context.command_path if context else "ser"
        from ser_toolkit.plain import plain_words

        place, colon, why = exc.format_message().partition(": ")
        return tell_error(f"{place}{colon}{plain_words(why)}", f"see {command} --help", exc.exit_code, as_json=as_json)
    except SerError as exc:
        if debug:
            traceback.print_exc()
        return tell_error(exc.message, exc.hint, exc.exit_code, as_json=as_json)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left; nothing more to say
        return 0
    except Exception as exc:
        if debug:
            raise
        return tell_error(
            f"{type(exc).__name__}: {exc}",
            "this is a fault of the toolkit; --debug shows where it arose",
            1,
            as_json=as_json,
            kind="fault",
        )
