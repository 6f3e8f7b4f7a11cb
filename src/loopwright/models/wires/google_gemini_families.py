"""Gemini: what a model takes, by its row and, where that is silent, by its id.               (pure)

Gemini 2.5 thinks within a budget of tokens, later models by level. From Gemini 3 on calls have
ids, results may hold images, and the vendor checks that calls come back with their signature.
https://ai.google.dev/gemini-api/docs/thinking, .../gemini-3, .../thought-signatures

Flag read here: `thinking_control` (`level`, `budget` or false), for models whose id says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ..model import Model
from ..thinking import vendor_level

__all__ = ["Family", "family_of", "thinking_config"]

_GEMINI = re.compile(r"gemini(?:-live)?-(?P<major>\d+)(?:\.(?P<minor>\d+))?")
_LATEST = re.compile(r"gemini-(?:pro|flash|flash-lite)-latest")
_WITHOUT_LEVELS = re.compile(r"image|tts|audio|live|embedding")
"""Kinds of models that refuse to be told how much to think."""

_LATEST_VERSION = (4, 0)


class Family(msgspec.Struct, frozen=True):
    """What is known of a model beyond its row."""

    control: Literal["level", "budget", "none"]
    levels: Mapping[str, str | None] | None
    """Our level -> the vendor's word, or a number of tokens; empty for one that does not think."""
    least: int = 0
    most: int = 32_768
    """The range of a budget, apart from 0 (off) and `DYNAMIC`."""
    can_be_off: bool = False
    calls_have_ids: bool = True
    images_in_results: bool = True
    signed_calls: bool = False
    """The first call of a step is refused without a signature."""
    schema_beside_tools: bool = True
    """An output schema may be given together with functions."""


def family_of(model: Model, flags: Mapping[str, Any]) -> Family:
    """What *model* takes at a host with *flags*."""
    family = _family(model.id.lower())
    told = flags.get("thinking_control")
    if told is not None:
        control = told if told in ("level", "budget") else "none"
        family = msgspec.structs.replace(family, control=control)
    return family


def _family(model_id: str) -> Family:
    version = _version(model_id)
    if version is None and "gemma" in model_id:
        thinks = re.search(r"gemma-?4", model_id) is not None
        return Family(
            control="level",
            levels={"minimal": "minimal", "high": "high"} if thinks else {},
            calls_have_ids=False,
            images_in_results=False,
            schema_beside_tools=False,
        )
    if version is None:
        return Family(control="level", levels=None)
    if version >= (3, 0):
        return Family(control="level", levels=_levels(version, model_id), signed_calls=True)
    return msgspec.structs.replace(
        _budget(version, model_id),
        calls_have_ids=False,
        images_in_results=False,
        schema_beside_tools=False,
    )


def _version(model_id: str) -> tuple[int, int] | None:
    found = _GEMINI.search(model_id)
    if found is None:
        return _LATEST_VERSION if _LATEST.search(model_id) else None
    return int(found["major"]), int(found["minor"] or 0)


def _levels(version: tuple[int, int], model_id: str) -> Mapping[str, str | None]:
    if _WITHOUT_LEVELS.search(model_id):
        return {}
    words = ["low", "medium", "high"]
    if version < (3, 1) and "pro" in model_id:
        words = ["low", "high"]
    elif version < (3, 7) and "flash" in model_id:
        words = ["minimal", *words]
    elif re.search("neon|hydrogen", model_id):
        words = [*words, "xhigh"]
    return {word: word for word in words}


def _budget(version: tuple[int, int], model_id: str) -> Family:
    if version < (2, 5) or _WITHOUT_LEVELS.search(model_id):
        return Family("budget", {}, can_be_off=True)
    if "pro" in model_id:
        words = {"minimal": "128", "low": "2048", "medium": "8192", "high": "32768"}
        return Family("budget", words, least=128, most=32_768)
    least = 512 if "lite" in model_id else 1
    words = {"minimal": "512", "low": "2048", "medium": "8192", "high": "24576"}
    return Family("budget", words, least=least, most=24_576, can_be_off=True)


DYNAMIC = -1
"""As a budget: the model decides."""


def thinking_config(
    model: Model, family: Family, level: str | None, budgets: Mapping[str, int]
) -> dict[str, Any] | None:
    """The field `thinkingConfig` for *level*, None where nothing is to be said about thinking.

    Raises ValueError for a level nobody knows.
    """
    levels = family.levels if model.thinking_levels is None else model.thinking_levels
    row = msgspec.structs.replace(model, thinking_levels=None if levels is None else dict(levels))
    word = vendor_level(row, level)
    if level is None or levels == {} or family.control == "none":
        return None
    if level == "off":
        return _off(row, family, word)
    if word is None:
        return None
    if family.control == "budget" or word.lstrip("-").isdigit():
        tokens = _number(word)
        if tokens is None:  # a row that has words where its family wants tokens
            tokens = _number((family.levels or {}).get(word.lower()))
        tokens = budgets.get(level, DYNAMIC if tokens is None else tokens)
        if tokens > 0:
            tokens = max(family.least, min(family.most, tokens))
        return {"includeThoughts": tokens != 0, "thinkingBudget": tokens}
    return {"includeThoughts": True, "thinkingLevel": word.upper()}


def _off(row: Model, family: Family, word: str | None) -> dict[str, Any] | None:
    """No thinking, or the least there is, which is not shown then."""
    if family.control == "budget":
        levels = row.thinking_levels or {}
        never = "off" in levels and levels["off"] is None
        off = family.can_be_off and not never
        return {"thinkingBudget": (_number(word) or 0) if off else max(family.least, 1)}
    if word is None and row.thinking_levels is None:
        return None  # nothing is known of it; it may not think at all
    word = word or vendor_level(row, "minimal")
    if word is None:
        return None
    tokens = _number(word)
    return {"thinkingLevel": word.upper()} if tokens is None else {"thinkingBudget": tokens}


def _number(word: str | None) -> int | None:
    return int(word) if word is not None and re.fullmatch(r"-?\d{1,7}", word) else None
