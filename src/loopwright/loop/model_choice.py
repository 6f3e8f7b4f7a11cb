"""A model given by name: `anthropic/claude-sonnet-4-6:high` or `anthropic:claude-sonnet-4-6`."""

from __future__ import annotations

from typing import Any

from ..models.model import Model, ThinkingLevel

__all__ = ["choose_model"]


def choose_model(model: Model | str, stream_fn: Any = None) -> tuple[Model, ThinkingLevel | None]:
    """The model, and the thinking level its name asked for. Raises `ModelNotFound`.

    A name is looked up where *stream_fn* belongs, if it is a method of a `Models`.
    """
    if isinstance(model, Model):
        return model, None
    owner: Any = getattr(stream_fn, "__self__", stream_fn)
    resolve = getattr(owner, "resolve_with_level", None)
    if resolve is None:
        from ..models import default_models

        resolve = default_models().resolve_with_level
    return resolve(model)
