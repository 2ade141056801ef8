"""verifiers: the prompts as a taskset, a small package that its command line finds by name once it is installed.

Tasks carry the corpus' own reply as `answer`, which the judges that come with verifiers read. A reward is the user's:
none is made up here.
"""

from __future__ import annotations

from pathlib import Path

from .base import Example, Part, Row, Target, resource
from .convert import Conversion


def _prompt(example: Example) -> Row:
    needs = example.needs
    return {"prompt": _parts(example), "answer": needs.pop("reference"), "info": {**needs, **example.identity}}


def _parts(example: Example) -> list[Row]:
    """The messages; where there are pictures, the last one in parts."""
    *before, last = example.prompt
    if not example.pictures:
        return example.prompt
    shown = [{"type": "image_url", "image_url": {"url": p.url}} for p in example.pictures]
    return [*before, {**last, "content": [*shown, {"type": "text", "text": last["content"]}]}]


def _finish(folder: Path, done: Conversion) -> None:
    """The package around the rows: PACKAGE/__init__.py, its data beside it, and a pyproject.toml."""
    package = _package(done)
    (folder / "prompts").rename(folder / package)
    done.files = {name.replace("prompts/", f"{package}/", 1): entry for name, entry in done.files.items()}
    source = resource("verifiers_taskset.txt")
    (folder / package / "__init__.py").write_text(source, encoding="utf-8")
    (folder / "pyproject.toml").write_text(
        "[build-system]\n"
        'requires = ["hatchling>=1.25"]\n'
        'build-backend = "hatchling.build"\n\n'
        "[project]\n"
        f'name = "{package.replace("_", "-")}"\n'
        f'version = "{done.release.manifest["version"]}"\n'
        'description = "Rounds of emotional support, as a taskset"\n'
        'requires-python = ">=3.11"\n'
        'dependencies = ["verifiers>=0.4"]\n\n'
        "[tool.hatch.build.targets.wheel]\n"
        f'packages = ["{package}"]\n',
        encoding="utf-8",
    )


def _package(done: Conversion) -> str:
    return f"{done.slug}_tasks"


def _usage(done: Conversion) -> str:
    return resource("verifiers.md").format(folder=done.path, package=_package(done).replace("_", "-"))


TARGET = Target(
    name="verifiers",
    title="verifiers",
    demands_turns=False,
    parts={"prompts": Part("prompts", _prompt, pictures="inside")},
    unread={
        "traces": "verifiers makes environments: it reads prompts alone",
        "preferences": "verifiers makes environments: it reads prompts alone",
    },
    usage=_usage,
    finish=_finish,
)
