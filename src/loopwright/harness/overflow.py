"""Whether a reply says that the request was larger than the model's context window.        (pure)

Not here: what to do about it (compactor).
"""

from __future__ import annotations

import re

from ..errors import ContextOverflow
from ..messages import AssistantMessage
from ..models.failures import failure_from_text

__all__ = ["is_overflow"]

NEARLY_FULL = 0.9
"""A reply cut at its very beginning was cut by the window if the input took this part of it."""

_UNSORTED = (None, "model_error")
"""What an adapter says that does not know what a failure means."""

_STATUS = re.compile(r"HTTP (\d{3}): ")


def is_overflow(message: AssistantMessage, *, kind: str | None, window: int | None) -> bool:
    """Whether *message* came, or failed to come, because the request was too large.

    What the adapter reported (*kind*, see `loopwright.errors`) decides; where it reported nothing,
    as after a restart, the text does. Some vendors say nothing at all: they answer a request that
    is larger than the *window* as if it were whole, or break off before the first token.
    """
    if message.stop_reason == "error":
        if kind in _UNSORTED:
            return _reads_like_one(message)
        return kind == ContextOverflow.kind
    usage = message.usage
    if window is None or not usage.known or usage.doubtful:
        return False
    taken = usage.input + usage.cache_read + usage.cache_write
    if message.stop_reason == "stop":
        return taken > window
    if message.stop_reason == "length":
        return usage.output == 0 and taken >= NEARLY_FULL * window
    return False


def _reads_like_one(message: AssistantMessage) -> bool:
    text = message.error_message or ""
    status = _STATUS.match(text)
    failure = failure_from_text(
        text[status.end() :] if status else text,
        status=int(status.group(1)) if status else None,
        provider=message.provider or None,
    )
    return isinstance(failure, ContextOverflow)
