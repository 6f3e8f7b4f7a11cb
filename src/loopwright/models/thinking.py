"""Which of a model's thinking levels comes nearest to the one asked for.                  (pure)

Not here: how a wire says it.
"""

from __future__ import annotations

from collections.abc import Mapping

from .model import Model

__all__ = ["LEVELS", "nearest_level", "vendor_level"]

LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")

_STANDARD: Mapping[str, str | None] = {"low": "low", "medium": "medium", "high": "high"}
"""What a model offers of which nothing is known."""


def nearest_level(model: Model, level: str | None) -> str | None:
    """The level of *model* that comes nearest to *level*: the next lower one, else the next higher.

    `off` stays `off` unless the model is known not to be switched off. None where nothing can be
    said: no level was asked for, or the model has none.

    Raises ValueError for a level nobody knows.
    """
    if level is None:
        return None
    if level not in LEVELS:
        raise ValueError(f"no thinking level is named {level!r}; there are: {', '.join(LEVELS)}")
    offered = _STANDARD if model.thinking_levels is None else model.thinking_levels
    if level == "off" and offered.get("off", "") is not None:
        return level
    place = LEVELS.index(level)
    lower = [name for name in LEVELS[1 : place + 1] if offered.get(name)]
    higher = [name for name in LEVELS[place:] if offered.get(name)]
    return lower[-1] if lower else higher[0] if higher else None


def vendor_level(model: Model, level: str | None) -> str | None:
    """The vendor's word for the level nearest to *level*. None where nothing should be said: no
    level was asked for, the model has none, or `off` has no word.

    Raises ValueError for a level nobody knows.
    """
    nearest = nearest_level(model, level)
    if nearest is None:
        return None
    offered = _STANDARD if model.thinking_levels is None else model.thinking_levels
    return offered.get(nearest)
