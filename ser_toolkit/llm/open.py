"""From the recipe's `llm.model` to a model that answers."""

from __future__ import annotations

from .. import registry
from ..recipe import Llm
from .chat import ChatModel


def open_model(settings: Llm) -> ChatModel:
    """The model that `settings.model` names: BACKEND or BACKEND:ARGUMENT, the backend found by name.

    Raises UsageError for an unknown backend (the hint lists the known), and what the backend itself raises.
    """
    backend, _, argument = settings.model.partition(":")
    return registry.load("models", backend.strip())(argument.strip(), settings)
