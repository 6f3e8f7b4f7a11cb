"""Gives events that somebody else made a place in a draft, so that their `partial` is right.

A stream function written by a user yields plain events; their text is followed into a draft here,
one event at a time. Events that bring a partial of their own keep it.
"""

from __future__ import annotations

from typing import Any

from ..messages import AssistantMessage, TextContent, ThinkingContent, ToolCall
from .draft import Block, Draft
from .events import (
    Done,
    Error,
    Start,
    StreamEvent,
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    attach,
    text_delta_source,
)

__all__ = ["Follower"]


class Follower:
    """Follows the events of one reply."""

    __slots__ = ("_draft",)

    def __init__(self, head: AssistantMessage) -> None:
        self._draft = Draft(head)

    def adopt(self, event: Any) -> StreamEvent:
        """*event* itself, now with a partial. Raises TypeError for what is no stream event."""
        draft = self._draft
        if type(event) is TextDelta:  # nearly always, so the draft's own append is written out
            index = event.content_index
            delta = event.delta
            if index == draft.current:
                draft.log.append(delta)
            else:
                self._open(index, TextContent(""))
                draft.append(index, delta)
            if text_delta_source(event) is not None:
                return event
            return TextDelta(index, delta, draft, len(draft.log))  # pyright: ignore[reportArgumentType]
        if isinstance(event, Done | Error):
            return event
        if not isinstance(event, StreamEvent):
            raise TypeError(
                f"a stream function yields stream events, not {type(event).__name__}; see "
                "loopwright.stream for the kinds"
            )
        return attach(event, draft, self._follow(event))

    def _follow(self, event: StreamEvent) -> int:
        draft = self._draft
        index: int = getattr(event, "content_index", -1)
        if index >= 0:
            self._open(index, _opening(event))  # also for an end, which may come without a start
        if isinstance(event, ThinkingDelta | ToolCallDelta):
            return draft.append(index, event.delta)
        if isinstance(event, TextEnd):
            return draft.close(index, TextContent(event.content))
        if isinstance(event, ThinkingEnd):
            return draft.close(index, ThinkingContent(event.content))
        if isinstance(event, ToolCallEnd):
            return draft.close(index, event.tool_call)
        if isinstance(event, Start):
            given = event.partial
            return draft.set_head(given) if given.model or given.provider else draft.position
        return draft.position

    def _open(self, index: int, block: Block | None) -> None:
        if block is not None and not self._draft.is_open(index):
            self._draft.open(index, block)


def _opening(event: StreamEvent) -> Block | None:
    """The empty block that *event* begins, or None for a kind unknown here."""
    if event.type.startswith("text_"):
        return TextContent("")
    if event.type.startswith("thinking_"):
        return ThinkingContent("")
    if isinstance(event, ToolCallStart):
        return ToolCall(event.tool_call_id, event.tool_name, {})
    return ToolCall("", "", {}) if event.type.startswith("toolcall_") else None
