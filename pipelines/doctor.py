"""`ser doctor`: what is installed, reachable and missing, with the command that mends it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from ser_toolkit.errors import SerError
from ser_toolkit.recipe import Llm, Recipe, load_recipe
from ser_toolkit.workspace import Workspace

OURS = ("ser_toolkit", "annotation", "pipelines", "rm_training", "rl_training")
PACKAGES = ("ser-toolkit", "polars", "pyarrow", "datasets", "openai", "pillow", "soundfile", "xllamacpp")
EXTRAS = {"video": ("cv2",), "vllm": ("vllm",)}
"""Extra -> the modules that it brings."""
ROOM_NEEDED_MB = 500


@dataclass(frozen=True, slots=True)
class Check:
    """One line: "ok", "missing" (an option that is not there) or "broken" (this stops a command)."""

    name: str
    state: Literal["ok", "missing", "broken"]
    what: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    checks: tuple[Check, ...]

    @property
    def exit_code(self) -> int:
        return 2 if any(c.state == "broken" for c in self.checks) else 0

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(c) for c in self.checks]

    def render(self) -> str:
        return "\n".join(
            f"{c.state:<8} {c.name:<14} {c.what}" + (f"\n{'':<24}-> {c.cure}" if c.cure else "") for c in self.checks
        )


def examine(workspace: Path) -> Report:
    """Look at everything that `ser build` in this workspace would need."""
    try:
        recipe = load_recipe(workspace)
        about_recipe = Check(
            "recipe",
            "ok",
            f"{workspace / 'ser.yaml'}" if (workspace / "ser.yaml").exists() else "none: all defaults",
        )
    except SerError as exc:
        recipe = Recipe()
        about_recipe = Check("recipe", "broken", exc.message, exc.hint)
    return Report(
        (
            Check("python", "ok", sys.version.split()[0]),
            *(_package(name) for name in PACKAGES),
            *_shadowed(),
            about_recipe,
            _disk(workspace),
            _model(recipe.llm),
            _media(workspace, recipe),
            *(_extra(name, modules) for name, modules in EXTRAS.items()),
        )
    )


def _package(name: str) -> Check:
    try:
        return Check(name, "ok", version(name))
    except PackageNotFoundError:
        return Check(name, "broken", "not installed", "pip install -e .")


def _shadowed() -> list[Check]:
    """Our five packages have common names: another distribution may stand before them on the path."""
    home = Path(__file__).resolve().parent.parent
    found = []
    for name in OURS:
        spec = find_spec(name)
        origin = Path(spec.origin).resolve() if spec and spec.origin else None
        if origin is None or home not in origin.parents:
            found.append(
                Check(
                    name,
                    "broken",
                    f"another package of this name comes first: {origin}",
                    f"pip uninstall {name}, or use a fresh venv",
                )
            )
    return found


def _disk(workspace: Path) -> Check:
    if workspace.exists() and not workspace.is_dir():
        return Check("workspace", "broken", f"{workspace}: a file, not a folder", "choose another folder with -w")
    folder = next(p for p in (workspace.resolve(), *workspace.resolve().parents) if p.exists())
    free = shutil.disk_usage(folder).free // 2**20
    if not os.access(folder, os.W_OK):
        return Check("workspace", "broken", f"{folder}: cannot be written to", "choose another folder with -w")
    if free < ROOM_NEEDED_MB:
        return Check("workspace", "broken", f"{free} MB free", f"free at least {ROOM_NEEDED_MB} MB")
    return Check("workspace", "ok", f"{free:,} MB free")


def _model(llm: Llm) -> Check:
    backend = llm.model.partition(":")[0]
    probes: dict[str, Callable[[Llm], Check]] = {"embedded": _embedded, "openai": _endpoint}
    return probes.get(backend, lambda _: Check("model", "ok", llm.model))(llm)


def _media(workspace: Path, recipe: Recipe) -> Check:
    """Where faces and voices come from, and whether that can be had."""
    from .facing import check_faces

    media = recipe.media
    try:
        check_faces(Workspace(workspace), recipe)
    except SerError as exc:
        return Check("media", "broken", exc.message, exc.hint)
    used = [("faces", media.faces, media.image), ("voices", media.voices, media.speech)]
    told = [f"{what}: {source}" for what, source, _ in used]
    unset = [m.api_key_env for _, source, m in used if source == "generate" and not os.environ.get(m.api_key_env)]
    told += [f"{name} is not set" for name in dict.fromkeys(unset)]
    return Check("media", "ok", "; ".join(told))


def _embedded(llm: Llm) -> Check:
    from ser_toolkit.llm.embedded_files import MODEL_FILE, cache_folder

    own = llm.model.partition(":")[2]
    if own:
        there = Path(own).is_file()
        return Check("model", "ok" if there else "broken", own, "" if there else "give the path of a GGUF file")
    file = cache_folder() / MODEL_FILE
    if not file.exists():
        return Check("model", "ok", "embedded: fetched at the first build (98 MB), then kept", "")
    return Check("model", "ok", f"embedded: {MODEL_FILE} in the cache")


def _endpoint(llm: Llm) -> Check:
    import asyncio

    from ser_toolkit.llm.open import open_model

    async def ask() -> None:
        chat = open_model(llm.model_copy(update={"check_model": True}))
        try:
            await chat.check()  # pyright: ignore[reportAttributeAccessIssue]  (this backend can be asked)
        finally:
            await chat.aclose()

    try:
        asyncio.run(ask())
    except SerError as exc:
        return Check("model", "broken", exc.message, exc.hint)
    note = "" if os.environ.get(llm.api_key_env) else f"; {llm.api_key_env} is not set"
    return Check("model", "ok", f"{llm.model} at {', '.join(llm.base_url)}{note}")


def _extra(name: str, modules: tuple[str, ...]) -> Check:
    absent = [m for m in modules if find_spec(m) is None]
    if absent:
        return Check(f"[{name}]", "missing", f"{', '.join(absent)} not installed", f"pip install 'ser-toolkit[{name}]'")
    return Check(f"[{name}]", "ok", "installed")
