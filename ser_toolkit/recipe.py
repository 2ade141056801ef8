"""ser.yaml -> Recipe: everything that a build may be told, with its defaults.

Precedence: defaults < ser.yaml < `--set key=value` < flags. A wrong key or value is a UsageError that names
the file and line (or the `--set`). Secrets never stand here: the recipe names the environment variable
that holds one. Where a default is a paper's, the field says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError, field_validator

from .errors import UsageError
from .plain import plain_error
from .recipe_section import Section
from .recipe_synthesis import Synthesize

RECIPE_FILE = "ser.yaml"


class Prices(Section):
    """US dollars per million tokens, for the cost total."""

    prompt: float = Field(default=0.0, ge=0)
    completion: float = Field(default=0.0, ge=0)


class Endpoint(Section):
    """An OpenAI-compatible server, and how to call it."""

    base_url: tuple[str, ...] = Field(default=(), description="OpenAI-compatible base URLs, balanced by load")
    identity: str | None = Field(default=None, description="the endpoint's name in the journal's keys")
    api_key_env: str = Field(default="OPENAI_API_KEY", description="the environment variable that holds the key")
    concurrency: int = Field(default=4, ge=1, le=4096, description="calls under way at once")
    timeout_s: float = Field(default=180.0, gt=0, description="seconds for one whole reply")
    max_retries: int = Field(default=6, ge=0, description="tries after the first, for 429, 5xx, time-outs, cut bodies")

    @field_validator("base_url", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("base_url")
    @classmethod
    def _without_secrets(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any("@" in url.rpartition("://")[2].partition("/")[0] for url in value):
            raise ValueError("no password in an address: put the key into the variable that api_key_env names")
        return value


class Llm(Endpoint):
    """The model that judges, reasons and plays the seeker."""

    model: str = Field(default="embedded", description="embedded[:PATH.gguf], openai:MODEL or vllm:MODEL")
    concurrency: int = Field(default=32, ge=1, le=4096, description="calls under way at once (embedded: its slots)")
    temperature: float = Field(default=0.7, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(default=1024, ge=1, description="completion limit of one call, tokens")
    context_tokens: int | None = Field(default=None, ge=256, description="prompt + completion, if it must be told")
    vision: Literal["auto", "true", "false"] = Field(default="auto", description="whether images may be sent")
    check_model: bool = Field(default=True, description="ask the server, before a build, whether it serves the model")
    prices: Prices | None = None

    @property
    def is_builtin(self) -> bool:
        """Whether it is the small bundled model, which tests the machinery and is asked for less at a time."""
        return self.model.strip() == "embedded"

    @field_validator("vision", mode="before")
    @classmethod
    def _yaml_bool(cls, value: Any) -> Any:
        return str(value).lower() if isinstance(value, bool) else value

    def over(self, base: Llm) -> Llm:
        """`base` with what is set here in its place."""
        return base.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})


class Evaluate(Section):
    """Whom `ser eval policy` and `ser chat` ask. What a model leaves unset is as in `llm`."""

    policy: Llm = Field(default=Llm(), description="the model that is evaluated, e.g. its base_url and max_tokens")
    seeker: Llm = Field(default=Llm(), description="the model that plays the seeker")
    judges: tuple[Llm, ...] = Field(default=(), description="the models that score, averaged; none: that of llm")
    rounds: int | None = Field(default=None, ge=1, description="exchanges at most; unset: as the suite has it")
    start_feeling: int = Field(default=30, ge=0, le=100, description="where a tracked seeker begins (RLVER)")
    resamples: int = Field(default=10_000, ge=100, description="bootstrap resamples behind an interval")


class SourceSpec(Section):
    """One input: a format, a path, and how to read it."""

    format: str
    path: str = ""
    limit: int | None = Field(default=None, ge=1, description="records to take, at most")
    licence: str | None = Field(default=None, description="overrides the licence that the format's corpus is known by")
    lang: Literal["en", "zh"] | None = Field(default=None, description="default: told from the text")
    columns: dict[str, str] = Field(
        default_factory=dict, description="our field -> the file's column (generic formats)"
    )
    roles: dict[str, Literal["seeker", "supporter"]] = Field(default_factory=dict, description="speaker labels")
    neighbours: Literal["keep", "merge"] = Field(default="keep", description="neighbouring turns of one speaker")
    role_tags: Literal["quarantine", "split"] = Field(default="quarantine", description="role tags inside a turn")
    encoding: str | None = Field(default=None, description="the file's encoding, where it is not UTF-8")
    repair_text: bool = Field(default=True, description="mend mis-decoded punctuation; the raw text is kept")


class Filter(Section):
    """The three checks of a judge on each dialogue (PEER section 3)."""

    enabled: bool = True
    enforce: bool | None = Field(default=None, description="drop what fails; unset: yes, but no for the embedded model")


class Sample(Section):
    """Sparse Gaussian sampling of rounds (PEER section 3)."""

    rounds: int = Field(default=3, ge=1, description="N_s, rounds drawn per dialogue (the paper leaves it open)")
    keep: Literal["target", "history"] = Field(
        default="target", description="drawn rounds are the targets, or also the only history kept"
    )


class Reason(Section):
    """Writing the four-part trace."""

    parts: Literal["auto", "whole", "each"] = Field(
        default="auto", description="one call for all four parts, or a call each; auto: each on the embedded model"
    )


class Rewrite(Section):
    """Rewriting by personality (PEER section 3): the same conversation between people of another make."""

    enabled: bool = Field(default=False, description="beside each dialogue a rewritten one: a call a turn, four more")
    personality: bool = Field(default=True, description="false: the paper's ablation, reworded without a personality")
    k_range: tuple[int, int] = Field(
        default=(2, 10), description="numbers of clusters that the elbow chooses from (the paper leaves them open)"
    )
    enforce: bool | None = Field(
        default=None, description="drop a rewrite that its judge rejects; unset: yes, but no for the embedded model"
    )
    quality: bool = Field(default=True, description="score each rewrite 0-3 on four dimensions, one call each")
    embed: str | None = Field(
        default=None, description="openai:MODEL or local[:MODEL]: what descriptions say counts beside their scores"
    )
    embed_server: Endpoint = Field(default=Endpoint(), description="where openai:MODEL is; no base_url: as llm")

    @field_validator("k_range")
    @classmethod
    def _ascending(cls, value: tuple[int, int]) -> tuple[int, int]:
        if not 1 <= value[0] <= value[1] <= 100:
            raise ValueError("the least and the greatest number of clusters, from 1 to 100")
        return value


class Split(Section):
    """Shares of train, validation and test (of root ids, by stable hash)."""

    ratios: tuple[float, float, float] = (0.8, 0.1, 0.1)

    @field_validator("ratios")
    @classmethod
    def _sum_to_one(cls, value: tuple[float, float, float]) -> tuple[float, float, float]:
        if min(value) < 0 or abs(sum(value) - 1) > 1e-9:
            raise ValueError("three shares, none negative, that sum to 1")
        return value


class Protect(Section):
    """What is private is replaced before anything else; crisis content is marked."""

    enabled: bool = True
    imitate_crisis: bool = Field(default=False, description="supporters' replies in a crisis are learnt from, too")
    locale: str | None = Field(
        default=None, description="whose helplines a reply may name, as en-US or CN; unset: none"
    )


class Annotate(Section):
    """People, or LLM judges, label steps and replies."""

    overlap: int = Field(default=2, ge=1, le=9, description="annotators an item; one more where they disagree (PEER)")
    check_every: int = Field(
        default=10, ge=0, description="about every so many tasks a gold or a repeated item; 0: never"
    )
    lease_minutes: float = Field(default=30.0, gt=0, description="how long an item on a screen stays reserved")
    gold: str | None = Field(default=None, description="a JSON Lines file of traces whose right labels are known")
    sources: tuple[Literal["person", "llm"], ...] = Field(
        default=("person",), min_length=1, description="whose labels a release may use: [person], [llm] or both"
    )

    @field_validator("sources", mode="before")
    @classmethod
    def _one_source(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("sources")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(s for s in ("person", "llm") if s in value)


class ImageMaker(Endpoint):
    """An image endpoint (/images/generations), for `media.faces: generate`."""

    model: str = Field(default="gpt-image-1", description="the image model's name")
    size: str = Field(default="1024x1024", pattern=r"^\d+x\d+$", description="pixels, as the model offers them")
    licence: str = Field(default="unknown", description="what its terms give the pictures that it makes, as an SPDX id")


class SpeechMaker(Endpoint):
    """A speech endpoint (/audio/speech), for `media.voices: generate`."""

    model: str = Field(default="gpt-4o-mini-tts", description="the speech model's name")
    voice: str = Field(default="alloy", description="one of the model's voices")
    licence: str = Field(default="unknown", description="what its terms give the sounds that it makes, as an SPDX id")


class Media(Section):
    """The seeker's face and voice: where they come from, and what is taken in of them."""

    faces: Literal["files", "folder", "generate", "cues"] = Field(
        default="files",
        description="pictures that the corpus names; beside them photos by emotion, or made ones; or words alone",
    )
    voices: Literal["files", "generate", "none"] = Field(
        default="files", description="sounds that the corpus names; beside them made ones; or none"
    )
    folder: str | None = Field(default=None, description="photos in subfolders that are called by their emotion")
    licence: str = Field(default="unknown", description="the photos' licence, as an SPDX id")
    key_frames: int = Field(default=1, ge=0, le=16, description="pictures out of a video; 0: videos are left alone")
    max_file_mb: float = Field(default=64.0, gt=0, le=1024, description="a larger file is a failure")
    max_megapixels: float = Field(default=40.0, gt=0, le=400, description="a larger picture is a failure, not decoded")
    max_side: int = Field(default=1024, ge=16, description="longer side that a picture is scaled down to, pixels")
    max_seconds: float = Field(default=600.0, gt=0, description="a longer sound or video is a failure")
    image: ImageMaker = ImageMaker()
    speech: SpeechMaker = SpeechMaker()

    @field_validator("voices", mode="before")
    @classmethod
    def _yaml_none(cls, value: Any) -> Any:
        return "none" if value is None or value is False else value


