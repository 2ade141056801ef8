"""The model card of a judge: what it learnt from, how, what it is for and what not. Every figure is of run.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import yaml

CARD = "README.md"
_ASKED = {
    "unified": "in one chat of four rounds whether three reasoning steps are sound, then which of two replies wins",
    "prm": "in one turn whether each of three reasoning steps is sound",
    "orm": "in one turn which of two replies is better",
}


def write_model_card(folder: Path, record: Mapping[str, Any], base: str) -> None:
    """README.md of a saved judge, from its run's record."""
    (folder / CARD).write_text(render_model_card(record, base, is_adapter=folder.name == "adapter"), encoding="utf-8")


def render_model_card(record: Mapping[str, Any], base: str, *, is_adapter: bool = False) -> str:
    """The whole card."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=False,  # `finalize` makes every printed value plain
        finalize=lambda value: _plain(value) if isinstance(value, str) else value,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    told, result = record["told"], record["result"]
    settings = told["settings"]
    release = told["release"]
    text = environment.get_template("card.md.jinja").render(
        title=f"Judge ({told['kind']}) on {release['name']} {release['version']}",
        what=_ASKED[told["kind"]],
        base=base,
        told=told,
        data=record["data"],
        machinery_only=record["data"]["machinery_only"],
        failures=len(record.get("failures", ())),
        method=_method(settings),
        loss=_number(result["loss"]),
        eval_loss=_number(result["eval_loss"]),
        versions=", ".join(f"{k} {v}" for k, v in record["versions"].items()),
    )
    return _header(base, is_adapter) + text


def _method(settings: Mapping[str, Any]) -> str:
    how = f"LoRA r {settings['lora_r']}, alpha {settings['lora_alpha']}" if settings["lora"] else "all weights"
    orders = "both orders of the replies" if settings["position_swap"] else "one order of the replies"
    return f"{how}; cross-entropy on the judged tokens; {orders}; False weighs {settings['false_weight']}"


def _header(base: str, is_adapter: bool) -> str:
    facts: dict[str, Any] = {
        "library_name": "peft" if is_adapter else "transformers",
        "tags": ["reward-model", "llm-as-a-judge", "empathy", "emotional-support", "ser-toolkit"],
    }
    if re.fullmatch(r"[\w.-]+/[\w.-]+", base):
        facts["base_model"] = base
    return f"---\n{yaml.safe_dump(facts, sort_keys=False)}---\n"


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.4f}"


def _plain(text: str) -> str:
    """One line that Markdown shows as it is."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*\[\]|#~$])", r"\\\1", text)
