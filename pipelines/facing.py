"""Faces and voices within a build: what the recipe asks for is opened, given, and summed up.

dialogues -> dialogues, the seeker's turns that are reasoned about with a photo by emotion, a made picture, a made voice
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ser_toolkit.errors import UsageError
from ser_toolkit.journal import Journal
from ser_toolkit.llm.journaled import JournaledChat
from ser_toolkit.media.store import MediaStore
from ser_toolkit.prompting import Prompts
from ser_toolkit.recipe import Recipe
from ser_toolkit.schema import Dialogue, Failure
from ser_toolkit.store import TableWriter, read_table
from ser_toolkit.workspace import Workspace

from .rewriting import RunStage
from .stages.faces import FaceGiver
from .stages.photos import PhotoFolder, open_photos
from .stages.protect import supporter_may_be_imitated

if TYPE_CHECKING:
    from ser_toolkit.media.making import Maker


@dataclass(frozen=True, slots=True)
class Given:
    """What giving faces and voices came to: notes for a person, calls of the makers, and what a release tells."""

    notes: tuple[str, ...] = ()
    calls: int = 0
    replayed: int = 0
    told: dict[str, Any] | None = None


def check_faces(home: Workspace, recipe: Recipe) -> None:
    """Raises UsageError where the recipe asks for faces or voices that cannot be had; before anything is paid for."""
    _photos(home, recipe)
    _makers(home, recipe)


async def give_faces(home: Workspace, recipe: Recipe, prompts: Prompts, journal: Journal, run: RunStage) -> Given:
    """Give the table `dialogues` the faces and voices that the recipe asks for. Raises UsageError, TooManyFailures."""
    photos = _photos(home, recipe)
    by_kind = {maker.kind: JournaledChat(maker, journal) for maker in _makers(home, recipe)}
    makers = by_kind.values()
    if photos is None and not makers:
        return Given()
    giver = FaceGiver(MediaStore(home.media), recipe, prompts, photos, by_kind.get("image"), by_kind.get("audio"))

    async def give(dialogue: Dialogue) -> list[Dialogue | Failure]:
        return await giver.give(dialogue) if supporter_may_be_imitated(dialogue, recipe.protect) else [dialogue]

    table = home.table("dialogues")  # its rows are read from the old file while the new one is written
    try:
        await run("faces", read_table(table, Dialogue), give, TableWriter(table, Dialogue))
    finally:
        for maker in makers:
            await maker.aclose()
    return Given(
        tuple(_notes(giver, photos)),
        sum(maker.calls for maker in makers),
        sum(maker.replayed for maker in makers),
        {
            "faces": recipe.media.faces,
            "voices": recipe.media.voices,
            "without": dict(sorted(giver.without.items())),
            "models": [maker.model for maker in makers],
        },
    )


def _photos(home: Workspace, recipe: Recipe) -> PhotoFolder | None:
    if recipe.media.faces != "folder":
        return None
    if not recipe.media.folder:
        raise UsageError("media.faces is folder, and media.folder names none", "--set media.folder=PATH")
    return open_photos(home.root / Path(recipe.media.folder), home.maps)


def _makers(home: Workspace, recipe: Recipe) -> list[Maker]:
    from ser_toolkit.media.making import FaceMaker, VoiceMaker

    store, policy = MediaStore(home.media), recipe.media
    made: list[Maker] = []
    if policy.faces == "generate":
        made.append(FaceMaker(store, policy))
    if policy.voices == "generate":
        made.append(VoiceMaker(store, policy))
    return made


def _notes(giver: FaceGiver, photos: PhotoFolder | None) -> Iterator[str]:
    for reason, count in sorted(giver.without.items()):
        yield f"{count} turns have no face: {reason}"
    if photos is not None and photos.unknown:
        yield f"subfolders of media.folder whose emotion is not known: {', '.join(photos.unknown)}"
