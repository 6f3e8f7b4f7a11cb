"""What a span may say: counts, times, names that the program chose, ids, and kinds of failures.

Never a prompt, a reply, arguments, results, paths, keys or the text of an error. What comes from a
vendor or a model is let through only if it looks like the identifier that it claims to be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..messages import AssistantMessage, Usage
from .tracer import AttributeValue

if TYPE_CHECKING:
    from ..session.store import Commit

__all__ = [
    "error_kind",
    "identifier",
    "of_commit",
    "of_model",
    "of_options",
    "of_reply",
    "of_usage",
]

_Found = dict[str, AttributeValue]

_IDENTIFIER = re.compile(r"[\w.:/@+=|~-]{1,256}")
_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}")
_STOP_REASONS = frozenset({"stop", "length", "toolUse", "error", "aborted"})
_ROWS = (
    "entries", "lanes", "operations", "intents", "settled", "inbox", "approvals", "consume",
    "facts", "usage",
)  # fmt: skip


def identifier(text: Any) -> str | None:
    """*text* if it can be an id of somebody else's making: one short word. Sentences are none."""
    return text if isinstance(text, str) and _IDENTIFIER.fullmatch(text) else None


def error_kind(kind: Any) -> str | None:
    """The short name of a failure; `_OTHER`, as OpenTelemetry has it, for what is none."""
    if kind is None:
        return None
    return kind if isinstance(kind, str) and _KIND.fullmatch(kind) else "_OTHER"


def of_model(model: Any) -> _Found:
    """Who is asked; *model* is a `Model` or a name."""
    if isinstance(model, str):
        return {"loopwright.model": model[:256]}
    found: _Found = {}
    for name, value in (
        ("loopwright.provider", getattr(model, "provider", None)),
        ("loopwright.model", getattr(model, "id", None)),
        ("loopwright.api", getattr(model, "api", None)),
    ):
        if isinstance(value, str) and value:
            found[name] = value[:256]
    return found


def of_options(options: Mapping[str, Any]) -> _Found:
    """How it is asked: numbers and levels; no headers, keys or bodies."""
    found: _Found = {}
    level = error_kind(options.get("reasoning"))
    if level is not None:
        found["loopwright.request.reasoning"] = level
    for name in ("max_tokens", "temperature"):
        value = options.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            found[f"loopwright.request.{name}"] = value
    return found


def of_reply(message: AssistantMessage) -> _Found:
    """What came of a request, without anything that was said."""
    reason = message.stop_reason
    found: _Found = {
        "loopwright.response.stop_reason": reason if reason in _STOP_REASONS else "_OTHER"
    }
    model, response_id = identifier(message.model), identifier(message.response_id)
    if model is not None:
        found["loopwright.response.model"] = model
    if response_id is not None:
        found["loopwright.response.id"] = response_id
    found |= of_usage(message.usage)
    return found


def of_usage(usage: Usage) -> _Found:
    """Tokens, and US dollars where the price is known. Nothing if nothing was counted."""
    if usage.is_empty or not usage.known:
        return {}
    found: _Found = {
        "loopwright.usage.input_tokens": usage.input + (usage.tool_input or 0),
        "loopwright.usage.output_tokens": usage.output,
        "loopwright.usage.cache_read_tokens": usage.cache_read,
        "loopwright.usage.cache_write_tokens": usage.cache_write,
        "loopwright.usage.total_tokens": usage.total_tokens,
    }
    if usage.reasoning is not None:
        found["loopwright.usage.reasoning_tokens"] = usage.reasoning
    if usage.cost.total is not None:
        found["loopwright.usage.cost"] = usage.cost.total
    return found


def of_commit(commit: Commit) -> _Found:
    """How many rows of which kinds are written together."""
    counts = [(name, len(getattr(commit, name))) for name in _ROWS]
    return {
        "loopwright.session.item_count": sum(count for _, count in counts),
        "loopwright.session.item_kinds": ",".join(name for name, count in counts if count),
    }
