"""Every vendor behind one stream function.

`Models` holds vendors and asks their models; a vendor is a row of data (`Provider`), its dialect a
wire. Nothing of a vendor's library is imported before its model is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .model import Context, Model, ThinkingLevel, ToolSpec

if TYPE_CHECKING:
    from .models import Models, default_models
    from .provider import Provider, StreamFn

__all__ = [
    "Context",
    "Model",
    "Models",
    "Provider",
    "StreamFn",
    "ThinkingLevel",
    "ToolSpec",
    "default_models",
]


def __getattr__(name: str) -> Any:
    if name in ("Models", "default_models"):  # with what they need, only once they are wanted
        from . import models

        return getattr(models, name)
    if name in ("Provider", "StreamFn"):
        from . import provider

        return getattr(provider, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
