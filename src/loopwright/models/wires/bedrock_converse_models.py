"""Bedrock Converse: what the families of models behind it take.                            (pure)

One API serves many makers' models, and each takes a different part of it. A vendor's row or a
model's may say what holds (the flags named below); otherwise the maker's name in the model's id
does. An inference profile may hide that name behind an ARN; then only what every family takes is
sent, unless a flag says more.

Flags read here: `cache_points`, `long_cache`, `tool_choice_required` (each True or False; any
other value, such as `per-model`, says nothing).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ..model import Model
from ..thinking import vendor_level

__all__ = ["Family", "other_thinking"]

ToolChoice = Literal["tool", "any", "auto"]
Maker = Literal["claude", "nova", "mistral", "openai", "other"]

_CLAUDE_VERSION = re.compile(r"claude-(?:[a-z]+-)?(?P<major>\d)(?:[-.](?P<minor>\d{1,2}))?(?!\d)")
_CACHING_CLAUDE_3_5 = re.compile(r"claude-3-5-haiku|claude-3-5-sonnet-20241022")

FIRST_CACHING_CLAUDE = (3, 7)
FIRST_HOUR_CACHING_CLAUDE = (4, 5)
"""https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html"""


class Family(msgspec.Struct, frozen=True):
    """What is known of a model."""

    maker: Maker
    cache_points: bool
    """Takes breakpoints in prompt, tools and messages. Nova caches by itself."""
    hour_cache: bool
    tool_choice: ToolChoice
    """The most that can be demanded: one tool, any tool, or nothing."""
    json_results: bool
    """Takes a tool's result as JSON only."""
    images_in_results: bool

    @classmethod
    def of(cls, model: Model, flags: Mapping[str, Any], name: str) -> Family:
        """The family of *model*, which its host knows as *name*, under *flags*."""
        maker = _maker(f"{name} {model.id}")
        version = _claude_version(f"{name} {model.id}")
        caches = version >= FIRST_CACHING_CLAUDE or bool(_CACHING_CLAUDE_3_5.search(name))
        hour = version >= FIRST_HOUR_CACHING_CLAUDE
        return cls(
            maker=maker,
            cache_points=_told(flags, "cache_points", caches),
            hour_cache=_told(flags, "long_cache", hour),
            tool_choice=_tool_choice(maker, flags.get("tool_choice_required")),
            json_results=maker == "mistral",
            images_in_results=maker in ("claude", "nova"),
        )


def other_thinking(maker: Maker, model: Model, level: str | None) -> dict[str, Any]:
    """The request fields that ask a model of another maker for *level*. Raises ValueError for a
    level nobody knows."""
    word = vendor_level(model, level)
    if maker == "nova":
        if level == "off" and model.thinking_levels != {}:
            return {"reasoningConfig": {"type": "disabled"}} if "nova-2" in model.id else {}
        if word is None or (model.thinking_levels is None and "nova-2" not in model.id):
            return {}
        return {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": word}}
    if word is None or (level == "off" and word == "none"):
        return {}  # the dialect has no word for it
    if maker == "openai":
        if "gpt-oss" in model.id:
            return {"reasoning_effort": word}
        return {"reasoning": {"effort": word}}
    if model.thinking_levels is None:
        return {}  # it may not think at all
    return {"reasoning_config": word}


def _told(flags: Mapping[str, Any], name: str, otherwise: bool) -> bool:
    told = flags.get(name)
    return told if isinstance(told, bool) else otherwise


def _maker(name: str) -> Maker:
    lowered = name.lower()
    if "claude" in lowered or "anthropic." in lowered:
        return "claude"
    if "amazon.nova" in lowered:
        return "nova"
    if "mistral." in lowered:
        return "mistral"
    return "openai" if re.search(r"(?:^|[ ./])openai\.", lowered) else "other"


def _claude_version(name: str) -> tuple[int, int]:
    """(0, 0) for what is none, or too old to have its version in that place."""
    found = _CLAUDE_VERSION.search(name)
    return (0, 0) if found is None else (int(found["major"]), int(found["minor"] or 0))


def _tool_choice(maker: Maker, told: Any) -> ToolChoice:
    if told is False:
        return "auto"
    if told is True or maker in ("claude", "nova"):
        return "tool"
    return "any" if maker == "mistral" else "auto"