class Failures(Section):
    """How much may fail."""

    max_share: float = Field(
        default=0.1, ge=0, le=1, description="share of records that may fail before the run ends with code 7"
    )


class Recipe(Section):
    """All of ser.yaml."""

    name: str = Field(default="ser", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="the release's name")
    seed: int = Field(default=0, ge=0)
    sources: tuple[SourceSpec, ...] = ()
    llm: Llm = Llm()
    filter: Filter = Filter()
    sample: Sample = Sample()
    synthesize: Synthesize = Synthesize()
    reason: Reason = Reason()
    rewrite: Rewrite = Rewrite()
    split: Split = Split()
    protect: Protect = Protect()
    media: Media = Media()
    annotate: Annotate = Annotate()
    evaluate: Evaluate = Evaluate()
    failures: Failures = Failures()


def load_recipe(workspace: Path, sets: Iterable[str] = (), flags: Mapping[str, Any] | None = None) -> Recipe:
    """The recipe of a workspace. A missing ser.yaml means all defaults. Raises UsageError.

    `sets` are "key.path=value" with the value in YAML; `flags` dotted keys to values already parsed.
    """
    file = workspace / RECIPE_FILE
    text = ""
    if file.exists():
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as exc:
            raise UsageError(f"{file}: cannot be read: {exc}", "save it as UTF-8 text") from exc
    tree, lines = _parse_yaml(text, file)
    origin: dict[tuple[str, ...], str] = {}
    for item in sets:
        key, eq, value = item.partition("=")
        if not eq or not key.strip():
            raise UsageError(f"--set {item}: not of the form key=value", "for example --set llm.temperature=0.3")
        try:
            parsed = yaml.safe_load(value)
        except yaml.YAMLError as exc:
            raise UsageError(f"--set {item}: the value is not YAML", "quote it: --set 'key=\"value\"'") from exc
        _put(tree, tuple(key.strip().split(".")), parsed, f"--set {item}")
        origin[tuple(key.strip().split("."))] = f"--set {item}"
    for key, value in (flags or {}).items():
        _put(tree, tuple(key.split(".")), value, key)
        origin[tuple(key.split("."))] = f"the flag for {key}"
    try:
        return Recipe.model_validate(tree)
    except ValidationError as exc:
        raise UsageError(*_explain(exc, file, lines, origin)) from exc


