"""`ser sources`: every registered format in a table."""

from __future__ import annotations

from ser_toolkit.registry import load, names

from .base import SourceFormat


def formats() -> list[dict[str, object]]:
    """One row a format: name, title, what it yields, languages, licence, what PATH is expected to be."""
    return [
        {
            "format": f.name,
            "title": f.title,
            "yields": f.yields,
            "languages": list(f.languages),
            "licence": f.licence,
            "expects": f.expects,
        }
        for f in _all()
    ]


def render_formats() -> str:
    """The table, for people."""
    lines = [f"{'format':<10} {'yields':<10} {'lang':<6} {'licence':<16} what PATH is"]
    lines += [
        f"{f.name:<10} {f.yields:<10} {','.join(f.languages):<6} {f.licence:<16} {f.title}: {f.expects}" for f in _all()
    ]
    return "\n".join([*lines, "", "ser sources check FORMAT PATH   looks at a file before it is built from"])


def _all() -> list[SourceFormat]:
    return [load("sources", n) for n in names("sources")]
