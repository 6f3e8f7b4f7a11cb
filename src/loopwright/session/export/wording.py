"""What both kinds of readable document say alike: times, titles, costs, and which text is tame.

Not here: the documents (markdown, html).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from ...messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ToolResultMessage,
    Usage,
)
from ..entries import BranchSummaryEntry, CompactionEntry, Entry, MessageEntry
from ..rows import SessionInfo

__all__ = [
    "Piece",
    "failure",
    "image_bytes",
    "models_of",
    "pieces",
    "spent",
    "title_of",
    "usage_text",
    "when",
]

_TITLE_CHARACTERS = 120
_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"})
"""Those that hold pixels only. An SVG is a document, and may do things."""


class Piece(msgspec.Struct, frozen=True):
    """A stretch of text as JSON or as it is, or an image."""

    kind: Literal["text", "image"]
    text: str = ""
    image: ImageContent | None = None


def pieces(content: str | Sequence[TextContent | ImageContent]) -> list[Piece]:
    """The blocks of *content*; text blocks in a row stay apart. Empty text is left out."""
    if isinstance(content, str):
        return [Piece("text", content)] if content else []
    found: list[Piece] = []
    for block in content:
        if isinstance(block, ImageContent):
            found.append(Piece("image", image=block))
        elif block.text:
            found.append(Piece("text", block.text))
    return found


def image_bytes(image: ImageContent) -> int | None:
    """The size of *image* in bytes; None if it is not base64 of a kind that holds only pixels."""
    if image.mime_type not in _IMAGE_TYPES:
        return None
    try:
        return len(base64.b64decode(image.data, validate=True))
    except (binascii.Error, ValueError):
        return None


def when(milliseconds: int) -> str:
    """A time in UTC, to the second; the number itself if no calendar has it."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms"


def title_of(info: SessionInfo) -> str:
    """What a document about the session is called: one line."""
    found = " ".join((info.name or info.preview or "").split())
    if len(found) > _TITLE_CHARACTERS:
        found = found[: _TITLE_CHARACTERS - 1] + "…"
    return found or f"Session {info.id}"


def models_of(entries: Iterable[Entry]) -> list[str]:
    """The models that replied, in the order they first did."""
    names: dict[str, None] = {}
    for entry in entries:
        if isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage):
            reply = entry.message
            name = f"{reply.provider}/{reply.model}" if reply.provider else reply.model
            if name:
                names[name] = None
    return list(names)


def spent(info: SessionInfo, entries: Iterable[Entry]) -> Usage:
    """The sum of the ledger, or, where there is none, of what stands in *entries*."""
    if not info.usage.is_empty:
        return info.usage
    total = Usage()
    for entry in entries:
        if isinstance(entry, CompactionEntry | BranchSummaryEntry):
            total += entry.usage or Usage()
        elif isinstance(entry, MessageEntry) and isinstance(
            entry.message, AssistantMessage | ToolResultMessage
        ):
            total += entry.message.usage or Usage()
    return total


def usage_text(usage: Usage) -> str:
    """*usage* as one line. An unknown cost is said to be unknown."""
    if usage.is_empty:
        return "no tokens counted"
    parts = [f"{usage.input:,} in", f"{usage.output:,} out"]
    if usage.cache_read or usage.cache_write:
        parts.append(f"{usage.cache_read:,} read from cache, {usage.cache_write:,} written to it")
    total = usage.cost.total
    return f"{', '.join(parts)}; {'cost unknown' if total is None else f'${total:,.4f}'}"


def failure(message: AssistantMessage) -> str | None:
    """What was wrong with a reply, in a word or a sentence; None if nothing was."""
    said = " ".join((message.error_message or "").split())
    match message.stop_reason:
        case "error":
            return f"failed: {said}" if said else "failed"
        case "aborted":
            return f"aborted: {said}" if said else "aborted"
        case "length":
            return "cut by the output limit"
        case _:
            return None
