"""Shortening tool results that are too large for the window, as far as a model is shown them. (pure)

One result may be larger than all the room there is, and no cut can make it smaller. Its beginning
and its end are kept with a note between them; the session keeps the whole.

Not here: where a conversation is cut (compaction).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..messages import AgentMessage, ImageContent, TextContent, ToolResultMessage
from .token_estimate import (
    CHARACTERS_PER_TOKEN,
    IMAGE_CHARACTERS,
    estimate_message,
    size_of,
)

__all__ = ["fit_tail", "head_and_tail"]

LEAST_CHARACTERS = 400
"""No result is cut to less; what then does not fit cannot be helped here."""

HEAD_SHARE = 0.6
"""The beginning says what it is; the end, in logs above all, how it came out."""

_NOTE = (
    "\n[… {left_out:,} of {whole:,} characters are left out here, as the whole is too large for "
    "this model's context window; ask for a part of it if you need more …]\n"
)
_NO_IMAGE = "[an image was left out here, as all of this is too large for the context window]"


def fit_tail(messages: Sequence[AgentMessage], budget: int) -> list[AgentMessage] | None:
    """*messages* with their largest tool results shortened so that all take *budget* tokens.

    Results are cut to one common length, the longest that fits, so that small ones stay whole. If
    that is not enough, images of results are left out, the oldest first. Messages that need no
    change come back as they are. None if they do not fit even so. Tokens are estimated.
    """
    fitting = list(messages)
    if _tokens(fitting) <= budget:
        return fitting
    shortest = [_shortened(message, LEAST_CHARACTERS) for message in fitting]
    if _tokens(shortest) > budget:
        return _without_images(shortest, budget)
    low = LEAST_CHARACTERS
    high = max(size_of(m.text) for m in fitting if isinstance(m, ToolResultMessage))
    best = shortest
    while high - low > CHARACTERS_PER_TOKEN:
        middle = (low + high) // 2
        tried = [_shortened(message, middle) for message in fitting]
        if _tokens(tried) <= budget:
            low, best = middle, tried
        else:
            high = middle
    return best


def _tokens(messages: Sequence[AgentMessage]) -> int:
    return sum(map(estimate_message, messages))


def _without_images(messages: list[AgentMessage], budget: int) -> list[AgentMessage] | None:
    over = (_tokens(messages) - budget) * CHARACTERS_PER_TOKEN
    for place, message in enumerate(messages):
        if not isinstance(message, ToolResultMessage) or over <= 0:
            continue
        content: list[TextContent | ImageContent] = []
        for block in message.content:
            if over > 0 and isinstance(block, ImageContent):
                over -= IMAGE_CHARACTERS - len(_NO_IMAGE)
                content.append(TextContent(_NO_IMAGE))
            else:
                content.append(block)
        if content != message.content:
            messages[place] = msgspec.structs.replace(message, content=content)
    return messages if _tokens(messages) <= budget else None


def _shortened(message: AgentMessage, limit: int) -> AgentMessage:
    """*message* with its text, if it is a result, no longer than *limit* (see `size_of`)."""
    if not isinstance(message, ToolResultMessage):
        return message
    text = message.text
    size = size_of(text)
    if size <= limit:
        return message
    characters = int(limit * len(text) / size)
    content: list[TextContent | ImageContent] = [TextContent(head_and_tail(text, characters))]
    content += [block for block in message.content if isinstance(block, ImageContent)]
    return msgspec.structs.replace(message, content=content)


def head_and_tail(text: str, characters: int, note: str = _NOTE) -> str:
    """The beginning and the end of *text*, together about *characters* long, and a note between.

    The note counts as well. *note* may name `{left_out}` and `{whole}`, in characters.
    """
    whole = len(text)
    if whole <= characters:
        return text
    room = max(characters - len(note.format(left_out=whole, whole=whole)), 0)
    head = int(room * HEAD_SHARE)
    tail = room - head
    said = note.format(left_out=whole - room, whole=whole)
    return text[:head] + said + (text[-tail:] if tail else "")
