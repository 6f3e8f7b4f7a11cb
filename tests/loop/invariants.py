"""What holds after every run, however it ended: events pair up, and calls and results do.

The checks take what listeners were told and what the agent has, and raise with what was wrong.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from loopwright import Agent
from loopwright.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Retry,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from loopwright.messages import AssistantMessage, ToolResultMessage, UserMessage

__all__ = [
    "check_events",
    "check_idle",
    "check_sendable",
    "frozen_garbage",
    "same_objects",
    "said",
]


def check_events(events: Sequence[AgentEvent]) -> list[Any]:
    """The grammar of one run's events. Returns the messages it announced."""
    told = [event.type for event in events]
    assert told, "not one event was told"
    assert told[0] == "agent_start", told
    assert told[-1] == "agent_end", told
    assert told.count("agent_start") == told.count("agent_end") == 1, told
    turn: _Turn | None = None
    messages: list[Any] = []
    for event in events[1:-1]:
        if isinstance(event, TurnStart):
            assert turn is None, f"a turn began inside a turn: {told}"
            turn = _Turn()
            continue
        assert turn is not None, f"{event.type} outside of a turn: {told}"
        if isinstance(event, TurnEnd):
            turn.end(event)
            turn = None
            continue
        turn.take(event)
        if isinstance(event, MessageEnd):
            messages.append(event.message)
    assert turn is None, f"a turn did not end: {told}"
    last = events[-1]
    assert isinstance(last, AgentEnd)
    assert same_objects(last.messages, messages), "agent_end tells of other messages"
    return messages


class _Turn:
    """One turn while its events are read."""

    def __init__(self) -> None:
        self.open: Any = None
        self.reply: AssistantMessage | None = None
        self.results: list[ToolResultMessage] = []
        self.started: list[str] = []
        self.running: list[str] = []

    def take(self, event: AgentEvent) -> None:
        if isinstance(event, MessageStart):
            assert self.open is None, "a message began inside a message"
            self.open = event.message
            if isinstance(event.message, UserMessage):
                assert self.reply is None, "a user message behind the reply of its turn"
        elif isinstance(event, MessageUpdate):
            assert isinstance(self.open, AssistantMessage), "an update without its message"
        elif isinstance(event, MessageEnd):
            self.message_end(event.message)
        elif isinstance(event, Retry):
            assert self.open is None, "a retry inside a message"
            assert self.reply is None, "a retry behind the reply"
        elif isinstance(event, ToolExecutionStart):
            assert self.reply is not None, "a tool was started before the reply was complete"
            self.started.append(event.tool_call_id)
            self.running.append(event.tool_call_id)
        elif isinstance(event, ToolExecutionUpdate):
            assert event.tool_call_id in self.running, "an update of a tool that does not run"
        elif isinstance(event, ToolExecutionEnd):
            assert event.tool_call_id in self.running, "a tool ended that was not running"
            self.running.remove(event.tool_call_id)
        else:
            assert not isinstance(event, AgentStart | AgentEnd | TurnStart | TurnEnd)

    def message_end(self, message: Any) -> None:
        assert self.open is not None, f"a {message.role} message ended that had not begun"
        assert self.open.role == message.role, "one message began and another ended"
        if isinstance(message, AssistantMessage):
            assert self.reply is None, "two replies in one turn"
            self.reply = message
        else:
            assert self.open is message, "one message began and another ended"
        if isinstance(message, ToolResultMessage):
            self.results.append(message)
        self.open = None

    def end(self, event: TurnEnd) -> None:
        assert self.open is None, f"a {self.open.role} message did not end"
        assert event.message is self.reply, "turn_end tells of another reply"
        assert same_objects(event.tool_results, self.results), "turn_end tells of other results"
        assert not self.running, f"calls did not end: {self.running}"
        calls = owed(event.message)
        assert self.started == calls, f"{calls} were asked for and {self.started} started"
        answered = [result.tool_call_id for result in self.results]
        assert answered == calls, f"{calls} were asked for and {answered} answered"


def owed(reply: AssistantMessage) -> list[str]:
    """The calls of a reply that must each have one result."""
    if reply.stop_reason in ("error", "aborted"):
        return []
    return [call.id for call in reply.tool_calls]


def same_objects(left: Sequence[object], right: Sequence[object]) -> bool:
    """The same objects in the same order."""
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))


def check_idle(agent: Agent) -> None:
    """Between runs nothing is going on."""
    state = agent.state
    assert not state.is_streaming
    assert state.pending_tool_calls == frozenset()
    assert state.streaming_message is None
    assert agent.signal is None


def check_sendable(messages: Sequence[Any]) -> None:
    """A request that every vendor accepts: each call is answered once, right behind its reply, in
    order; replies that failed are not in it; ids are unique."""
    ids: list[str] = []
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            assert waiting, f"a result without a call: {message.tool_call_id}"
            assert message.tool_call_id == waiting.pop(0), "results are out of order"
            continue
        assert not waiting, f"calls without results: {waiting}"
        if isinstance(message, AssistantMessage):
            assert message.stop_reason not in ("error", "aborted")
            assert message.content
            waiting = [call.id for call in message.tool_calls]
            ids += waiting
    assert not waiting, f"calls without results: {waiting}"
    assert len(ids) == len(set(ids)), f"ids are not unique: {ids}"
    assert messages, "an empty request"


def said(messages: Sequence[Any]) -> list[str]:
    """The texts of the user messages."""
    return [message.text for message in messages if isinstance(message, UserMessage)]


@contextmanager
def frozen_garbage() -> Iterator[None]:
    """Makes `gc.collect` look at new objects only, so that one can afford it after every run; what
    asyncio says of forgotten exceptions and tasks it says when they are collected."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
