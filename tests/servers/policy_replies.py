"""Policy, seeker and judge of an evaluation in one model, derived from the request alone.

The model's name says how it behaves: "kind" answers in four parts and lifts the seeker by 14, "cold" answers in one
word and lowers it by 12, "plain" answers plainly, "silent" says nothing from its second reply on, "dumb" nothing ever,
"mute" is a judge without an answer, "helper" a seeker that falls out of its role; any other name is a policy in four
parts. What a seeker says, and a judge scores, hangs on the talk alone.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping
from typing import Any

KIND = "That is a lot to carry alone"
TRACE = (
    "Step 1. Conversation History Analysis\nThe person has carried this alone; exploration comes first.\n\n"
    "Step 2. Multimodal Emotional State Inference\nSentiment: Negative. Intensity: Moderate. Emotions: Anxiety.\n\n"
    "Step 3. Strategy Selection\nProgressive Questioning: what weighs most is not yet clear.\n\n"
    "Step 4. Response Generation\n\\boxed{{{reply}}}"
)
WORDS = (
    *("brother", "evening", "kitchen", "letter", "winter", "garden", "teacher"),
    *("station", "promise", "doctor", "sister", "argue", "forget", "borrow"),
)


def reply(body: Mapping[str, Any]) -> str:
    """What the model called `body["model"]` answers."""
    model, messages = body["model"], body["messages"]
    said = "\n".join(str(m["content"]) for m in messages)
    draw = random.Random(hashlib.sha256(said.encode()).hexdigest())
    form = body.get("response_format") or {}
    properties = form["json_schema"]["schema"]["properties"] if form.get("type") == "json_schema" else None
    if properties is not None:
        return "no idea" if model == "mute" else json.dumps(answer(properties, said, draw))
    if str(messages[0]["content"]).startswith(("You are a person with a problem", "你是一个有烦恼的人")):
        return "How can I help you today?" if model == "helper" else line(said, draw)
    return policy(model, messages, draw)


def answer(properties: Mapping[str, Any], said: str, draw: random.Random) -> dict[str, Any]:
    if "feeling" in properties:
        before = int(re.findall(r"(?:stood at|之前是) (\d+)", said)[-1])
        last = re.findall(r"(?:Supporter: |支持者：)(.*)", said)[-1]
        return {"thought": "hm", "feeling": max(0, min(100, before + (14 if KIND in last else -12)))}
    made: dict[str, Any] = {"reason": "It holds."}
    for name, schema in properties.items():
        if schema.get("type") == "integer":
            made[name] = schema["maximum"] - (0 if KIND in said else 2) - draw.randint(0, 1)
    return made


def line(said: str, draw: random.Random) -> str:
    zh = "求助者" in said or "你是一个有烦恼的人" in said
    words = " ".join(draw.sample(WORDS, 6))
    return f"我还是睡不着，想到{words}。" if zh else f"I keep thinking of the {words}."


def policy(model: str, messages: Any, draw: random.Random) -> str:
    asked = sum(m["role"] == "user" for m in messages)
    if model == "dumb" or (model == "silent" and asked > 1):
        return ""
    if model == "cold":
        return "Ok."
    words = " ".join(draw.sample(WORDS, 4))
    text = f"{KIND}. What about the {words}?"
    return text if model == "plain" else TRACE.format(reply=text)
