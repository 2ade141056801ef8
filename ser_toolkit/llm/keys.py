"""The key of a model server, out of the environment variable that the recipe names: nowhere else does one stand."""

from __future__ import annotations

import os

from ..errors import UsageError
from ..recipe import Endpoint


def read_key(settings: Endpoint) -> str | None:
    """The key, `None` where the variable is not set or empty. Raises UsageError for one that no header can carry, and
    does not say what it is.
    """
    key = os.environ.get(settings.api_key_env, "").strip()
    if any(not "!" <= letter <= "~" for letter in key):
        raise UsageError(
            f"the key in ${settings.api_key_env} holds a space, a line break or a letter that no key has",
            "set the variable to the key alone",
        )
    return key or None
