"""What people see in Label Studio: the labelling configuration of a project, and a view as the data of a task.

Every text goes as HTML of ours (Label Studio shows a `HyperText` as HTML), escaped, and with escapes for what acts or
hides (`ser_toolkit.visible`). The words and the keys are those of the built-in page. A `Choice` carries our own word as
its alias, so the language of a project is nobody's business on the way back.
"""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import get_args
from xml.sax.saxutils import quoteattr

from annotation.items import Photo, Reason, ShownTurn, SkipReason, View
from ser_toolkit.errors import DataError
from ser_toolkit.media.store import find_file
from ser_toolkit.schema import Lang
from ser_toolkit.verdicts import Shown
from ser_toolkit.visible import visible

WORDS = Path(__file__).parents[1] / "local" / "page" / "words.json"
STYLE = Path(__file__).with_name("layout.css")
VIEW, SEAL = "ser_view", "ser_seal"
"""The keys of a task's data under which our own name of it and its seal travel; neither is shown."""
PHOTO_SIDE = 512
"""Pixels of the longer side: a photo travels inside its task."""
STEP_KEYS = (("1", "q"), ("2", "w"), ("3", "e"))
VERDICT_KEYS: Mapping[Shown, str] = {"first_better": "7", "second_better": "8", "almost_equal": "9", "neither": "0"}
REASON_KEYS: Mapping[Reason, str] = dict(zip(get_args(Reason), "zxcvbn", strict=True))
SKIPS: tuple[SkipReason, ...] = ("distress", "unclear", "language", "technical", "other")


@cache
def words(lang: Lang) -> dict[str, str]:
    """The page's words in a language."""
    table: dict[str, list[str]] = json.loads(WORDS.read_text(encoding="utf-8"))
    return {name: pair[lang == "zh"] for name, pair in table.items()}


# -- the configuration -----------------------------------------------------------------------------------------------


def config(lang: Lang, has_pair: bool) -> str:
    """The labelling configuration of a project: the conversation beside the three steps and the two replies."""
    say = words(lang)
    steps = "\n".join(_step(number, say) for number in (1, 2, 3))
    skips = {reason: (say[f"skip_{reason}"], "j" if reason == "distress" else "") for reason in SKIPS}
    return f"""<View className="ser">
<Style>{STYLE.read_text(encoding="utf-8")}</Style>
<View className="ser-grid">
<View className="ser-talk">{_head(say["conversation"])}{_text("talk")}</View>
<View className="ser-work"><View className="ser-ask">
{_head(say["steps_title"])}
{steps}
{_replies(say) if has_pair else ""}
{_typed("comment", "talk", say["comment"])}
</View>
<View className="ser-skip">{_head(_skip_hint(lang))}
{_choices("skip", "talk", skips, is_needed=False)}</View>
</View>
</View>
</View>"""


def _step(number: int, say: Mapping[str, str]) -> str:
    name, (yes, no) = f"step{number}", STEP_KEYS[number - 1]
    return f"""<View className="ser-step">
{_head(f"{number} · {say[name]}")}{_text(f"text{number}")}
{_choices(name, f"text{number}", {"True": (say["true"], yes), "False": (say["false"], no)})}
<View visibleWhen="choice-selected" whenTagName="{name}" whenChoiceValue={_attr("False")}>
{_typed(f"critique{number}", f"text{number}", say["critique"])}</View>
</View>"""


def _replies(say: Mapping[str, str]) -> str:
    reasons = {r: (say[r], key) for r, key in REASON_KEYS.items()}
    return f"""{_head(say["replies_title"])}
<View className="ser-pair">
<View className="ser-reply">{_head(say["first"])}{_text("reply1")}</View>
<View className="ser-reply">{_head(say["second"])}{_text("reply2")}</View>
</View>
{_choices("verdict", "reply1", {v: (say[v], key) for v, key in VERDICT_KEYS.items()})}
<View className="ser-why">{_head(say["reasons"])}
{_choices("reasons", "reply1", reasons, is_single=False, is_needed=False)}</View>"""


def _choices(
    name: str, about: str, options: Mapping[str, tuple[str, str]], *, is_single: bool = True, is_needed: bool = True
) -> str:
    """Buttons: our word -> (what people read, the key)."""
    inner = "".join(
        f"<Choice alias={_attr(ours)} value={_attr(shown)}{f' hotkey={_attr(key)}' if key else ''}/>"
        for ours, (shown, key) in options.items()
    )
    kind = "single-radio" if is_single else "multiple"
    needed = ' required="true"' if is_needed else ""
    return f'<Choices name="{name}" toName="{about}" choice="{kind}" showInline="true"{needed}>{inner}</Choices>'


