"""Which of a model's thinking levels comes nearest to the one asked for.                  (pure)

Not here: how a wire says it.
"""

from __future__ import annotations

from collections.abc import Mapping

from .model import Model

__all__ = ["LEVELS", "vendor_level"]

LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")

_STANDARD: Mapping[str, str | None] = {"low": "low", "medium": "medium", "high": "high"}
"""What a model offers of which nothing is known."""


def vendor_level(model: Model, level: str | None) -> str | None:
    """The vendor's word for *level*: of the nearest lower one the model offers, else the nearest
    higher. None where nothing should be said: no level was asked for, or `off` has no word.

    Raises ValueError for a level nobody knows.
    """
    if level is None:
        return None
    if level not in LEVELS:
        raise ValueError(f"no thinking level is named {level!r}; there are: {', '.join(LEVELS)}")
    offered = _STANDARD if model.thinking_levels is None else model.thinking_levels
    if level == "off":
        return offered.get("off")
    place = LEVELS.index(level)
    lower = [name for name in LEVELS[1 : place + 1] if offered.get(name)]
    higher = [name for name in LEVELS[place:] if offered.get(name)]
    chosen = lower[-1] if lower else higher[0] if higher else None
    return offered[chosen] if chosen else None
