"""What a child agent does, as its parent's listeners hear of it.

Each event of a child comes as the `details` of a `tool_execution_update` of the call that started
it, in an envelope that says whose it is and how deep it is nested:

    {"subagent": {"id": "…", "agent": "explore", "depth": 1, "parentId": null, "seq": 7,
                  "event": {"type": "tool_execution_start", …}}}

The events of a child's own children are passed on in their own envelopes, as they are. So what is
written of a run stays linear in what was said, however deep: no event holds the message so far, the
end of a turn or run does not repeat what was in it, and pieces of text that come close together
are joined.

Not here: running the child (subagent.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec

from ..events import (
    AgentEnd,
    AgentEvent,
    MessageUpdate,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
)
from ..messages import AgentToolResult, AssistantMessage, TextContent
from ..stream import TextDelta, ThinkingDelta, ToolCallDelta

__all__ = ["EventRelay", "SubagentName", "subagent_event"]

HOLD_SECONDS = 0.05
"""Pieces of text are held back so long to be told at once."""

HOLD_CHARACTERS = 4_000
"""More text than that is not held back."""

_Delta = TextDelta | ThinkingDelta | ToolCallDelta


class SubagentName(msgspec.Struct, frozen=True):
    """Whose events they are."""

    id: str
    agent: str
    depth: int
    """1 for the child of an agent that is no child itself."""
    parent_id: str | None
    """The child whose child this is; None at depth 1."""


def subagent_event(event: AgentEvent) -> dict[str, Any] | None:
    """The envelope that *event* brings, if it is the update of a call that runs a child: a dict
    with `id`, `agent`, `depth`, `parentId`, `seq` and `event`, as plain camelCase data which
    `event_from_dict` reads. None for any other event."""
    return _envelope(event.partial_result) if isinstance(event, ToolExecutionUpdate) else None


def _envelope(result: AgentToolResult) -> dict[str, Any] | None:
    details: Any = result.details
    if not isinstance(details, dict):
        return None
    found: Any = cast("dict[str, Any]", details).get("subagent")
    return cast("dict[str, Any]", found) if isinstance(found, dict) and "event" in found else None


class EventRelay:
    """A listener of a child that passes on what it hears. Closed when the child is through."""

    def __init__(self, name: SubagentName, tell: Callable[[AgentToolResult], object]) -> None:
        self._name = name
        self._tell = tell
        self._seq = 0
        self._delta: _Delta | None = None
        self._pieces: list[str] = []
        self._length = 0
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, event: AgentEvent) -> None:
        """Hear *event*."""
        if isinstance(event, MessageUpdate):
            said = event.assistant_message_event
            if isinstance(said, TextDelta | ThinkingDelta | ToolCallDelta):
                self._hold(said)
                return
        elif isinstance(event, ToolExecutionUpdate) and _envelope(event.partial_result) is not None:
            self._tell(event.partial_result)  # of a child's child, and told in its own name
            return
        self.flush()
        self._send(_told(event), _in_short(event))

    def close(self) -> None:
        """Tell what is held back, and let go."""
        self.flush()

    def flush(self) -> None:
        """Tell what is held back now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        delta, self._delta = self._delta, None
        if delta is not None:
            joined = "".join(self._pieces)
            self._pieces, self._length = [], 0
            kind = type(delta)
            self._send(_told(MessageUpdate(kind(delta.content_index, joined))))

    def _hold(self, delta: _Delta) -> None:
        held = self._delta
        if held is not None and (
            type(held) is not type(delta) or held.content_index != delta.content_index
        ):
            self.flush()
        self._delta = self._delta or delta
        self._pieces.append(delta.delta)
        self._length += len(delta.delta)
        if self._length >= HOLD_CHARACTERS:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HOLD_SECONDS, self.flush)

    def _send(self, event: dict[str, Any], short: str | None = None) -> None:
        name = self._name
        envelope = {
            "id": name.id,
            "agent": name.agent,
            "depth": name.depth,
            "parentId": name.parent_id,
            "seq": self._seq,
            "event": event,
        }
        self._seq += 1
        content = [] if short is None else [TextContent(short)]
        self._tell(AgentToolResult(cast("Any", content), {"subagent": envelope}))


def _told(event: AgentEvent) -> dict[str, Any]:
    """*event* as data, without what earlier events have told."""
    if isinstance(event, AgentEnd):
        event = AgentEnd([])
    elif isinstance(event, TurnEnd):
        message: AssistantMessage = msgspec.structs.replace(event.message, content=[])
        event = TurnEnd(message, [])
    return event.to_dict(camel=True)


def _in_short(event: AgentEvent) -> str | None:
    """A line for those who show a tool's progress and know nothing of children."""
    return event.tool_name if isinstance(event, ToolExecutionStart) else None