def _head(text: str) -> str:
    return f'<Header size="6" value={_attr(text)}/>'


def _typed(name: str, about: str, hint: str) -> str:
    """A field for a line or more; without a button of its own what is typed counts as it stands."""
    kind = 'rows="1" maxSubmissions="1" editable="true" showSubmitButton="false"'
    return f'<TextArea name="{name}" toName="{about}" {kind} placeholder={_attr(hint)}/>'


def _text(name: str) -> str:
    return f'<HyperText name="{name}" value="${name}" valueType="text" inline="true" saveTextResult="no"/>'


def _skip_hint(lang: Lang) -> str:
    if lang == "zh":
        return "不想判断这一条？选择原因，然后按“跳过”（Ctrl+空格）"
    return "Rather not judge this? Say why, then press Skip (Ctrl+Space)"


def _attr(text: str) -> str:
    return quoteattr(text)


# -- a task ----------------------------------------------------------------------------------------------------------


def task_data(view: View, media: Path) -> dict[str, str]:
    """What a task holds of a view, texts as HTML, photos inside it. Raises DataError for a photo that is gone."""
    say = words(view.lang)
    data = {VIEW: view.id, "talk": _talk(view, media, say)}
    data |= {f"text{s.number}": _block(s.text) for s in view.steps}
    if view.replies is not None:
        data |= {f"reply{n}": _block(text) for n, text in enumerate(view.replies, 1)}
    return data


def _talk(view: View, media: Path, say: Mapping[str, str]) -> str:
    last = len(view.history)
    turns = "".join(_turn(t, n, media, say, is_last=n == last) for n, t in enumerate(view.history, 1))
    if view.risk is None:
        return f'<div class="ser-turns">{turns}</div>'
    warning = f'<p class="ser-risk">{html.escape(say[f"risk_{view.risk}"])}</p>'
    show = html.escape(f"{say['veil_title']}: {say['veil_show']}")
    return f'{warning}<details class="ser-veil"><summary>{show}</summary><div class="ser-turns">{turns}</div></details>'


def _turn(turn: ShownTurn, number: int, media: Path, say: Mapping[str, str], *, is_last: bool) -> str:
    mark = f' · <b class="ser-risk-turn">{html.escape(say["risk_turn"])}</b>' if turn.risk else ""
    photos = "".join(_photo(p, media, say["photo"].format(number=number)) for p in turn.photos)
    cues = "".join(
        f'<div class="ser-cue"><i>{html.escape(say[c.channel])}</i> {_escaped(c.text)}</div>' for c in turn.cues
    )
    name = f"ser-turn ser-{turn.speaker}{' ser-last' if is_last else ''}"
    who = html.escape(say[turn.speaker])
    return f'<div class="{name}"><div class="ser-who">{who}{mark}</div>{photos}{_block(turn.text)}{cues}</div>'


def _photo(photo: Photo, media: Path, label: str) -> str:
    file = find_file(media, photo.sha256)
    if file is None:
        raise DataError(f"{media}: the photo {photo.sha256[:12]}… is gone", "run `ser build` again to take it in")
    from PIL import Image, ImageOps

    try:
        with Image.open(file) as opened:
            picture = ImageOps.exif_transpose(opened).convert("RGB")
    except (OSError, ValueError) as exc:
        raise DataError(f"{file}: the photo cannot be read: {exc}", "run `ser build` again to take it in") from exc
    picture.thumbnail((PHOTO_SIDE, PHOTO_SIDE))
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=85)
    body = base64.b64encode(out.getvalue()).decode("ascii")
    # Label Studio strips the source of an image, but for that of a background.
    style = f"aspect-ratio:{picture.width}/{picture.height};background-image:url(data:image/jpeg;base64,{body})"
    return f'<div class="ser-photo" role="img" aria-label="{html.escape(label)}" style="{style}"></div>'


def _block(text: str) -> str:
    return f'<div class="ser-text">{_escaped(text)}</div>'


def _escaped(text: str) -> str:
    return html.escape(visible(text)).replace("\n", "<br>")
