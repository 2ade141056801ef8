"""The command `ser`: one Typer app, one place where errors become messages and exit codes.

At module level this room and `commands/` import typer and the standard library only: `ser --help` must start in
300 ms of CPU.
"""

from __future__ import annotations

import os
import sys
import traceback

import typer

from .commands import building, data, releasing, setup

app = typer.Typer(
    name="ser",
    help="Build, label and learn from structured empathetic reasoning (SER) data.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Every command takes --json, for machines, and --debug, for the traceback of a fault. "
    "Exit codes: 0 ok, 1 a fault of ours, 2 usage or recipe, 3 data or workspace, 4 a remote service, "
    "7 too many failures, 130 interrupted.",
)
for room in (setup, building, data, releasing):
    room.register(app)


@app.callback()
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
    sys.exit(run([a for a in argv if a != "--debug"], debug=debug))


def run(argv: list[str], *, debug: bool = False) -> int:
    """One command, with its exit code as the result: what went wrong is told on stderr."""
    from ser_toolkit.errors import INTERRUPTED, SerError

    try:
        return int(app(argv, standalone_mode=True, prog_name="ser") or 0)
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
        if code == INTERRUPTED:  # typer turns Ctrl-C into this exit
            _tell("interrupted: what was paid for is kept; the same command goes on from there")
        return code
    except SerError as exc:
        if debug:
            traceback.print_exc()
        _tell(f"error: {exc.message}", exc.hint)
        return exc.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left; nothing more to say
        return 0
    except Exception as exc:
        if debug:
            raise
        _tell(
            f"fault: {type(exc).__name__}: {exc}",
            "this is a fault of the toolkit; --debug shows where it arose",
        )
        return 1


def _tell(message: str, hint: str = "") -> None:
    print(message, file=sys.stderr)
    if hint:
        print(f"  {hint}", file=sys.stderr)
