"""Both speakers of a played scenario, an inventor of scenarios, and a judge, derived from the request alone.

`good` keeps to its part; `wild` falls out of it now and then, in every way that people report of models: it takes the
other's part, repeats its opening or the other, glues its stop marker to real words, says goodbye in circles, speaks in
stock phrases, tells the same story as before, breaks its JSON. What it says is new at every seed.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.servers.ser_replies import build as judge_or_trace

EN = """
brother evening kitchen letter winter garden teacher station promise doctor sister argue forget borrow listen gather
answer wonder bicycle curtain narrow lantern sudden wooden careful orange again always barely outside yesterday although
until perhaps somewhere pocket corner ticket blanket morning sugar paper silence marble harvest
"""
ZH = "早晨窗外雨声厨房灯光信件哥哥老师车站约定花园冬天口袋门口纸条毯子糖果自行车走廊沉默石头收成答案借口忘记等待"
QUESTION = {"en": "Do you think I should call her?", "zh": "你觉得我该给她打电话吗？"}
"""A seeker's genuine question: no change of role."""
SAME = {"en": "Since the move I cannot sleep at night.", "zh": "搬家以后我夜里一直睡不着。"}
FLIP = {"en": "How can I help you today?", "zh": "有什么可以帮到你的吗？"}
BYE = {"en": "Thank you, goodbye!", "zh": "谢谢你，再见！"}
SEEKS = {"en": "Thank you for listening to me.", "zh": "谢谢你听我说。"}
STOCK = {
    "en": "I'm so sorry to hear this. Your feelings are valid, and I'm here for you.",
    "zh": "我能理解你的感受，你并不孤单，一切都会好起来的。",
}
FACES = {"en": ("eyes down", "a short smile", "pale"), "zh": ("低着头", "勉强一笑", "脸色发白")}


def good(body: Mapping[str, Any]) -> str:
    """Every part played as it should be."""
    return _reply(body, wild=False)


def wild(body: Mapping[str, Any]) -> str:
    """The same, out of part in about a fifth of the lines."""
    return _reply(body, wild=True)


def broken(body: Mapping[str, Any]) -> str:
    """Always out of part: every supporter speaks in stock phrases."""
    asked = _asked(body)
    reply = _reply(body, wild=False)
    return json.dumps({**json.loads(reply), "reply": STOCK[_lang(body)]}) if "reply" in asked else reply


def _asked(body: Mapping[str, Any]) -> dict[str, Any]:
    form = body.get("response_format") or {}
    return form["json_schema"]["schema"].get("properties", {}) if form.get("type") == "json_schema" else {}


def _lang(body: Mapping[str, Any]) -> str:
    return "zh" if re.search(r"[\u4e00-\u9fff]{4}", str(body["messages"][0]["content"])) else "en"


def _reply(body: Mapping[str, Any], *, wild: bool) -> str:
    asked, lang = _asked(body), _lang(body)
    draw = random.Random(json.dumps([body["messages"], body.get("seed")], sort_keys=True))
    system = str(body["messages"][0]["content"])
    if "exchanges" in asked:
        return _whole(body, asked, draw, lang, wild)
    if "reply" in asked:
        return _planned(body, asked, draw, lang, wild)
    if "face" in asked:
        state = {"face": draw.choice(FACES[lang]), "voice": ""}
        return json.dumps({**state, **({"feeling": draw.randint(20, 60)} if "feeling" in asked else {})})
    if "situation" in asked:
        story = SAME[lang] if wild and draw.random() < 0.15 else said(draw, lang, 14)
        told = {n: draw.choice(s["enum"]) if "enum" in s else said(draw, lang, 6) for n, s in asked.items()}
        return json.dumps({**told, "situation": story})
    if "You are not the supporter" in system or "你不是支持者" in system:
        return _seeker(body, draw, lang, wild)
    return judge_or_trace(body)


def said(draw: random.Random, lang: str, words: int = 9) -> str:
    """A sentence that no other draw says."""
    if lang == "zh":
        return "".join(draw.choices(ZH, k=2 * words)) + "。"
    return " ".join(draw.choices(EN.split(), k=words)).capitalize() + "."


def _seeker(body: Mapping[str, Any], draw: random.Random, lang: str, wild: bool) -> str:
    mine = [m["content"] for m in body["messages"] if m["role"] == "assistant"]
    line = said(draw, lang)
    if draw.random() < 0.1 and mine:
        line += " " + QUESTION[lang]
    if not wild:
        return line
    if not mine:
        return SAME[lang] if draw.random() < 0.15 else line
    return draw.choices(
        (line, FLIP[lang], mine[0], f"{line}[END]", "[END]", BYE[lang], f"{line} " * 3),
        (80, 4, 4, 4, 2, 4, 2),
    )[0]


def _planned(body: Mapping[str, Any], asked: Mapping[str, Any], draw: random.Random, lang: str, wild: bool) -> str:
    heard = str(body["messages"][-1]["content"]).partition(" [")[0]
    line = said(draw, lang)
    name = {"en": "Seeker: ", "zh": "求助者："}[lang]
    bad = (SEEKS[lang], heard, STOCK[lang], f"{line} {name}{line}", f"{line} [END]")
    reply = draw.choices((line, *bad), (75, 4, 5, 8, 4, 4))[0] if wild else line
    answer = json.dumps({"strategy": draw.choice(asked["strategy"]["enum"]), "reply": reply})
    return answer[: len(answer) // 2] if wild and draw.random() < 0.03 else answer


def _whole(body: Mapping[str, Any], asked: Mapping[str, Any], draw: random.Random, lang: str, wild: bool) -> str:
    item = asked["exchanges"]
    strategies = item["items"]["properties"].get("strategy", {}).get("enum")
    if wild and draw.random() < 0.15:
        draw = random.Random(draw.randint(0, 2))  # one of three stories that it always tells
    exchanges = []
    for n in range(item["minItems"]):
        one = {"seeker": said(draw, lang), "face": draw.choice(FACES[lang]), "voice": "", "feeling": 20 + 5 * n}
        if strategies:
            one["strategy"] = draw.choice(strategies)
        exchanges.append({**one, "supporter": said(draw, lang)})
    if wild:
        first, last = exchanges[0], exchanges[-1]
        spoilt = (last, "seeker", FLIP[lang]), (last, "seeker", first["seeker"]), (first, "supporter", STOCK[lang])
        spoilt = (*spoilt, (first, "supporter", SEEKS[lang]), (last, "seeker", f"{last['seeker']}[END]"))
        if draw.random() < 0.3:
            one, part, line = draw.choice(spoilt)
            one[part] = line
    return json.dumps({"exchanges": exchanges})
