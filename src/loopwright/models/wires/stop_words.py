"""What the word means with which a reply ended, in the words of Chat Completions.        (pure)

Hosts and gateways pass on the words of whatever is behind them, in capitals as well; all are
compared in lower case. Other dialects look here for a word that is none of their own.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["FAILED", "REFUSED", "ending", "word_of"]

_STOP = frozenset({
    "stop", "end", "eos", "eos_token", "end_turn", "stop_sequence", "completed", "complete",
})  # fmt: skip
_LENGTH = frozenset({
    "length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded",
})  # fmt: skip
_TOOLS = frozenset({"tool_calls", "tool_call", "function_call", "tool_use"})

REFUSED = frozenset({
    "content_filter", "refusal", "safety", "sensitive", "recitation", "blocklist", "spii",
    "prohibited_content", "image_safety", "image_prohibited_content", "image_recitation",
})  # fmt: skip

FAILED = frozenset({
    "error", "network_error", "abort", "insufficient_system_resource", "function_call_filter",
    "malformed_function_call",
})  # fmt: skip
"""The host or the model slipped; asked again it mostly does not."""


def word_of(raw: str | None) -> str | None:
    """*raw* as it is compared: Google's host puts details behind a colon, and some hosts name the
    very token that the model ended with."""
    if raw is None:
        return None
    if raw[:1] == "<" and raw[-1:] == ">":
        return "stop"
    return raw.partition(":")[0].strip().lower()


def ending(word: str | None) -> Literal["stop", "length"] | None:
    """What *word* says; calls decide between `stop` and `toolUse`. None for a word nobody knows,
    and for those of a failure."""
    if word in _LENGTH:
        return "length"
    return "stop" if word is None or word in _STOP or word in _TOOLS else None
