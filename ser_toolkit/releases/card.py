"""The dataset card: every figure in it comes from the manifest.

Names and reasons in it are others' words, so whatever the template prints is escaped for Markdown and HTML.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import yaml
from markupsafe import Markup

from .licences import hub_id
from .manifest import Manifest
from .rows import CONFIGS
from .splits import SPLITS

CARD = "README.md"

ABOUT = {
    "traces": "prompt and completion of a round, conversational: what SFT reads",
    "dialogues": "a conversation, with provenance per turn",
    "prompts": "a round without its answer: what RL reads",
    "steps": "the three steps of a round, each labelled",
    "preferences": "a decisive verdict on two replies",
    "judgements": "the four-round chat that a judge is trained on",
}

_SIZES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
)


def write_card(folder: Path, manifest: Manifest) -> None:
    (folder / CARD).write_text(render_card(manifest), encoding="utf-8")


def render_card(manifest: Manifest) -> str:
    """The whole README.md of a release."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=False,  # `finalize` escapes every printed value, for Markdown too
        finalize=_escape,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.globals["coefficient"] = _coefficient
    left_out = Counter(str(item["reason"]) for item in manifest["left_out"])
    rows = {c: {s: n.get(s) for s in SPLITS} for c, n in manifest["rows"].items()}
    return environment.get_template("card.md.jinja").render(
        header=Markup(_header(manifest)),
        m={**manifest, "rows": rows},
        configs=_configs(manifest),
        about=ABOUT,
        lineage=list(_lineage(manifest["lineage"])),
        left_out=left_out.most_common(),
    )


def _configs(manifest: Manifest) -> list[str]:
    return [name for name in CONFIGS if name in manifest["rows"]]


def _header(manifest: Manifest) -> str:
    """The YAML block that the Hub and `datasets` read.

    `datasets` finds what it has cached by the folder's name and this block alone: without the content hash in it,
    another release of the same name would be answered with the rows of the first.
    """
    configs = [
        {
            "config_name": name,
            "description": f"content {manifest['content_hash'][:16]}",
            **({"default": True} if i == 0 else {}),
            "data_files": [{"split": s, "path": f"{name}/{s}.parquet"} for s in SPLITS if s in manifest["rows"][name]],
        }
        for i, name in enumerate(_configs(manifest))
    ]
    licences = sorted({hub_id(s["licence"]) for s in (*manifest["sources"], *manifest.get("media", ()))})
    total = max(sum(n.values()) for n in manifest["rows"].values())
    header = {
        "pretty_name": f"{manifest['name']} {manifest['version']}",
        "language": list(manifest["languages"]),
        "license": licences[0] if len(licences) == 1 else licences,
        "task_categories": ["text-generation"],
        "size_categories": [next((name for limit, name in _SIZES if total < limit), "n>10M")],
        "tags": ["empathy", "emotional-support", "dialogue", "reasoning", "ser-toolkit"],
        "configs": configs,
    }
    return f"---\n{yaml.safe_dump(header, sort_keys=False, allow_unicode=True)}---\n"


def _lineage(lineage: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Models, prompts and packages as lists; the recipe stays in the manifest."""
    for key, title in (("models", "Models of the build"), ("prompts", "Prompts"), ("packages", "Packages")):
        value = lineage.get(key)
        entries = [f"{k}: {_short(v)}" for k, v in value.items()] if isinstance(value, dict) else value
        if isinstance(entries, list) and entries:
            yield title, [_short(e) for e in entries]


def _coefficient(found: dict[str, Any]) -> str:
    """ "0.69 (0.61 to 0.76)", or "undefined" with the reason."""
    if found["value"] is None:
        return f"undefined: {found['reason']}"
    if found["low"] is None:
        return f"{found['value']:.2f}"
    return f"{found['value']:.2f} ({found['low']:.2f} to {found['high']:.2f})"


def _short(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    return str(value)


def _escape(value: object) -> object:
    """Plain text as Markdown that shows it: one line, no markup, no HTML, no table cell broken."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    text = " ".join(value.split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#~$])", r"\\\1", text)
