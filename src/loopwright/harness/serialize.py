"""A conversation as labelled plain text, for a model that is to summarize and not to go on. (pure)

Long results, arguments and thoughts are cut; images are only named. If the whole is still too long
for one request it is shortened further: results first, the oldest first, then its middle.

Not here: asking for the summary (summary).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    UserMessage,
)
from ..records import clean_text, to_jsonable
from .fit_tail import head_and_tail
from .token_estimate import is_failed, size_of

__all__ = ["as_text", "cut_to_size"]

LONGEST_PART = 2_000
"""Characters of one result, of the arguments of one call, and of one block of thinking."""

SHORTEST_RESULT = 200
"""Characters of a result where all of it is too long."""

_CUT = "\n[… {left_out:,} more characters …]\n"
_MIDDLE = (
    "\n\n[… {left_out:,} characters in the middle are left out: too long for one request …]\n\n"
)


def as_text(messages: Sequence[AgentMessage], *, limit: int | None = None) -> str:
    """*messages* as text, no larger than *limit* (characters; outside of ASCII, bytes)."""
    parts = [_part(message, LONGEST_PART) for message in messages]
    if limit is None:
        return "\n\n".join(parts)
    size = sum(map(size_of, parts)) + 2 * len(parts)
    for place, message in enumerate(messages):
        if size <= limit:
            break
        if isinstance(message, ToolResultMessage):
            shorter = _part(message, SHORTEST_RESULT)
            size -= size_of(parts[place]) - size_of(shorter)
            parts[place] = shorter
    return cut_to_size("\n\n".join(parts), limit)


def cut_to_size(text: str, limit: int) -> str:
    """*text* without so much of its middle that it is no larger than *limit*; a note says so."""
    size, shown = size_of(text), text
    characters = len(text)
    while size > limit and characters > 0:  # twice at most, unless the text is very uneven
        characters = min(characters - 1, int(characters * limit / size))
        shown = head_and_tail(text, characters, _MIDDLE)
        size = size_of(shown)
        if len(shown) > characters:  # the note alone is longer
            return ""
    return shown


def _part(message: AgentMessage, longest: int) -> str:
    if isinstance(message, UserMessage):
        content = message.content
        return f"[User]: {content if isinstance(content, str) else _blocks(content)}"
    if isinstance(message, ToolResultMessage):
        failed = ", failed" if message.is_error else ""
        said = head_and_tail(_blocks(message.content), longest, _CUT)
        return f"[Result of {message.tool_name}{failed}]: {said}"
    if isinstance(message, AssistantMessage):
        return "\n".join(_reply(message))
    return f"[{message.role}]: {head_and_tail(_json(message), LONGEST_PART, _CUT)}"


def _blocks(blocks: Iterable[TextContent | ImageContent]) -> str:
    return "\n".join([
        block.text if isinstance(block, TextContent) else f"[an image, {block.mime_type}]"
        for block in blocks
    ])  # fmt: skip


def _reply(message: AssistantMessage) -> Iterable[str]:
    failed = is_failed(message)
    if failed:
        how = "was aborted" if message.stop_reason == "aborted" else "failed"
        reason = f": {message.error_message}" if message.error_message else ""
        yield f"[A reply that {how}{reason}]"
    said = False
    for block in message.content:
        if isinstance(block, TextContent):
            if block.text.strip():
                yield f"[Assistant]: {block.text}"
                said = True
        elif isinstance(block, ThinkingContent):
            if block.thinking.strip():
                yield f"[Assistant, thinking]: {head_and_tail(block.thinking, LONGEST_PART, _CUT)}"
                said = True
        else:
            never = ", never run" if failed else ""
            yield f"[Assistant calls {block.name}{never}]: {_arguments(block)}"
            said = True
    if not said and not failed:
        yield "[Assistant]: (nothing)"


def _arguments(call: ToolCall) -> str:
    unread = call.arguments_error is not None and call.raw_arguments is not None
    text = call.raw_arguments if unread else _json(call.arguments)
    return head_and_tail(text or "{}", LONGEST_PART, _CUT)


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(to_jsonable(value)).decode()
    except (TypeError, msgspec.EncodeError, RecursionError):
        return clean_text(str(value))
