"""Take in the files that a corpus names: what can be used is kept by its content, what cannot be is a Failure row.

The dialogue itself goes on: a medium that is not there, or cannot be used, has the status "no media". A path is looked
for beside the file that names it, then in the source's folder, and never outside that. Addresses are not fetched.
May import: ser_toolkit.
"""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TypeVar

from ser_toolkit.errors import RecordError
from ser_toolkit.media import FileType, MediaStore, read_inside, sniff, take_in
from ser_toolkit.media.sniffing import BY_SUFFIX, HEAD, TYPES
from ser_toolkit.protection.ids import protect_id, protect_name
from ser_toolkit.recipe import Media as Policy
from ser_toolkit.schema import Dialogue, Failure, Media

R = TypeVar("R")
STAGE = "media"


@dataclass(frozen=True, slots=True)
class MediaCounts:
    """What a corpus named: taken in by kind, not there, at an address, left alone (the recipe wants none), and how many
    of those taken in are of another type than their name says.
    """

    taken: Counter[str] = field(default_factory=Counter)
    absent: int = 0
    addresses: int = 0
    left: int = 0
    mislabelled: int = 0

    def __add__(self, other: MediaCounts) -> MediaCounts:
        return MediaCounts(
            self.taken + other.taken,
            self.absent + other.absent,
            self.addresses + other.addresses,
            self.left + other.left,
            self.mislabelled + other.mislabelled,
        )

    def notes(self) -> list[str]:
        """What a person should know of it."""
        found = (
            (self.absent, 'files that the sources name are not there: their media say "no media"'),
            (self.addresses, "media stand at addresses: they are not fetched; download them and name the files"),
            (self.mislabelled, "media are of another type than their names say: the content was believed"),
            (self.left, "media of the sources are left alone (media.faces, media.voices, media.key_frames)"),
        )
        return [f"{count} {what}" for count, what in found if count]


class MediaIntake:
    """Takes in the media of dialogues as they come; `named` once there were any, usable or not."""

    def __init__(self, store: MediaStore, policy: Policy, withdrawn: Collection[str]) -> None:
        self.counts = MediaCounts()
        self.named = False
        self._store = store
        self._policy = policy
        self._withdrawn = withdrawn

    def take(self, records: Iterable[R], folder: Path) -> Iterator[R | Dialogue | Failure]:
        """The records, their media in the store, and behind a dialogue its Failures. `folder` is the source's."""
        for record in records:
            if not isinstance(record, Dialogue) or protect_id(record.id) in self._withdrawn:
                yield record
                continue
            self.named = self.named or any(turn.media for turn in record.turns)
            dialogue, failures, counts = take_in_media(record, folder, self._store, self._policy)
            self.counts += counts
            yield dialogue
            yield from failures


def take_in_media(
    dialogue: Dialogue, folder: Path, store: MediaStore, policy: Policy
) -> tuple[Dialogue, list[Failure], MediaCounts]:
    """The dialogue with its media in the store, a Failure for each that cannot be used, and the counts.

    `folder` is the source's. No path, file name or content of the source is left in the record.
    """
    if not any(turn.media for turn in dialogue.turns):
        return dialogue, [], MediaCounts()
    failures: list[Failure] = []
    counts = MediaCounts()
    turns = []
    for place, turn in enumerate(dialogue.turns, 1):
        media: list[Media] = []
        flags = turn.flags
        for medium in turn.media:
            try:
                made, found = _one(medium, _places(dialogue), folder, store, policy)
            except RecordError as exc:
                made, found = (_gone(medium),), MediaCounts()
                failures.append(_failure(dialogue, place, medium, exc))
            if found.mislabelled:
                flags = (*flags, "media_mislabelled")
            media += made
            counts += found
        turns.append(turn.model_copy(update={"media": tuple(media), "flags": tuple(dict.fromkeys(flags))}))
    return dialogue.model_copy(update={"turns": tuple(turns)}), failures, counts


def _one(
    medium: Media, places: list[str], folder: Path, store: MediaStore, policy: Policy
) -> tuple[tuple[Media, ...], MediaCounts]:
    if medium.status != "referenced":
        return (medium,), MediaCounts()
    if not _is_wanted(medium, policy):
        return (Media(kind=medium.kind, url=_address(medium)),), MediaCounts(left=1)
    if address := _address(medium):
        return (Media(kind=medium.kind, url=address, status="no media"),), MediaCounts(addresses=1)
    data = _inline(medium.url) if medium.url else _read(medium.path or "", places, folder, policy)
    if data is None:
        return (_gone(medium),), MediaCounts(absent=1)
    made = take_in(data, medium.kind, store, policy)
    is_other = _stated_type(medium) not in (None, sniff(data[:HEAD]))
    return made, MediaCounts(Counter(m.kind for m in made), mislabelled=int(is_other))


def _is_wanted(medium: Media, policy: Policy) -> bool:
    if medium.kind == "audio":
        return policy.voices != "none"
    return policy.faces != "cues" and (medium.kind == "image" or policy.key_frames > 0)


def _places(dialogue: Dialogue) -> list[str]:
    """Where a relative path may count from: the file that names it, then the source's folder."""
    own = PurePosixPath(dialogue.source.file).parent.as_posix()
    return list(dict.fromkeys((own, ".")))


def _read(path: str, places: list[str], folder: Path, policy: Policy) -> bytes | None:
    for place in places:
        data = read_inside(folder, path if place == "." or path.startswith("/") else f"{place}/{path}", policy)
        if data is not None:
            return data
    return None


def _inline(url: str) -> bytes:
    try:
        return base64.b64decode(url.partition(",")[2], validate=True)
    except (binascii.Error, ValueError) as exc:
        raise RecordError("media", f"its data URL is no base64: {exc}") from exc


def _address(medium: Media) -> str | None:
    """Where a medium stands, without what may be a key to it (user, query); `None` for a data URL."""
    if not medium.url or medium.url.startswith("data:"):
        return None
    head, _, _ = medium.url.partition("?")
    scheme, _, rest = head.partition("#")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def _gone(medium: Media) -> Media:
    return Media(kind=medium.kind, status="no media")


def _stated_type(medium: Media) -> FileType | None:
    """The type that its name, or its data URL, says it has; `None` where it says none that we know."""
    if medium.path:
        return BY_SUFFIX.get(PurePosixPath(medium.path).suffix.lower())
    return next((t for t in TYPES if t.media_type == medium.media_type), None)


def _failure(dialogue: Dialogue, place: int, medium: Media, exc: RecordError) -> Failure:
    source = dialogue.source
    name = protect_name(medium.path) if medium.path else f"{medium.kind} in the record"
    return Failure(
        kind=exc.kind,
        stage=STAGE,
        reason=f"{name}: {exc.reason}"[:500],
        record_id=dialogue.id,
        source=source.format,
        file=source.file,
        position=", ".join(filter(None, (source.position, f"turn {place}"))),
        risk=dialogue.risk,
    )
