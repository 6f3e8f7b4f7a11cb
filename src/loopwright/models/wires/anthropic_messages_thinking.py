"""Anthropic Messages: how a model thinks, and what it takes besides.                       (pure)

Older models think within a budget of tokens, newer ones as much as the effort asked for makes
them. A model's row says which (`adaptive_thinking`, `thinking_levels`); for a Claude without a row
its id does, by https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ..model import Model
from ..thinking import LEVELS, vendor_level

__all__ = ["LEAST_BUDGET", "Abilities", "Thinking", "abilities_of", "thinking_of"]

LEAST_BUDGET = 1024
ANSWER_TOKENS = 1024
"""What a budget leaves for the answer when the output limit is near."""

BUDGETS: Mapping[str, int] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16_384,
    "xhigh": 24_576,
    "max": 32_768,
}

_CLAUDE = re.compile(r"claude-(?P<family>[a-z]+)-(?P<major>\d)(?:[-.](?P<minor>\d{1,2}))?(?!\d)")


class Abilities(msgspec.Struct, frozen=True):
    """What is known of a model beyond its row."""

    adaptive: bool
    levels: Mapping[str, str | None] | None
    """Level -> effort, or None for a model that says nothing about it."""
    always_thinks: bool = False
    forced_tools: bool = True
    sampling: bool = True
    """Takes temperature and its like."""
    shows_thinking: bool = True
    """Thinking comes as text unasked; otherwise it must be asked for."""


def abilities_of(model: Model, flags: Mapping[str, Any]) -> Abilities:
    """What *model* can do at a host with *flags*."""
    told = flags.get("adaptive_thinking")
    found = _CLAUDE.search(model.id)
    version = _version(found)
    fable = found is not None and found["family"] == "fable"
    adaptive = told if isinstance(told, bool) else version >= (4, 6)
    levels = model.thinking_levels
    if levels is None and found and adaptive:
        efforts = ["low", "medium", "high", *(["xhigh"] if version >= (4, 7) else []), "max"]
        levels = {effort: effort for effort in efforts}
    off_is_refused = levels is not None and "off" in levels and levels["off"] is None
    return Abilities(
        adaptive=adaptive,
        levels=levels,
        always_thinks=off_is_refused
        or fable
        or (version == (5, 5) and found is not None and found["family"] in ("opus", "sonnet")),
        forced_tools=not fable,
        sampling=flags.get("temperature") is True
        or (flags.get("temperature") is not False and version < (4, 7)),
        shows_thinking=version < (4, 7),
    )


def _version(found: re.Match[str] | None) -> tuple[int, int]:
    return (0, 0) if found is None else (int(found["major"]), int(found["minor"] or 0))


class Thinking(msgspec.Struct, frozen=True):
    """What to send about thinking; nothing at all where all is None."""

    fields: Mapping[str, Any] | None = None
    """The field `thinking`, but for the budget."""
    effort: str | None = None
    budget: int | None = None

    @property
    def on(self) -> bool:
        """The model is told to think."""
        return self.fields is not None and self.fields["type"] != "disabled"


def thinking_of(
    model: Model, can: Abilities, level: str | None, budgets: Mapping[str, int]
) -> Thinking:
    """How to ask for *level*. Raises ValueError for a level nobody knows."""
    row = msgspec.structs.replace(model, thinking_levels=_plain(can.levels))
    word = vendor_level(row, level)
    if level is None or can.levels == {}:
        return Thinking()
    if level == "off":
        if not can.always_thinks:
            return Thinking({"type": "disabled"})
        level = "minimal"  # the least there is
        word = vendor_level(row, level)
    if can.adaptive:
        if word is None:
            return Thinking()
        shown = {} if can.shows_thinking else {"display": "summarized"}
        return Thinking({"type": "adaptive", **shown}, word if not word.isdigit() else None)
    name = level
    if can.levels is not None:
        if word is None:
            return Thinking()
        if word.isdigit():
            budget = budgets.get(level, int(word))
            return Thinking({"type": "enabled"}, budget=max(LEAST_BUDGET, budget))
        name = word if word in LEVELS else level
    budget = budgets.get(level, BUDGETS.get(name, BUDGETS["medium"]))
    return Thinking({"type": "enabled"}, budget=max(LEAST_BUDGET, budget))


def _plain(levels: Mapping[str, str | None] | None) -> dict[str, str | None] | None:
    return None if levels is None else dict(levels)
