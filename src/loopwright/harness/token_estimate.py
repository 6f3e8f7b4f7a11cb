"""How many tokens a request will take, without asking anybody.                             (pure)

What a vendor counted is the best there is, but it is about one request. What was said since is
estimated, and so is everything once a compaction has changed what is shown: numbers from before
it describe a context that is no more, also where they stand at messages that were kept.

Not here: what follows from the size (compaction).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from ..messages import (
    AgentMessage,
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from ..models.model import ToolSpec
from ..records import to_jsonable
from ..session.entries import CompactionEntry, Entry, MessageEntry
from ..session.tree import adds_to_context, context_of

__all__ = [
    "IMAGE_CHARACTERS",
    "ContextTally",
    "context_tokens",
    "estimate_fixed",
    "estimate_message",
    "is_failed",
    "size_of",
    "used_tokens",
]

CHARACTERS_PER_TOKEN = 4
"""English text and code come to about this; other scripts take more tokens a character, which
their longer UTF-8 form stands for."""

IMAGE_CHARACTERS = 4_800
"""An image counts like a text of this length, whatever its own size."""


def size_of(text: str) -> int:
    """The length of *text* in characters; outside of ASCII, in bytes of UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def estimate_message(message: AgentMessage) -> int:
    """About how many tokens *message* takes, its thinking, calls and images included.

    A message with a role of the program's own counts as its JSON: whether and how a model is
    shown it is not known here.
    """
    return math.ceil(_message_size(message) / CHARACTERS_PER_TOKEN)


def _message_size(message: AgentMessage) -> int:
    if isinstance(message, UserMessage | ToolResultMessage | AssistantMessage):
        content = message.content
        return size_of(content) if isinstance(content, str) else sum(map(_block_size, content))
    return _json_size(message)


def _block_size(block: TextContent | ThinkingContent | ImageContent | ToolCall) -> int:
    if isinstance(block, TextContent):
        return size_of(block.text)
    if isinstance(block, ThinkingContent):
        hidden = block.thinking_signature if block.redacted else None
        return size_of(block.thinking) + len(hidden or "")
    if isinstance(block, ToolCall):
        # As it is sent: what could not be read goes back as it was written.
        unread = block.raw_arguments if block.arguments_error is not None else None
        return len(block.name) + (
            _json_size(block.arguments) if unread is None else size_of(unread)
        )
    return IMAGE_CHARACTERS


def _json_size(value: Any) -> int:
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, UnicodeEncodeError, msgspec.EncodeError, RecursionError):
        pass  # foreign objects, halves of surrogate pairs
    try:
        return len(msgspec.json.encode(to_jsonable(value)))
    except (TypeError, msgspec.EncodeError, RecursionError):
        return size_of(str(value))


def estimate_fixed(system_prompt: str, tools: Sequence[ToolSpec]) -> int:
    """About how many tokens every request takes before anything was said."""
    size = size_of(system_prompt)
    for tool in tools:
        size += len(tool.name) + size_of(tool.description) + _json_size(tool.parameters)
    return math.ceil(size / CHARACTERS_PER_TOKEN)


def context_tokens(
    entries: Sequence[Entry], *, fixed: int, model: tuple[str, str] | None = None
) -> int:
    """About how many tokens a request with this branch (oldest first) would take.

    That is what the vendor counted for the newest good reply, and an estimate of what follows it.
    Not used are replies before the newest compaction, even if they were kept, and replies of
    another *model* (provider, id), which counts in another way. Without one, everything shown is
    estimated, and *fixed* is added.
    """
    return ContextTally().tokens(entries, fixed=fixed, model=model)


class ContextTally:
    """`context_tokens` of a branch that grows: nothing is estimated a second time, also where no
    vendor counts. Another branch, or another model, is counted from its beginning."""

    def __init__(self) -> None:
        self._model: tuple[str, str] | None = None
        self._last: Entry | None = None
        self._done = 0
        """How many entries were looked at; the last of them is `_last`."""
        self._counted: int | None = None
        """What the vendor counted; None: everything shown is estimated."""
        self._estimated = 0

    def tokens(
        self, entries: Sequence[Entry], *, fixed: int, model: tuple[str, str] | None = None
    ) -> int:
        """See `context_tokens`."""
        done = self._done
        if (
            model != self._model
            or len(entries) < done
            or (done and entries[done - 1] is not self._last)
        ):
            done = 0
        if not done:
            self._model, self._counted, self._estimated = model, None, 0
            done = _newest_count(entries, model)
        for place in range(done, len(entries)):
            self._add(entries, place)
        self._done = len(entries)
        self._last = entries[-1] if entries else None
        return self._estimated + (fixed if self._counted is None else self._counted)

    def _add(self, entries: Sequence[Entry], place: int) -> None:
        entry = entries[place]
        if isinstance(entry, CompactionEntry):
            self._counted = None
            self._estimated = sum(map(estimate_message, context_of(entries[: place + 1])))
            return
        counted = None
        if isinstance(entry, MessageEntry):
            counted = used_tokens(entry.message, self._model)
        if counted is not None:
            self._counted, self._estimated = counted, 0
        elif (shown := adds_to_context(entry)) is not None:
            self._estimated += estimate_message(shown)


def _newest_count(entries: Sequence[Entry], model: tuple[str, str] | None) -> int:
    """The place of the newest entry before which nothing counts."""
    for place in range(len(entries) - 1, -1, -1):
        entry = entries[place]
        if isinstance(entry, CompactionEntry):
            return place
        if isinstance(entry, MessageEntry) and used_tokens(entry.message, model) is not None:
            return place
    return 0


def used_tokens(message: AgentMessage, model: tuple[str, str] | None = None) -> int | None:
    """The tokens of the context that ends with *message*, as its vendor counted them.

    None if it is no reply, failed, was aborted, came from another *model*, or if the vendor gave no
    numbers, or such as contradict each other.
    """
    if not isinstance(message, AssistantMessage) or is_failed(message):
        return None
    if model is not None and (message.provider, message.model) != model:
        return None
    usage = message.usage
    if not usage.known or usage.doubtful or usage.is_empty:
        return None
    return _all_of(usage) or None


def is_failed(message: AgentMessage) -> bool:
    """Whether *message* is a reply that failed or was aborted: no model is shown it."""
    return isinstance(message, AssistantMessage) and message.stop_reason in ("error", "aborted")


def _all_of(usage: Usage) -> int:
    return usage.input + usage.output + usage.cache_read + usage.cache_write
