"""What an annotator sees of a View on Argilla, and what is asked: fields, questions, and a record's values.

Every text is escaped, since Argilla's page takes fields for HTML and runs it; what would act or hide is shown
as `\\x1b`. The page sets messages right and left by turns, whoever speaks, so what one person says at a stretch is one
message; only a very long one is several, since Argilla takes 20,000 characters. Nothing is suggested: the page would
tick it.
"""

from __future__ import annotations

import base64
import json
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from annotation.guidelines import guidelines
from annotation.items import Photo, ShownTurn, View
from ser_toolkit.media.store import find_file
from ser_toolkit.schema import Lang
from ser_toolkit.visible import visible

if TYPE_CHECKING:
    from argilla import Settings

LONGEST_MESSAGE = 19_000
LONGEST_GUIDELINES = 10_000
DATASETS: dict[tuple[bool, Lang], str] = {
    (True, "en"): "steps and replies",
    (False, "en"): "steps alone",
    (True, "zh"): "步骤与回复",
    (False, "zh"): "仅步骤",
}
"""The name of a person's dataset by whether its items have a pair (what is asked differs), and by its language."""
KINDS = {name: kind for kind, name in DATASETS.items()}
WORDS = Path(__file__).parents[1] / "local" / "page" / "words.json"
"""The built-in page says the same things."""
OWN_WORDS: dict[str, tuple[str, str]] = {
    "care": ("Take care", "请留意"),
    "photo_field": ("Photo {number}", "照片 {number}"),
    "photo_not_shown": ("a photo that is not shown here", "一张未能在此显示的照片"),
    "titled": ("{step}: {about}", "{step}：{about}"),
    "reply_1": ("First reply", "第一个回复"),
    "reply_2": ("Second reply", "第二个回复"),
    "step_hint": ("False is also: mostly right, and wrong in a way that matters.", "大体正确、但错得要紧，也选“错”。"),
    "critique_of": ("Step {number}, if False: what is wrong?", "步骤 {number} 若为“错”：哪里不对？"),
    "critique_hint": ("A line is enough.", "一句话就够了。"),
    "skip_asked": ("Skip this item? Say why, then press Discard", "跳过这一条？请选择原因，再按 Discard"),
    "skip_hint": (
        "It goes to someone else. “It distresses me” is reason enough; nobody asks further.",
        "这一条会交给别人。“它让我难受”就是足够的理由，没有人会追问。",
    ),
}  # fmt: skip
MOST_PHOTOS = 8
"""A dataset's fields are set once; those without a picture are not shown. Of more pictures, the last ones are."""
LONGEST_PICTURE = 5_000_000
"""Characters of a data URL that Argilla takes."""


Pictures = dict[tuple[int, int], tuple[int, str]]
"""(turn, which of it) -> the number of its field (0: not shown), and the picture as an address."""


@cache
def words(lang: Lang) -> dict[str, str]:
    """What is said on the form, in this language."""
    page = json.loads(WORDS.read_text(encoding="utf-8"))
    return {key: pair[lang == "zh"] for key, pair in (page | OWN_WORDS).items()}


def settings(lang: Lang, has_pair: bool, overrides: Path) -> Settings:
    """The dataset for items with or without a pair of replies. `overrides`: the workspace's own guidelines."""
    import argilla as rg

    say = words(lang)
    text = guidelines(lang, overrides)
    steps = [rg.TextField(name=f"step_{n}", title=_step_title(say, n)) for n in (1, 2, 3)]
    replies = [rg.TextField(name=f"reply_{n}", title=say[f"reply_{n}"]) for n in (1, 2)]
    # Never a CustomField: Argilla writes the whole record, unescaped, into a script of that field's frame.
    photos = [
        rg.ImageField(name=f"photo_{n}", title=say["photo_field"].format(number=n), required=False)
        for n in range(1, MOST_PHOTOS + 1)
    ]
    return rg.Settings(
        guidelines=text if len(text) <= LONGEST_GUIDELINES else f"{text[: LONGEST_GUIDELINES - 2]} …",
        fields=[
            rg.TextField(name="care", title=say["care"], required=False),
            rg.ChatField(name="conversation", title=say["conversation"], use_markdown=False),
            *photos,
            *steps,
            *(replies if has_pair else ()),
        ],
        questions=_questions(say, has_pair),
        allow_extra_metadata=False,
        distribution=rg.TaskDistribution(min_submitted=1),
    )


