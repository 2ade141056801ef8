"""A folder of photos in subfolders that are called by their emotion: the faces of turns with that emotion.

Who is shown: of a file `PERSON_anything.jpg` the part before the first underscore. Where the names tell, a dialogue
keeps to one person who has a photo for each emotion that it needs; else each photo is drawn for itself. Draws hang on
the recipe's seed and the dialogue's id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ser_toolkit.errors import RecordError, UsageError
from ser_toolkit.media import MediaStore, read_inside, take_in
from ser_toolkit.media.sniffing import BY_SUFFIX
from ser_toolkit.recipe import Media as Policy
from ser_toolkit.schema import Failure, Media
from ser_toolkit.seeds import derive_seed
from ser_toolkit.taxonomy import EMOTIONS, ZH, LabelMap, fold, load_map

TRIES = 8
"""Photos that are tried for one turn, where some cannot be used."""


@dataclass
class PhotoFolder:
    """The photos by emotion, as names within `root`; `unknown` holds the subfolders that no emotion is known for."""

    root: Path
    by_emotion: Mapping[str, tuple[str, ...]]
    unknown: tuple[str, ...] = ()
    _taken: dict[str, Media | RecordError] = field(default_factory=dict)

    def draw(self, emotion: str, dialogue_id: str, place: int, needed: Collection[str], seed: int) -> Iterator[str]:
        """The photos to try for a turn with this emotion, in order, of one person for all `needed` emotions."""
        pool: tuple[str, ...] = self.by_emotion[emotion]
        people = self._people_with(frozenset(needed))
        if people:
            person = people[derive_seed(seed, dialogue_id, "person") % len(people)]
            pool = tuple(name for name in pool if person_of(name) == person)
        start = derive_seed(seed, dialogue_id, "face", place) % len(pool)
        for n in range(min(TRIES, len(pool))):
            yield pool[(start + n) % len(pool)]

    def take(self, name: str, store: MediaStore, policy: Policy) -> Media:
        """The photo, taken in. Raises RecordError("media"). Each is looked at once a run."""
        if name not in self._taken:
            try:
                data = read_inside(self.root, name, policy)
                if data is None:
                    raise RecordError("media", "it is no longer there")
                made = take_in(data, "image", store, policy, origin="photos", licence=policy.licence)
                self._taken[name] = made[0]
            except RecordError as exc:
                self._taken[name] = exc
        found = self._taken[name]
        if isinstance(found, RecordError):
            raise RecordError(found.kind, f"{name}: {found.reason}")
        return found

    def _people_with(self, emotions: frozenset[str]) -> tuple[str, ...]:
        """The people who have a photo for each of these emotions, sorted."""
        if emotions not in self._crowds:
            sets = [{p for name in self.by_emotion[e] if (p := person_of(name))} for e in emotions]
            self._crowds[emotions] = tuple(sorted(set.intersection(*sets))) if sets else ()
        return self._crowds[emotions]

    @cached_property
    def _crowds(self) -> dict[frozenset[str], tuple[str, ...]]:
        return {}


def open_photos(root: Path, maps: Path | None) -> PhotoFolder:
    """The photos below `root`. Raises UsageError where there are none, or no subfolder is called by an emotion.

    A subfolder is called by an SER emotion (English or Chinese) or by a word of `maps/photos.toml`, which a workspace
    may add to.
    """
    if not root.is_dir():
        raise UsageError(f"media.folder: {root}: no such folder", "it holds a subfolder of photos for each emotion")
    labels = load_map("photos", maps)
    found: dict[str, list[str]] = {}
    unknown: list[str] = []
    for folder in sorted(p for p in root.iterdir() if p.is_dir() and not p.name.startswith(".")):
        emotion = emotion_called(folder.name, labels)
        names = sorted(p.relative_to(root).as_posix() for p in folder.rglob("*") if _is_photo(p))
        if emotion is None:
            unknown.append(folder.name)
        elif names:
            found.setdefault(emotion, []).extend(names)
    if not found:
        raise UsageError(
            f"media.folder: {root}: no subfolder with photos is called by an emotion",
            f"call them {', '.join(EMOTIONS)}; others are mapped in maps/photos.toml"
            + (f"; found: {', '.join(unknown[:8])}" if unknown else ""),
        )
    return PhotoFolder(root, {e: tuple(names) for e, names in found.items()}, tuple(unknown))


def emotion_called(name: str, labels: LabelMap) -> str | None:
    """The SER emotion that a subfolder's name means; `None` where it means none."""
    word = fold(name)
    own = next((e for e in EMOTIONS if word in (e.casefold(), ZH[e])), None)
    label = labels.emotion(name)
    return own or (label.ser if label else None)


def person_of(name: str) -> str:
    """Who is shown, as the file's name tells; "" where it does not."""
    stem = Path(name).stem
    return stem.partition("_")[0] if "_" in stem else ""


def photo_failure(dialogue_id: str, place: int, exc: RecordError) -> Failure:
    """The row of a photo that cannot be used."""
    return Failure(
        kind=exc.kind,
        stage="faces",
        reason=f"photo {exc.reason}"[:500],
        record_id=dialogue_id,
        source="photos",
        file=exc.reason.partition(":")[0],
        position=f"turn {place}",
    )


def _is_photo(path: Path) -> bool:
    """By its ending: what it is will be seen when it is drawn."""
    type = BY_SUFFIX.get(path.suffix.lower())
    return type is not None and type.kind == "image" and not path.name.startswith(".")
