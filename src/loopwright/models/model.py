"""What can be asked and what it is shown: a model, a context, the tools on offer.

Plain data, shared by the loop and every wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from ..messages import Cost, Message
from ..records import Record

__all__ = ["Context", "CostTier", "Model", "ThinkingLevel", "ToolSpec"]

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]


class CostTier(Record):
    """The rates of a request whose input, cached tokens included, is more than `above` tokens."""

    above: int
    cost: Cost


class Model(Record):
    """One thing we can ask. Limits are in tokens, `cost` in US dollars per million tokens."""

    provider: str
    id: str
    api: str
    """The wire's id, with hyphens: `openai-chat`."""
    name: str | None = None
    base_url: str | None = None
    """Overrides the provider's."""
    context_window: int | None = None
    max_tokens: int | None = None
    input: tuple[str, ...] = ("text",)
    """What it reads: `text`, `image`."""
    thinking_levels: dict[str, str | None] | None = None
    """Our level -> the vendor's word; None where that level is not offered."""
    cost: Cost | None = None
    cost_tiers: list[CostTier] = []
    """What requests with a long input cost instead, the shortest first."""
    long_cache_write: float | None = None
    """US dollars per million tokens put into a cache that keeps them for an hour."""
    flags: dict[str, Any] | None = None
    """Quirks of this model alone, by name; they come before its vendor's."""
    deprecated_on: str | None = None
    """The day (ISO 8601) on which its vendor gives it up."""
    successor: str | None = None
    """The vendor's id of the model to use then."""


class ToolSpec(Record):
    """A tool as a model sees it; `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


class Context(Struct):
    """All that one request shows a model."""

    system_prompt: str = ""
    messages: Sequence[Message] = ()
    tools: Sequence[ToolSpec] = ()
