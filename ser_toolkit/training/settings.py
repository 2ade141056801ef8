"""`--set key=value` of a training command: our own few keys, and all of the trainer's by their own names.

    own, given = read_sets(sets, JudgeTraining, TrainingArguments)
    arguments = make_arguments(TrainingArguments, given, {"learning_rate": 2e-4}, output_dir=...)

A wrong key or value is a UsageError that names the `--set`.
"""

from __future__ import annotations

import dataclasses
import difflib
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from ..errors import UsageError
from ..plain import plain_error
from ..recipe_section import Section

Own = TypeVar("Own", bound=Section)
OURS = frozenset({"output_dir", "report_to", "resume_from_checkpoint", "disable_tqdm", "push_to_hub"})
"""The trainer's fields that the command decides itself."""


def read_sets(
    sets: Iterable[str], own_type: type[Own], arguments_type: type[Any], decided: frozenset[str] = OURS
) -> tuple[Own, dict[str, Any]]:
    """Our settings, and the trainer's arguments that were given (values as YAML reads them).

    `decided`: fields of the trainer that the command decides itself. Raises UsageError.
    """
    fields = {f.name: str(f.type) for f in dataclasses.fields(arguments_type) if f.init and f.name not in decided}
    own: dict[str, Any] = {}
    given: dict[str, Any] = {}
    for item in sets:
        key, eq, text = item.partition("=")
        key = key.strip()
        if not eq or not key:
            raise UsageError(f"--set {item}: not of the form key=value", "for example --set learning_rate=1e-4")
        if key in decided:
            raise UsageError(f"--set {item}: the command decides {key} itself", "leave it out")
        if key not in own_type.model_fields and key not in fields:
            near = difflib.get_close_matches(key, [*own_type.model_fields, *fields], 3)
            raise UsageError(
                f"--set {item}: there is no setting {key!r}",
                f"did you mean {' or '.join(near)}?" if near else "docs/training.md lists them",
            )
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as exc:
            raise UsageError(f"--set {item}: the value is not YAML", "quote it: --set 'key=\"value\"'") from exc
        if isinstance(value, bool) and "bool" not in fields.get(key, "bool"):
            value = text.strip()  # YAML reads eval_strategy=no as false
        (own if key in own_type.model_fields else given)[key] = _number(value)
    try:
        return own_type.model_validate(own), given
    except ValidationError as exc:
        error = exc.errors()[0]
        key = str(error["loc"][0])
        raise UsageError(f"--set {key}={own.get(key)}: {plain_error(error)}", "docs/training.md lists them") from exc


def make_arguments(
    arguments_type: type[Any], given: Mapping[str, Any], defaults: Mapping[str, Any], **fixed: Any
) -> Any:
    """The trainer's arguments: `fixed` over `given` over `defaults`. Raises UsageError for a value that it refuses."""
    known = {f.name: f for f in dataclasses.fields(arguments_type)}
    for key, value in given.items():
        wanted = str(known[key].type)
        if isinstance(value, str) and ("float" in wanted or "int" in wanted) and "str" not in wanted:
            raise UsageError(f"--set {key}={value}: a number is wanted", "for example --set learning_rate=1e-4")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return arguments_type(**{**defaults, **given, **fixed})
    except (TypeError, ValueError) as exc:
        told = ", ".join(f"{k}={v}" for k, v in given.items()) or "no --set"
        raise UsageError(f"the trainer refuses its settings ({told}): {exc}", "docs/training.md lists them") from exc


def _number(value: Any) -> Any:
    """YAML 1.1 reads 1e-4 as text; a trainer wants a number."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value
