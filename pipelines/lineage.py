"""What a build was made of, kept in the workspace until the next build starts, and then in each release's manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ser_toolkit.errors import DataError
from ser_toolkit.llm.journaled import JournaledChat
from ser_toolkit.protection.ids import protect_name
from ser_toolkit.recipe import Recipe, SourceSpec
from ser_toolkit.store import write_json
from ser_toolkit.workspace import Workspace, writing

from .sources.base import SourceFormat

PACKAGES = ("ser-toolkit", "openai", "pyreqwest", "xllamacpp", "vllm", "pyarrow", "polars", "datasets", "pillow")


def lineage_of(
    recipe: Recipe,
    specs: Sequence[SourceSpec],
    formats: Mapping[str, SourceFormat],
    chat: JournaledChat,
    protection: Mapping[str, Mapping[str, int]],
) -> dict[str, Any]:
    """The recipe as resolved, sources with licences, the model, package versions; no path, address or key."""
    tree = recipe.model_dump(mode="json")
    tree["sources"] = [_named(s, recipe) for s in specs]
    tree.pop("evaluate")  # how a model is tried later says nothing of this release
    _hide(tree)
    tree["llm"]["model"] = _spec_name(recipe.llm.model)
    tree["rewrite"]["embed"] = recipe.rewrite.embed and _spec_name(recipe.rewrite.embed)
    tree["synthesize"]["stock_phrases"] = {k: Path(v).name for k, v in recipe.synthesize.stock_phrases.items()}
    tree["media"]["folder"] = recipe.media.folder and Path(recipe.media.folder).name
    return {
        "recipe": tree,
        "sources": [
            {
                **s.model_dump(mode="json", exclude={"path"}, exclude_defaults=True),
                "file": _shown(s, recipe),
                "licence": s.licence or formats[s.format].licence,
            }
            for s in specs
        ],
        "models": [{"model": chat.model, "endpoint": recipe.llm.identity or _anonymous(chat.identity)}],
        "protection": protection,
        "packages": {p: v for p in PACKAGES if (v := installed(p))},
    }


def save_build(home: Workspace, lineage: Mapping[str, Any]) -> None:
    """Say that the tables belong together, and what they were made of."""
    write_json(_file(home), lineage)


def forget_build(home: Workspace) -> None:
    """The tables are about to change: nothing may be exported from them until the build is through."""
    with writing(home.root):
        _file(home).unlink(missing_ok=True)


def load_build(home: Workspace) -> dict[str, Any]:
    """What `save_build` kept. Raises DataError where no build is complete."""
    try:
        return json.loads(_file(home).read_text(encoding="utf-8"))
    except FileNotFoundError as exc:
        raise DataError(f"{home.root}: no finished build is here", "run `ser build` in it first") from exc
    except (ValueError, OSError) as exc:
        raise DataError(
            f"{_file(home)}: cannot be read: {exc}", "run `ser build` again: it replays without new calls"
        ) from exc


def _file(home: Workspace) -> Path:
    return home.root / "tables" / "build.json"


def _shown(spec: SourceSpec, recipe: Recipe) -> str:
    """The name of its file or folder, which may hold somebody's too."""
    name = Path(spec.path).name
    return protect_name(name) if recipe.protect.enabled else name


def _named(spec: SourceSpec, recipe: Recipe) -> dict[str, Any]:
    """A source as the recipe has it, its path cut down to a name: a folder's place is this machine's own."""
    return {**spec.model_dump(mode="json", exclude_defaults=True), "path": _shown(spec, recipe)}


def _anonymous(identity: str) -> str:
    """An address says nothing to a reader of a release, and may be private: its hash tells two apart."""
    return f"endpoint-{hashlib.sha256(identity.encode()).hexdigest()[:8]}" if "://" in identity else identity


def _spec_name(spec: str) -> str:
    backend, colon, rest = spec.partition(":")
    return f"{backend}:{Path(rest).name}" if backend in ("embedded", "local") and colon else spec


def _hide(tree: Any) -> None:
    """Take the keys that tell of a machine or a network out of all sections."""
    if isinstance(tree, dict):
        for key in ("base_url", "identity", "api_key_env"):
            tree.pop(key, None)
        for part in tree.values():
            _hide(part)


def installed(package: str) -> str | None:
    """A package's version, None where it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
