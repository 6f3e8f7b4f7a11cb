"""A model given by name: `anthropic/claude-sonnet-4-6:high` or `anthropic:claude-sonnet-4-6`."""

from __future__ import annotations

from ..models.model import Model, ThinkingLevel

__all__ = ["choose_model"]


def choose_model(model: Model | str) -> tuple[Model, ThinkingLevel | None]:
    """The model, and the thinking level its name asked for. Raises `ModelNotFound`."""
    if isinstance(model, Model):
        return model, None
    from ..models import default_models

    return default_models().resolve_with_level(model)
