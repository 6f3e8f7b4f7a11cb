"""What the tests of the loop share: events as short names, and what must hold for every run.

Not here: fixtures; these are plain functions, imported where they are used.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from loopwright import Agent
from loopwright.events import (
    AgentEnd,
    AgentEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from loopwright.messages import AssistantMessage, ToolResultMessage
from loopwright.testing import Reply, ScriptedModel
from loopwright.testing.scripted import ScriptedReply


def short(event: AgentEvent) -> str:
    """`user start`, `assistant end`, `result c1 start`, `tool c1 end`, else the event's type."""
    match event:
        case MessageStart(message=message) | MessageEnd(message=message):
            edge = "start" if isinstance(event, MessageStart) else "end"
            if isinstance(message, ToolResultMessage):
                return f"result {message.tool_call_id} {edge}"
            return f"{message.role} {edge}"
        case ToolExecutionStart() | ToolExecutionUpdate() | ToolExecutionEnd():
            return f"tool {event.tool_call_id} {event.type.removeprefix('tool_execution_')}"
        case MessageUpdate():
            return "update"
        case _:
            return event.type


def trace(events: Iterable[AgentEvent], *, updates: bool = False) -> list[str]:
    """The short names in order; `message_update`s are left out unless asked for."""
    return [short(event) for event in events if updates or not isinstance(event, MessageUpdate)]


USER = ["user start", "user end"]
REPLY = ["assistant start", "assistant end"]
PLAIN = ["agent_start", "turn_start", *USER, *REPLY, "turn_end", "agent_end"]


def result_of(*ids: str) -> list[str]:
    """The trace of the result messages of these calls."""
    return [f"result {id} {edge}" for id in ids for edge in ("start", "end")]


def executed(*ids: str) -> list[str]:
    """The trace of these calls, one after the other, without their result messages."""
    return [f"tool {id} {edge}" for id in ids for edge in ("start", "end")]


def scripted(
    *replies: ScriptedReply | str, **options: Any
) -> tuple[Agent, ScriptedModel, list[AgentEvent]]:
    """An agent whose model says *replies*, the model, and the list its events go to."""
    script = [Reply(reply) if isinstance(reply, str) else reply for reply in replies]
    model = ScriptedModel(script)
    agent = Agent(model.model, stream_fn=model.stream_fn, **options)
    events: list[AgentEvent] = []
    agent.subscribe(events.append)
    return agent, model, events


def roles(messages: Iterable[Any]) -> list[str]:
    """Who said what."""
    return [message.role for message in messages]


def texts(messages: Iterable[Any]) -> list[str]:
    """The text of each message."""
    return [message.text for message in messages]


def results(messages: Iterable[Any]) -> list[ToolResultMessage]:
    """The tool results among *messages*."""
    return [message for message in messages if isinstance(message, ToolResultMessage)]


def assert_well_formed(messages: Sequence[Any]) -> None:
    """Every call of a completed reply has one result, directly behind it, in the order asked."""
    expected: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            assert expected, f"a result for {message.tool_call_id!r} that no call waits for"
            assert message.tool_call_id == expected.pop(0)
        else:
            assert not expected, f"calls without a result: {expected}"
            if isinstance(message, AssistantMessage):
                failed = message.stop_reason in ("error", "aborted")
                expected = [] if failed else [call.id for call in message.tool_calls]
    assert not expected, f"calls without a result: {expected}"


def assert_paired(events: Sequence[AgentEvent]) -> None:
    """Starts and ends pair, nothing is open twice, and `agent_end` comes last and once."""
    names = trace(events)
    assert names[0] == "agent_start"
    assert names[-1] == "agent_end"
    assert names.count("agent_start") == names.count("agent_end") == 1
    opened: list[str] = []
    for name in names:
        thing, _, edge = name.replace("_", " ").rpartition(" ")
        if edge == "start":
            opened.append(thing)
        elif edge == "end":
            assert thing in opened, f"{name} without its start in {names}"
            opened.remove(thing)
    assert not opened, f"left open: {opened} in {names}"
    ended = [event for event in events if isinstance(event, AgentEnd)]
    said = [event.message for event in events if isinstance(event, MessageEnd)]
    assert ended[0].messages == said


@contextlib.asynccontextmanager
async def no_task_left() -> AsyncIterator[None]:
    """What runs inside must leave no task behind."""
    before = asyncio.all_tasks()
    yield
    assert asyncio.all_tasks() == before


async def until(condition: Any) -> None:
    """Let others run until *condition()* holds."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")
