"""A validator's findings in plain words: what a value must be, for the person who typed it.

May import: the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_WORDS = {
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be a text",
    "dict_type": "must hold keys and values",
    "mapping_type": "must hold keys and values",
    "model_type": "must hold keys and values",
    "model_attributes_type": "must hold keys and values",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be greater than or equal to {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be less than or equal to {le}",
    "too_short": "must hold at least {min_length}",
    "too_long": "must hold at most {max_length}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "has characters, or a length, that are not allowed here (allowed: {pattern})",
}


def plain_error(error: Mapping[str, Any]) -> str:
    """One of pydantic's errors as the end of a sentence about the value: "must be one of: auto, whole, each"."""
    kind, context = error["type"], error.get("ctx") or {}
    if kind in ("literal_error", "enum"):
        allowed = re.findall(r"'([^']*)'", context["expected"]) or [context["expected"]]
        return f"must be one of: {', '.join(allowed)}"
    if kind == "value_error":
        return str(context.get("error") or error["msg"])
    if kind not in _WORDS:
        return plain_words(error["msg"])
    return _WORDS[kind].format(**{k: f"{v:g}" if isinstance(v, float) else v for k, v in context.items()})


def plain_words(message: str) -> str:
    """A validator's message without its turns of phrase."""
    message = re.sub(r"^Input should be a valid integer\b.*", "must be a whole number", message)
    message = re.sub(r"^Input should be a valid number\b.*", "must be a number", message)
    return message.removeprefix("Value error, ").replace("Input should be", "must be", 1)