def _questions(say: dict[str, str], has_pair: bool) -> list[Any]:
    import argilla as rg

    asked: list[Any] = []
    for n in (1, 2, 3):
        asked += [
            rg.LabelQuestion(
                name=f"step{n}", title=_step_title(say, n), description=say["step_hint"],
                labels={k: say[k] for k in ("true", "false")},
            ),
            rg.TextQuestion(
                name=f"critique{n}", title=say["critique_of"].format(number=n), required=False,
                description=say["critique_hint"],
            ),
        ]  # fmt: skip
    if has_pair:
        asked += [
            rg.LabelQuestion(
                name="verdict", title=say["replies_title"], description=say["replies_hint"],
                labels={k: say[k] for k in ("first_better", "second_better", "almost_equal", "neither")},
            ),
            rg.MultiLabelQuestion(
                name="reasons", title=say["reasons"], required=False,
                labels={k: say[k] for k in ("empathy", "fit", "safety", "natural", "helpful", "length")},
            ),
        ]  # fmt: skip
    return [
        *asked,
        rg.TextQuestion(name="comment", title=say["comment"], required=False),
        rg.LabelQuestion(
            name="skip", title=say["skip_asked"], required=False, description=say["skip_hint"],
            labels={k: say[f"skip_{k}"] for k in ("distress", "unclear", "language", "technical", "other")},
        ),
    ]  # fmt: skip


def _step_title(say: dict[str, str], number: int) -> str:
    return say["titled"].format(step=say["step"].format(number=number), about=say[f"step{number}"])


def names(has_pair: bool) -> tuple[set[str], set[str]]:
    """What its fields are called, and its questions."""
    steps = {f"{word}{n}" for word in ("step", "critique") for n in (1, 2, 3)}
    photos = {f"photo_{n}" for n in range(1, MOST_PHOTOS + 1)}
    shown = {"care", "conversation", "step_1", "step_2", "step_3"} | photos
    more = ({"reply_1", "reply_2"}, {"verdict", "reasons"}) if has_pair else (set(), set())
    return shown | more[0], steps | {"comment", "skip"} | more[1]


def fields(view: View, lang: Lang, media: Path) -> dict[str, Any]:
    """The values of a record that shows this view. `media`: the workspace's media folder."""
    say = words(lang)
    shown: dict[str, Any] = {"care": say[f"risk_{view.risk}"]} if view.risk else {}
    pictures = _pictures(view, media)
    shown["conversation"] = [
        {"role": say[speaker], "content": part}
        for speaker, turns in groupby(enumerate(view.history), key=_speaker)
        for part in _parts("\n\n".join(_turn(turn, at, say, pictures) for at, turn in turns))
    ]
    shown |= {f"photo_{n}": url for n, url in pictures.values() if url}
    shown |= {f"step_{step.number}": _plain(step.text) for step in view.steps}
    if view.replies:
        shown |= {f"reply_{n}": _plain(reply) for n, reply in enumerate(view.replies, 1)}
    return shown


def _speaker(numbered: tuple[int, ShownTurn]) -> str:
    return numbered[1].speaker


def _turn(turn: ShownTurn, at: int, say: dict[str, str], pictures: Pictures) -> str:
    """What was said, and under it, in brackets, what was seen and heard."""
    notes = [f"{say[cue.channel]}: {cue.text}" for cue in turn.cues]
    for number, _ in (pictures[key] for key in pictures if key[0] == at):
        notes.append(say["photo_field"].format(number=number) if number else say["photo_not_shown"])
    if turn.risk:
        notes.append(say["risk_turn"])
    return "\n".join([turn.text, *(f"[{note}]" for note in notes)])


def _parts(text: str) -> list[str]:
    """The text as one message, or as several that are numbered; no entity is cut."""
    left, pieces = _plain(text), []
    while len(left) > LONGEST_MESSAGE:
        start = left.rfind("&", LONGEST_MESSAGE - 5, LONGEST_MESSAGE)
        cut = start if start > 0 and ";" not in left[start:LONGEST_MESSAGE] else LONGEST_MESSAGE
        pieces.append(left[:cut])
        left = left[cut:]
    pieces.append(left)
    return pieces if len(pieces) < 2 else [f"({n}/{len(pieces)}) {piece}" for n, piece in enumerate(pieces, 1)]


def _plain(text: str) -> str:
    """The text, made to be shown as it is: Argilla's page takes every field for HTML, one without Markdown as well."""
    return escape(visible(text), quote=False)


def _pictures(view: View, media: Path) -> Pictures:
    found = {
        (at, n): _data_url(photo, media) for at, turn in enumerate(view.history) for n, photo in enumerate(turn.photos)
    }
    last = [key for key, url in found.items() if url][-MOST_PHOTOS:]
    return {key: (last.index(key) + 1, url) if key in last else (0, "") for key, url in found.items()}


def _data_url(photo: Photo, media: Path) -> str:
    """The picture within its address; "" for one that is not there, or too large for Argilla."""
    file = find_file(media, photo.sha256)
    url = f"data:{photo.media_type};base64,{base64.b64encode(file.read_bytes()).decode()}" if file else ""
    return url if len(url) <= LONGEST_PICTURE else ""
