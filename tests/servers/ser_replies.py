"""What a good model would answer to the prompts of a build, derived from the request alone, in its language."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

EN = (
    "Step 1. Conversation History Analysis\nThe person has carried this alone; exploration comes first.\n\n"
    "Step 2. Multimodal Emotional State Inference\nSentiment: Negative. Intensity: Moderate. "
    "Emotions: Anxiety, Shame.\n\n"
    "Step 3. Strategy Selection\nProgressive Questioning: what weighs most is not yet clear.\n\n"
    "Step 4. Response Generation\n\\boxed{{That is a lot to carry alone. What worries you most? {mark}}}"
)
ZH = (
    "步骤1：对话历史分析\n对方独自承受了很久，先探索。\n\n步骤2：多模态情绪状态推断\n情感倾向：消极。强度：中等。情绪：焦虑、羞愧。\n\n"
    "步骤3：策略选择\n递进提问：还不清楚最沉重的是什么。\n\n步骤4：回复生成\n\\boxed{{一个人扛着真不容易。你最担心的是什么？{mark}}}"
)


def mark_of(messages: Any) -> str:
    """A mark that depends on all that was sent."""
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:16]


def build(body: Mapping[str, Any]) -> str:
    """JSON under a schema (a filter's verdict is yes); else a whole trace whose reply holds the request's mark."""
    mark = mark_of(body["messages"])
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        properties = form["json_schema"]["schema"].get("properties", {})
        return json.dumps({name: _value(name, schema, mark) for name, schema in properties.items()})
    said = str(body["messages"][-1]["content"])
    return (ZH if len(re.findall(r"[\u4e00-\u9fff]", said)) > len(said) / 4 else EN).format(mark=mark)


def _value(name: str, schema: Mapping[str, Any], mark: str) -> Any:
    if name == "verdict":
        return True
    if "enum" in schema:
        return schema["enum"][int(mark, 16) % len(schema["enum"])]
    if schema.get("type") == "array":
        return [_value("", schema["items"], mark)] if schema.get("minItems") else []
    if schema.get("type") == "boolean":
        return False
    return f"It has been a long week and I hardly sleep. {mark}"
