"""`ser annotate serve`: the built-in page over the round of a workspace.

Little is imported here: a round that has begun is served from its ledger alone, and the first page comes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from annotation.local.serve import Links, serve
from ser_toolkit.errors import UsageError
from ser_toolkit.workspace import Workspace

if TYPE_CHECKING:
    from annotation.ledger import Ledger


def serve_round(
    workspace: Path,
    announce: Callable[[Links], None],
    *,
    annotators: Iterable[str] = (),
    overlap: int | None = None,
    host: str,
    port: int,
    url: str | None,
    revoke: Iterable[str] = (),
    sets: Iterable[str] = (),
) -> None:
    """Serve the round until interrupted; it begins where there is none, with these people.

    The links that those in `revoke` had are dead; their work is not touched, and they are announced with new ones.
    Raises UsageError for too few people or another `overlap` than the round has, DataError for a workspace without a
    finished build.
    """
    home = Workspace(workspace).must_exist()
    serve(
        home.root,
        lambda: _open(home, list(annotators), overlap, list(revoke), list(sets)),
        announce,
        host=host,
        port=port,
        url=url,
        then=_taking_in(home, list(sets)),
    )


def _open(home: Workspace, annotators: list[str], overlap: int | None, revoke: list[str], sets: list[str]) -> Ledger:
    from annotation.ledger import Ledger, ledger_path

    path = ledger_path(home.root)
    if path.exists() and path.stat().st_size:
        ledger = Ledger(path)
        ledger.add_annotators(annotators)
    else:
        from ser_toolkit.recipe import load_recipe

        from .annotating import open_round

        ledger = open_round(home, load_recipe(home.root, sets), annotators, overlap=overlap)
    try:
        _check(ledger, overlap)
        ledger.revoke_links(revoke)
    except UsageError:
        ledger.close()
        raise
    return ledger


def _check(ledger: Ledger, overlap: int | None) -> None:
    settings = ledger.state.settings
    if overlap not in (None, settings.overlap):
        raise UsageError(
            f"--overlap {overlap}: this round began with {settings.overlap}", "leave it out, or begin in another folder"
        )
    ledger.state.must_have_people()


def _taking_in(home: Workspace, sets: list[str]) -> Callable[[Ledger], None] | None:
    """What lets a later build's items join the round, once the page is up; `None` where there is no build."""
    if not (home.root / "tables" / "build.json").exists():
        return None

    def take_in(ledger: Ledger) -> None:
        from ser_toolkit.recipe import load_recipe

        from .annotating import open_round

        open_round(home, load_recipe(home.root, sets)).close()
        ledger.refresh()

    return take_in
