"""A model that answers in Chinese only, whatever it is asked, and whose answers hang on what was said last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

OPENINGS = (
    "听起来这阵子真不容易",
    "谢谢你愿意说出来",
    "一个人撑了这么久，辛苦了",
    "换作谁都会难受的",
    "我能感觉到你很在意这件事",
)
QUESTIONS = (
    "最让你放不下的是哪一件？",
    "这种感觉是从什么时候开始的？",
    "那一刻你心里在想什么？",
    "有谁知道你现在这样吗？",
)
TRACE = (
    "步骤1：对话历史分析\n求助者的核心困扰还没有说完，先停在探索阶段。\n\n步骤2：多模态情绪状态推断\n情感倾向：消极。强度：中等。情绪：焦虑、悲伤。\n\n"
    "步骤3：策略选择\n递进提问：先弄清楚最沉重的部分。\n\n步骤4：回复生成\n\\boxed{{{reply}}}"
)


def build(body: Mapping[str, Any]) -> str:
    """JSON under a schema (the verdict is yes, words are Chinese); else a whole trace."""
    digest = hashlib.sha256(json.dumps(body["messages"], sort_keys=True).encode()).digest()
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        properties = form["json_schema"]["schema"].get("properties", {})
        return json.dumps({name: _value(schema) for name, schema in properties.items()}, ensure_ascii=False)
    opening, question = OPENINGS[digest[0] % len(OPENINGS)], QUESTIONS[digest[1] % len(QUESTIONS)]
    return TRACE.format(reply=f"{opening}。{question}")


def _value(schema: Mapping[str, Any]) -> Any:
    kind = schema.get("type")
    if kind == "boolean":
        return True
    if kind == "array":
        return []
    return "像是真实的对话，前后连贯。"
