"""The guidelines that annotators read, in both languages: Markdown, our own words. Routes show them as they are."""

from __future__ import annotations

from pathlib import Path

from ser_toolkit.schema import Lang


def guidelines(lang: Lang, overrides: Path | None = None) -> str:
    """The guidelines in Markdown; a workspace may lay its own `guidelines/<lang>.md` over them."""
    own = overrides / f"{lang}.md" if overrides else None
    file = own if own is not None and own.exists() else Path(__file__).with_name(f"{lang}.md")
    return file.read_text(encoding="utf-8")
