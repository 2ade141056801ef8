"""Prompts and traces of a release as a trainer reads them, and the scene that each prompt is about.

Photos belong to the last words, so they stand in the last user message. A history too long for the model is cut
at turn borders, the oldest first; never the instruction, the last words or the reply. What cannot be fitted is left out
and counted. May import: the ground; tokenizers and processors are handed in.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from ser_toolkit.errors import DataError
from ser_toolkit.llm.chat import Image
from ser_toolkit.media.sniffing import sniff
from ser_toolkit.releases.load import Release
from ser_toolkit.rewards.base import Scene
from ser_toolkit.schema import Turn
from ser_toolkit.training.plain_text import PlainText

if TYPE_CHECKING:
    import datasets

log = logging.getLogger(__name__)
Messages = list[dict[str, Any]]


def with_photos(messages: Sequence[Mapping[str, Any]], count: int) -> Messages:
    """The messages as blocks, with places for `count` photos before the text of the last user message."""
    last = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
    return [
        {
            "role": m["role"],
            "content": [*([{"type": "image"}] * count if i == last else []), {"type": "text", "text": m["content"]}],
        }
        for i, m in enumerate(messages)
    ]


class Measure:
    """Counts the tokens that a chat takes for one model, photos included, as training will see them."""

    def __init__(self, processing: Any, *, takes_photos: bool) -> None:
        self.takes_photos = takes_photos
        self._tokenizer = getattr(processing, "tokenizer", processing)
        self._processor = processing if processing is not self._tokenizer else None
        self.plain = PlainText(self._tokenizer)
        self._by_size: dict[tuple[int, int], int] = {}

    def prompt(self, messages: Sequence[Mapping[str, Any]], photos: Sequence[Any] = ()) -> int:
        """Tokens of a prompt with the opening of its answer."""
        chat = with_photos(messages, len(photos)) if self._processor else list(messages)
        renderer = self._processor or self._tokenizer
        text = renderer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        return self.text(text) + sum(self._photo(p) for p in photos)

    def text(self, text: str) -> int:
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _photo(self, photo: Any) -> int:
        """Tokens of a photo beyond its place holder; measured once a size, with the model's own processor."""
        if photo.size not in self._by_size:
            processor: Any = self._processor
            ids = processor(text=[processor.image_token], images=[[photo]], add_special_tokens=False)["input_ids"]
            self._by_size[photo.size] = len(ids[0]) - self.text(processor.image_token)
        return self._by_size[photo.size]


def cut_history(messages: Messages, fits: Callable[[Messages], bool]) -> Messages | None:
    """The messages with as much of the end of the history as fits; `None` where the last words alone do not.

    Cut before a user message, since a chat template wants one first; the instruction always stays.
    """
    if fits(messages):
        return messages
    frame = messages[:1] if messages and messages[0]["role"] == "system" else []
    starts = [i for i, m in enumerate(messages) if m["role"] == "user" and i > len(frame)]
    return next((cut for i in starts if fits(cut := [*frame, *messages[i:]])), None)


@dataclass(frozen=True, slots=True)
class Fitted:
    """Rows that fit a model. `dataset` has `prompt`, `row` (their place in `raw`), `completion` where asked for, and
    `images` where the model sees; `cut` rows lost early turns, `left_out` did not fit at all.
    """

    dataset: datasets.Dataset
    raw: datasets.Dataset
    cut: int = 0
    left_out: tuple[str, ...] = field(default=())

    def counts(self) -> dict[str, Any]:
        """What a run's record says of its rows."""
        told = {"used": len(self.dataset), "shortened": self.cut, "left_out": len(self.left_out)}
        return told | ({"first_left_out": list(self.left_out[:10])} if self.left_out else {})

    def scene(self, row: int) -> Scene:
        """The scene of a prompt: its whole history, whatever the policy could read of it."""
        return scene_of(self.raw[row])


def fit_rows(
    release: Release,
    config: str,
    measure: Measure,
    limit: int | None,
    *,
    split: str = "train",
    at_most: int | None = None,
    seed: int = 0,
) -> Fitted:
    """The rows of a release's config (`traces` or `prompts`) for one model; `limit` in tokens of prompt, and of prompt
    and completion where there is one. `at_most` rows, drawn by seed. Raises DataError where nothing is left.
    """
    found = release.dataset(config, text_only=not measure.takes_photos)[release_split(release, config, split)]
    if at_most is not None and at_most < len(found):
        found = found.shuffle(seed=seed).select(range(at_most))
    return fit_dataset(found, config, measure, limit)


def fit_dataset(found: datasets.Dataset, config: str, measure: Measure, limit: int | None) -> Fitted:
    """The same for rows that are at hand; `config` is what a message calls them."""
    import datasets

    raw = found
    if "images" in found.column_names:
        raw = found.cast_column("images", datasets.List(datasets.Image(decode=False)))
    has_completion = "completion" in found.column_names
    columns: dict[str, list[Any]] = {"prompt": [], "row": [], **({"completion": []} if has_completion else {})}
    left_out: list[str] = []
    shortened = 0
    for i, row in enumerate(cast(Iterable[dict[str, Any]], raw)):
        room = limit
        asked = measure.plain.messages(row["prompt"])
        answered = measure.plain.messages(row["completion"]) if has_completion else []
        if limit is not None and answered:
            room = limit - measure.text(answered[0]["content"]) - _END
        pictures = [open_photo(p["bytes"]) for p in row.get("images") or ()]
        cut = asked
        if room is not None:
            cut = cut_history(asked, lambda m, p=pictures, r=room: measure.prompt(m, p) <= r)
        if cut is None:
            left_out.append(row["id"])
            continue
        shortened += len(cut) < len(asked)
        columns["prompt"].append(cut)
        columns["row"].append(i)
        if has_completion:
            columns["completion"].append(answered)
    if not columns["row"]:
        raise DataError(f"no row of {config} fits {limit} tokens", "raise max_length, or take a model that reads more")
    if shortened or left_out:
        log.warning("%s: %d of %d rows lost early turns, %d do not fit", config, shortened, len(raw), len(left_out))
    dataset = datasets.Dataset.from_dict(columns)
    if "images" in found.column_names:
        photos = found.select(columns["row"]).select_columns(["images"]).flatten_indices()
        dataset = datasets.concatenate_datasets([dataset, photos], axis=1)
    return Fitted(dataset, raw, shortened, tuple(left_out))


_END = 4
"""Tokens left for what a chat template writes behind a completion."""


def release_split(release: Release, config: str, split: str) -> str:
    """`split`, where the release has it. Raises UsageError that says what it has."""
    return next(iter(release.files(config, split)))


def scene_of(row: Mapping[str, Any]) -> Scene:
    """The scene of a row of `prompts/`: the chat's turns, without the instruction and an opening that was added."""
    chat = [m for m in row["prompt"] if m["role"] != "system"][bool(row.get("opening_added")) :]
    images = tuple(
        Image(p["bytes"], kind.media_type if (kind := sniff(p["bytes"][:16])) else "image/png")
        for p in row.get("images") or ()
    )
    return Scene(
        id=row["id"],
        lang=row["lang"],
        turns=tuple(Turn(speaker="seeker" if m["role"] == "user" else "supporter", text=m["content"]) for m in chat),
        situation=row.get("scenario") or "",
        persona=row.get("persona") or "",
        reference=row.get("reference") or "",
        images=images,
    )


def open_photo(data: bytes) -> Any:
    """A PIL image of which only the head has been read."""
    from PIL import Image as Pillow

    return Pillow.open(io.BytesIO(data))
