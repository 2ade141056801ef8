"""`ser`, also as `python -m pipelines`.

Ctrl-C is heard from here on: while the command line itself is still being imported there is nothing to finish, and the
process ends at once, without a traceback.
"""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Run `ser`; end the process with the exit code of the contract."""
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where a shell told us to ignore it
    if is_heard:
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from .cli import main as run

    if is_heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