def _parse_yaml(text: str, file: Path) -> tuple[dict[str, Any], dict[tuple[str, ...], int]]:
    """The tree, and for each key path its line (from 1)."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        tree = yaml.safe_load(text)
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        where = f"{file}, line {mark.line + 1}" if mark else str(file)
        raise UsageError(f"{where}: not valid YAML: {getattr(exc, 'problem', exc)}", "mend that line") from exc
    if tree is None:
        return {}, {}
    if not isinstance(tree, dict):
        raise UsageError(
            f"{file}, line 1: a recipe is a mapping of keys to values",
            "`ser init DIR` writes one to start from",
        )
    lines: dict[tuple[str, ...], int] = {}

    def walk(n: yaml.Node, path: tuple[str, ...]) -> None:
        lines[path] = n.start_mark.line + 1
        if isinstance(n, yaml.MappingNode):
            for k, v in n.value:
                walk(v, (*path, str(k.value)))
                lines[(*path, str(k.value))] = k.start_mark.line + 1
        elif isinstance(n, yaml.SequenceNode):
            for i, v in enumerate(n.value):
                walk(v, (*path, str(i)))

    if node is not None:
        walk(node, ())
    return tree, lines


def _put(tree: dict[str, Any], path: tuple[str, ...], value: Any, name: str) -> None:
    for part in path[:-1]:
        child = tree.setdefault(part, {})
        if child is None:
            child = tree[part] = {}
        if not isinstance(child, dict):
            raise UsageError(f"{name}: {part!r} is not a section", "see the commented ser.yaml of `ser init`")
        tree = child
    tree[path[-1]] = value


def _explain(
    exc: ValidationError, file: Path, lines: dict[tuple[str, ...], int], origin: dict[tuple[str, ...], str]
) -> tuple[str, str]:
    error = exc.errors()[0]
    path = tuple(str(p) for p in error["loc"])
    where = str(file)
    for end in range(len(path), -1, -1):
        if path[:end] in origin:
            where = origin[path[:end]]
            break
        if path[:end] in lines:
            where = f"{file}, line {lines[path[:end]]}"
            break
    key = ".".join(path)
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown key {key!r}", _known_keys(path[:-1])
    hidden = "base_url" in path  # an address may hold a password
    if hidden and where.startswith("--set "):
        where = where.partition("=")[0]
    return (
        f"{where}: {key}: {plain_error(error)}",
        "see the commented ser.yaml of `ser init`" if hidden else f"got {error['input']!r}",
    )


def _known_keys(path: tuple[str, ...]) -> str:
    model: Any = Recipe
    for part in path:
        if part.isdigit():
            continue
        if part not in getattr(model, "model_fields", {}):
            break
        model = model.model_fields[part].annotation
        args = [a for a in getattr(model, "__args__", ()) if hasattr(a, "model_fields")]
        model = args[0] if args else model
    known = getattr(model, "model_fields", None) or Recipe.model_fields
    return f"known here: {', '.join(sorted(known))}"
