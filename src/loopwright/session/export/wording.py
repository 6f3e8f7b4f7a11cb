"""What both kinds of readable document say alike: times, titles, costs, and which image is one.

Not here: the documents (markdown, html), or what a call shows (calls).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Literal, NamedTuple

import msgspec

from ...loop.wording import ABORTED
from ...messages import (
    AgentMessage,
    AssistantMessage,
    ImageContent,
    TextContent,
    ToolResultMessage,
    Usage,
)
from ..entries import BranchSummaryEntry, CompactionEntry, Entry, MessageEntry
from ..formats.pi_messages import BashExecution
from ..rows import SessionInfo

__all__ = [
    "Piece",
    "Row",
    "command_notes",
    "counted",
    "failure",
    "head_rows",
    "image_bytes",
    "lines_in",
    "pieces",
    "reply_notes",
    "seconds_text",
    "title_of",
    "tokens_text",
    "was_declined",
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


def counted(number: int, noun: str) -> str:
    """`1 line`, `1,234 lines`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def lines_in(text: str) -> int:
    """How many lines *text* has; a line end at its end begins none."""
    return text.count("\n") + (not text.endswith("\n")) if text else 0


def seconds_text(seconds: float) -> str:
    """A time that something took: `0.3 s`, `2 min 5 s`, `3 h 20 min`."""
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes else f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min"


def was_declined(result: ToolResultMessage) -> bool:
    """Whether a call was not run since the user or a rule did not want it.

    A result that is kept has only its text to tell that by: the words of permissions/gate.py, and
    of harness/journal.py.
    """
    if not result.is_error or result.details is not None:
        return False
    name = result.tool_name
    denied = f"The call of {name!r} was not approved and not run."
    return result.text.startswith((f"{name} was not run: ", denied))


# -- what was spent --------------------------------------------------------------------------


class Row(NamedTuple):
    """One of the facts that stand above a document."""

    name: str
    values: list[str]
    is_code: bool = False


def head_rows(info: SessionInfo, entries: Sequence[Entry]) -> list[Row]:
    """What is to be known of a session before it is read; *entries* are those that are shown."""
    messages = [entry.message for entry in entries if isinstance(entry, MessageEntry)]
    replies = [message for message in messages if isinstance(message, AssistantMessage)]
    models = list(dict.fromkeys(name for reply in replies if (name := _model_of(reply))))
    rows = [Row("Date", [when(info.created_at)])]
    if info.cwd:
        rows.append(Row("Folder", [info.cwd], is_code=True))
    if models:
        rows.append(Row("Model" if len(models) == 1 else "Models", models, is_code=True))
    rows.append(Row("Session", [info.id], is_code=True))
    if replies:
        rows.append(Row("Work", [_work_text(messages, replies)]))
    times = [entry.timestamp for entry in entries]
    if times and max(times) > min(times):
        seconds = (max(times) - min(times)) / 1000
        rows.append(Row("Time", [f"{seconds_text(seconds)} from the first to the last"]))
    rows.append(Row("Tokens", [_usage_text(_spent(info, entries))]))
    return rows


def _work_text(messages: Sequence[AgentMessage], replies: Sequence[AssistantMessage]) -> str:
    calls = sum(len(reply.tool_calls) for reply in replies)
    errors = [each for each in messages if isinstance(each, ToolResultMessage) and each.is_error]
    declined = sum(map(was_declined, errors))
    failed = len(errors) - declined
    said = counted(len(replies), "turn")
    said += f", {counted(calls, 'tool call')}" if calls else ""
    said += f", {failed:,} of them failed" if failed else ""
    return f"{said}, {declined:,} {'' if failed else 'of them '}declined" if declined else said


def _spent(info: SessionInfo, entries: Iterable[Entry]) -> Usage:
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


def _usage_text(usage: Usage) -> str:
    """*usage* as one line. An unknown cost is said to be unknown."""
    if usage.is_empty:
        return "no tokens counted"
    unknown = "; cost unknown" if usage.cost.total is None else ""
    return f"{tokens_text(usage)}{unknown}"


def tokens_text(usage: Usage) -> str:
    """The tokens of *usage*, and the cost if it is known."""
    parts = [f"{usage.input:,} in", f"{usage.output:,} out"]
    if usage.cache_read or usage.cache_write:
        parts.append(f"{usage.cache_read:,} read from cache, {usage.cache_write:,} written to it")
    total = usage.cost.total
    return f"{', '.join(parts)}{'' if total is None else f'; ${total:,.4f}'}"


def reply_notes(message: AssistantMessage, finished_at: int) -> list[str]:
    """Which model wrote a reply, what it cost, and how long it took. *finished_at* is in ms."""
    notes = [name] if (name := _model_of(message)) else []
    if not message.usage.is_empty:
        notes.append(tokens_text(message.usage))
    # A reply has the time of its beginning, its entry that of its end.
    if finished_at > message.timestamp > 0:
        notes.append(seconds_text((finished_at - message.timestamp) / 1000))
    return notes


def _model_of(reply: AssistantMessage) -> str:
    return f"{reply.provider}/{reply.model}" if reply.provider else reply.model


def command_notes(ran: BashExecution) -> list[str]:
    """How a command of the user's ended, and that its output is not all of it."""
    notes = ["stopped"] if ran.cancelled else []
    if ran.exit_code is not None:
        notes.append(f"exit code {ran.exit_code}")
    return [*notes, "output cut"] if ran.truncated else notes


def failure(message: AssistantMessage) -> str | None:
    """What was wrong with a reply, in a word or a sentence; None if nothing was."""
    said = " ".join((message.error_message or "").split())
    match message.stop_reason:
        case "error":
            return f"failed: {said}" if said else "failed"
        case "aborted":
            said = said.removeprefix(ABORTED).removeprefix(":").strip()
            return f"aborted: {said}" if said else "aborted"
        case "length":
            return "cut by the output limit"
        case _:
            return None
