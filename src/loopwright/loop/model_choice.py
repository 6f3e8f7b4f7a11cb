"""A model given by name: `anthropic/claude-sonnet-4-6:high` or `anthropic:claude-sonnet-4-6`."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from ..models.model import Model, ThinkingLevel

__all__ = ["choose_model"]


def choose_model(model: Model | str, stream_fn: Any = None) -> tuple[Model, ThinkingLevel | None]:
    """The model, and the thinking level its name asked for. Raises `ModelNotFound`.

    A name is looked up in the `Models` behind *stream_fn*: that of a method, of
    `models.with_fallback(...)`, or of either in a `functools.partial`. A function that knows no
    names leaves it to the built-in vendors.
    """
    if isinstance(model, Model):
        return model, None
    while isinstance(stream_fn, partial):
        stream_fn = cast("partial[Any]", stream_fn).func
    owner: Any = getattr(stream_fn, "__self__", stream_fn)
    resolve = getattr(owner, "resolve_with_level", None)
    if resolve is None:
        from ..models import default_models

        resolve = default_models().resolve_with_level
    return resolve(model)
