"""Turns what a wire decodes into events over one draft; pure, so that any bytes can be tried.

One builder makes one reply. Methods return the event to hand on; the final message is put
together once, when the reply is done: text joined once, arguments parsed once.

Not here: bytes (the wires), or waiting (AssistantStream, StreamWriter).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ..errors import WireError
from ..messages import AssistantMessage, TextContent, ThinkingContent, ToolCall, Usage
from .draft import Block, Draft
from .events import (
    AssistantMessageEvent,
    Done,
    Error,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from .tool_arguments import ParsedArguments, parse_arguments

__all__ = ["MAX_BLOCKS", "ReplyBuilder"]

MAX_BLOCKS = 10_000
"""In one reply. Each costs about a kilobyte however little it holds, so a bound on the bytes of a
reply is none on its memory."""


class ReplyBuilder:
    """One reply under construction. Blocks get content indexes in the order they are opened."""

    __slots__ = ("_call_ids", "_closed", "_next_index", "draft")

    def __init__(self, *, api: str = "", provider: str = "", model: str = "") -> None:
        self.draft = Draft(AssistantMessage([], api, provider, model))
        self._closed: dict[int, Block] = {}
        self._next_index = 0
        self._call_ids: dict[str, int] = {}

    def update(
        self,
        *,
        usage: Usage | None = None,
        response_id: str | None = None,
        model: str | None = None,
    ) -> None:
        """Note what the vendor said about the reply as a whole; None leaves a value as it is."""
        head = self.draft.head
        changes: dict[str, Any] = {}
        if usage is not None and usage != head.usage:
            changes["usage"] = usage
        if response_id and response_id != head.response_id:
            changes["response_id"] = response_id
        if model and model != head.model:
            changes["model"] = model
        if changes:
            self.draft.set_head(msgspec.structs.replace(head, **changes))

    def start(self) -> Start:
        """The vendor has begun to answer."""
        return Start(self.draft, self.draft.position)  # pyright: ignore[reportArgumentType]

    # -- text ---------------------------------------------------------------------------------

    def text_start(self) -> TextStart:
        """Open a text block."""
        index = self._take_index()
        return TextStart(index, self.draft, self.draft.open(index, TextContent("")))  # pyright: ignore[reportArgumentType]

    def text_delta(self, index: int, delta: str) -> TextDelta:
        """Grow the text block at *index*."""
        draft = self.draft
        return TextDelta(index, delta, draft, draft.append(index, delta))  # pyright: ignore[reportArgumentType]

    def text_deltas(self, index: int, deltas: list[str]) -> list[TextDelta]:
        """`text_delta` for several pieces that came together."""
        draft = self.draft
        if len(deltas) == 1:  # a live reply brings its tokens one by one
            (delta,) = deltas
            return [TextDelta(index, delta, draft, draft.append(index, delta))]  # pyright: ignore[reportArgumentType]
        before = draft.append_all(index, deltas) + 1
        return [
            TextDelta(index, delta, draft, at)  # pyright: ignore[reportArgumentType]
            for at, delta in enumerate(deltas, before)
        ]

    def text_end(
        self, index: int, *, text: str | None = None, signature: str | None = None
    ) -> TextEnd:
        """Close the text block at *index*; *text* replaces its pieces where a vendor's last word
        differs from them."""
        if text is None:
            text = self.draft.text(index)
        at = self._close(index, TextContent(text, signature))
        return TextEnd(index, text, self.draft, at)  # pyright: ignore[reportArgumentType]

    # -- thinking -----------------------------------------------------------------------------

    def thinking_start(self, *, redacted: bool = False) -> ThinkingStart:
        """Open a thinking block."""
        index = self._take_index()
        at = self.draft.open(index, ThinkingContent("", None, redacted))
        return ThinkingStart(index, self.draft, at)  # pyright: ignore[reportArgumentType]

    def thinking_delta(self, index: int, delta: str) -> ThinkingDelta:
        """Grow the thinking block at *index*."""
        draft = self.draft
        return ThinkingDelta(index, delta, draft, draft.append(index, delta))  # pyright: ignore[reportArgumentType]

    def thinking_end(
        self, index: int, *, text: str | None = None, signature: str | None = None
    ) -> ThinkingEnd:
        """Close the thinking block at *index*; *signature* goes back to the vendor as it is, and
        *text* replaces its pieces."""
        opened = self.draft.opened_as(index)
        redacted = isinstance(opened, ThinkingContent) and opened.redacted
        if text is None:
            text = self.draft.text(index)
        at = self._close(index, ThinkingContent(text, signature, redacted))
        return ThinkingEnd(index, text, self.draft, at)  # pyright: ignore[reportArgumentType]

    # -- tool calls ---------------------------------------------------------------------------

    def tool_call_start(self, id: str, name: str) -> ToolCallStart:
        """Open a call. An id that this reply used before gets a suffix, so that events and
        results can be told apart (some vendors number every call 0)."""
        index = self._take_index()
        draft = self.draft
        id = self._unique(id)
        at = draft.open(index, ToolCall(id, name, {}))
        return ToolCallStart(index, draft, at, id, name)  # pyright: ignore[reportArgumentType]

    def tool_call_delta(self, index: int, delta: str) -> ToolCallDelta:
        """Grow the arguments, as JSON text, of the call at *index*."""
        draft = self.draft
        return ToolCallDelta(index, delta, draft, draft.append(index, delta))  # pyright: ignore[reportArgumentType]

    def tool_call_end(
        self,
        index: int,
        *,
        id: str | None = None,
        name: str | None = None,
        arguments: dict[str, Any] | None = None,
        parsed: ParsedArguments | None = None,
        thought_signature: str | None = None,
    ) -> ToolCallEnd:
        """Close the call at *index*: its text is parsed now, strictly, unless *arguments* are
        given, or were *parsed* already. A late *id* or *name* replaces what it was opened with."""
        opened = self.draft.opened_as(index)
        assert isinstance(opened, ToolCall)
        if id is not None and id != opened.id:
            id = self._unique(id)
        raw: str | None = None
        fault: str | None = None
        if arguments is None:
            parsed = parsed or parse_arguments(self.draft.text(index))
            arguments, raw, fault = (
                parsed.arguments,
                parsed.raw_arguments,
                parsed.arguments_error,
            )
        call = ToolCall(
            id or opened.id, name or opened.name, arguments, thought_signature, raw, fault
        )
        at = self._close(index, call)
        return ToolCallEnd(index, call, self.draft, at)  # pyright: ignore[reportArgumentType]

    # -- the end ------------------------------------------------------------------------------

    def close_open_blocks(self) -> list[AssistantMessageEvent]:
        """End every block still open, in the order they were opened."""
        events: list[AssistantMessageEvent] = []
        for index in self.draft.open_blocks:
            opened = self.draft.opened_as(index)
            if isinstance(opened, TextContent):
                events.append(self.text_end(index))
            elif isinstance(opened, ThinkingContent):
                events.append(self.thinking_end(index))
            else:
                events.append(self.tool_call_end(index))
        return events

    def done(
        self,
        reason: Literal["stop", "length", "toolUse"],
        *,
        raw: str | None = None,
        usage: Usage | None = None,
    ) -> Done:
        """The reply is complete; blocks must be closed.

        Complete calls win over an odd reason: `stop` with calls becomes `toolUse`, and `toolUse`
        without any becomes `stop`. *raw* is the vendor's own word.
        """
        content = [self._closed[index] for index in sorted(self._closed)]
        if reason != "length":
            has_calls = any(type(block) is ToolCall for block in content)
            reason = "toolUse" if has_calls else "stop"
        self.update(usage=usage)
        message = msgspec.structs.replace(
            self.draft.head, content=content, stop_reason=reason, raw_stop_reason=raw
        )
        return Done(reason, message)

    def error(
        self,
        text: str,
        *,
        reason: Literal["error", "aborted"] = "error",
        raw: str | None = None,
        usage: Usage | None = None,
        kind: str | None = None,
        retryable: bool = False,
        retry_after_seconds: float | None = None,
    ) -> Error:
        """The reply failed with what it holds so far; *text* says why."""
        self.update(usage=usage)
        message = msgspec.structs.replace(
            self.draft.at(self.draft.position),
            stop_reason=reason,
            error_message=text,
            raw_stop_reason=raw,
        )
        return Error(reason, message, retryable, retry_after_seconds, kind)

    # -- inside -------------------------------------------------------------------------------

    def _take_index(self) -> int:
        index = self._next_index
        if index >= MAX_BLOCKS:
            raise WireError(
                f"the reply has more than {MAX_BLOCKS:,} blocks of text, thinking and calls",
                hint="no model answers like that; look at what stands between here and the vendor",
            )
        self._next_index = index + 1
        return index

    def _close(self, index: int, block: Block) -> int:
        self._closed[index] = block
        return self.draft.close(index, block)

    def _unique(self, id: str) -> str:
        if id not in self._call_ids:  # nearly always
            self._call_ids[id] = 1
            return id
        unique, n = id, self._call_ids[id]
        while unique in self._call_ids:
            n += 1
            unique = f"{id}_{n}"
        self._call_ids[id] = n  # where to go on, should this id come again
        self._call_ids.setdefault(unique, 1)
        return unique
