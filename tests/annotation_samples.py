"""Items to annotate, written by hand: English and Chinese, with cues, a photo and a crisis; and rounds made of them."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from annotation.items import Item, item_of
from annotation.ledger import Ledger, ledger_path
from annotation.rounds import RoundSettings
from ser_toolkit.schema import Cue, Dialogue, Lang, Media, Risk, RiskLevel, Source, Step, Trace, Turn

TALKS: list[tuple[Lang, str, str, str, str, str, str, str, str]] = [
    (
        "en",
        "We moved here in spring, for my husband's work. I still have nobody to call on a Sunday.",
        "That is a long time to be without your own people. What are Sundays like now?",
        "Quiet. I cook too much, then I sit by the window and pretend that I like the quiet.",
        "The seeker moved for her husband's work and is lonely; the talk is still finding out what the days are like.",
        "Negative, moderate: sadness, with some shame in \"pretend\". The lowered eyes fit the words.",
        "Restate what she said, so that the pretending may stop for a moment, and leave room to go on.",
        "Pretending for a whole afternoon sounds tiring. What would you cook if somebody were coming?",
        "You should join a club. There are many clubs where people find friends.",
    ),
    (
        "en",
        "They gave my shifts to the new colleague. Eleven years, and I read it on a list.",
        "No word before? That must have felt like being crossed out.",
        "Exactly that. I nodded when he explained it, and in the car I could not start the engine.",
        "Work: shifts were taken away without a word. The stage is reassurance.",
        "Negative, intense: anger held back, and hurt.",
        "Give information about labour law, since he asks for his rights.",
        "Eleven years, and then a list. You held it together until the car; no wonder that it came there.",
        "That sounds hard. I am sure that it will get better soon.",
    ),
    (
        "en",
        "My daughter does not want to see me at weekends any more.",
        "I am sorry. Has something happened between you?",
        "I forgot to fetch her. Once. I was two hours late and she stood in the rain.",
        "A father let his daughter wait, and she draws back. Exploration.",
        "Negative, intense: guilt and fear of losing her.",
        "Affirm that the guilt shows how much she matters, then ask what he told her afterwards.",
        "Those two hours weigh a lot because she does. What could you tell her, that evening?",
        "Children forget. Buy her something nice.",
    ),
    (
        "zh",
        "考研又没过，我已经第二次了。",
        "第二次，一定很难受。家里人知道了吗？",
        "还没说。我妈昨天还在跟邻居说我肯定能上。",
        "求助者第二次考研失败，不敢告诉家人，处在探索阶段。",
        "消极，中等强度：羞愧、焦虑。",
        "先共情她夹在期待与结果之间的处境，再慢慢了解。",
        "夹在妈妈的骄傲和这个结果中间，话就更难开口了。你最怕她说什么？",
        "别难过，明年再考就好了。",
    ),
    (
        "zh",
        "合租的室友总是带人回来，半夜很吵。",
        "睡不好，白天也跟着累吧？",
        "我说过一次，她笑着说我太敏感了。之后我就不敢再提。",
        "合租矛盾：提过一次被否定，之后回避。",
        "消极，轻微：委屈。",
        "建议直接搬走。",
        "被说“太敏感”之后，再开口就更难了。你心里希望她怎么回应？",
        "你可以和她沟通一下。",
    ),
    (
        "en",
        "The clinic says it is benign. Everybody is relieved, and I cannot sleep.",
        "Your body may still be waiting for the bad call.",
        "I listen to the phone all night. It does not ring, and I listen.",
        "A good result after weeks of fear; she is still on guard. Reassurance.",
        "Negative, moderate: anxiety that outlives its cause.",
        "Map the feeling: name the fear that stayed when its reason went.",
        "So the danger has gone and the guard has not been told. What are the nights like around three?",
        "You got good news, so try to be happy about it!",
    ),
]  # fmt: skip


def item(number: int, *, photo: str | None = None, risk: RiskLevel | None = None) -> Item:
    """The `number`-th item: one of the talks, told apart from its siblings by its id alone."""
    lang, seeker, supporter, last, one, two, three, reply, reference = TALKS[number % len(TALKS)]
    media = (Media(kind="image", path="x", sha256=photo, media_type="image/png", status="ok"),) if photo else ()
    cues = (
        Cue(
            channel="face",
            text="looks down, small smile" if lang == "en" else "低头，勉强笑了笑",
            source="model:seer-9",
        ),
    )
    marked = Risk(level=risk, category="self_harm", start=0, end=4) if risk else None
    turns = (
        Turn(speaker="seeker", text=seeker, origin="corpus"),
        Turn(speaker="supporter", text=supporter, origin="model:parrot-7b"),
        Turn(speaker="seeker", text=last, cues=cues, media=media, risk=marked),
        Turn(speaker="supporter", text=reference),
    )
    return made_of(turns, (one, two, three), reply, reference, number, lang)


def made_of(
    turns: tuple[Turn, ...], steps: tuple[str, str, str], reply: str, reference: str, number: int, lang: Lang = "en"
) -> Item:
    """An item by the way of a dialogue and a trace, as a build makes it. The last turn is the one answered."""
    source = Source(format="messages", licence="CC0-1.0")
    dialogue = Dialogue(id=f"talk-{number}", root_id=f"talk-{number}", lang=lang, source=source, turns=turns)
    titles = ("Conversation history", "Emotional state", "Strategy")
    one, two, three = (Step(number=n, title=titles[n - 1], text=steps[n - 1]) for n in (1, 2, 3))
    trace = Trace(
        id=f"talk-{number}-r1", dialogue_id=dialogue.id, root_id=dialogue.id, lang=lang, round=1, target=len(turns) - 1,
        steps=(one, two, three), reply=reply, reference=reference, model="parrot-7b", strategy="Content Restatement",
    )  # fmt: skip
    return item_of(dialogue, trace)


def items(count: int) -> list[Item]:
    return [item(n) for n in range(count)]


def begin(
    workspace: Path,
    what: Iterable[Item],
    annotators: Sequence[str] = ("ann", "bo", "cy"),
    *,
    overlap: int = 2,
    lease_s: float = 1800.0,
) -> Ledger:
    """A round of these items in a workspace."""
    settings = RoundSettings(overlap=overlap, check_every=0, lease_s=lease_s)
    ledger = Ledger(ledger_path(workspace), settings)
    ledger.add_items(what)
    ledger.add_annotators(annotators)
    return ledger


def photo(workspace: Path, shade: int = 120) -> str:
    """A face as round as can be, in the workspace's media folder; its hash."""
    side = 320
    rows = b"".join(b"\0" + b"".join(_pixel(x, y, side, shade) for x in range(side)) for y in range(side))
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )
    sha256 = hashlib.sha256(data).hexdigest()
    file = workspace / "media" / sha256[:2] / f"{sha256}.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return sha256


def _pixel(x: int, y: int, side: int, shade: int) -> bytes:
    u, v = 2 * x / side - 1, 2 * y / side - 1
    if any((u - a) ** 2 + (v + 0.15) ** 2 < 0.006 for a in (-0.25, 0.25)) or (abs(v - 0.34) < 0.03 and abs(u) < 0.22):
        return b"\x4a\x3b\x36"
    if u * u / 0.42 + v * v / 0.6 < 1:
        return b"\xe2\xbf\xa6"
    return bytes((shade + int(40 * v), shade + 30, shade + 20))
