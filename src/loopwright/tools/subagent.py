"""Running a child agent to its end, whatever happens to its parent.

A child runs in its parent's call, and lives no longer: when the call is aborted or cancelled, the
child is stopped, its closing events are heard, and the call still tells what the child has used.

Not here: which child is run (task.py), or how its events look (subagent_events.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import msgspec

from ..events import AgentEvent, MessageEnd, Retry, TurnEnd
from ..loop.agent import Agent
from ..loop.run_result import RunResult
from ..messages import (
    AgentToolResult,
    AssistantMessage,
    TextContent,
    ToolResultMessage,
    Usage,
)
from ..signals import AbortSignal
from .subagent_events import EventRelay, SubagentName
from .text_limits import byte_size, first_bytes, show_size

__all__ = ["Caller", "Child", "Outcome", "calling", "result_of", "run_child"]


class Caller:
    """The child that is running in this task, for the calls that it makes itself."""

    def __init__(self, agent: Agent[Any], name: SubagentName, max_parallel: int) -> None:
        self.agent = agent
        self.name = name
        self.slots = asyncio.Semaphore(max_parallel)
        """Its own: a child that waited for its own parent's place would wait for ever."""


calling: ContextVar[Caller | None] = ContextVar("loopwright.calling", default=None)
"""Who calls; None for an agent that is no child. Tasks started by a child inherit it."""


class Outcome(msgspec.Struct, frozen=True):
    """How a child ended."""

    text: str
    """Of its last reply that says something."""
    stop_reason: str
    stopped_by: str | None
    error_message: str | None
    usage: Usage
    turns: int
    cancelled: bool = False
    """Its parent's call was cancelled from outside."""

    @property
    def done(self) -> bool:
        """It came to its own end."""
        return self.stop_reason in ("stop", "length", "toolUse") and self.stopped_by in (
            None,
            "terminate",
            "hook",
        )


class Child:
    """An agent that is to do one task, and what is known of it while it does."""

    def __init__(self, agent: Agent[Any], name: SubagentName, description: str) -> None:
        self.agent = agent
        self.name = name
        self.description = description
        self.usage = Usage()
        """All requests so far, retried ones and those that its tools made included."""
        self.turns = 0
        self.text = ""

    def hear(self, event: AgentEvent) -> None:
        """Take note of *event*: a run that is cancelled has no result to ask."""
        if isinstance(event, Retry):
            self.usage += event.usage or Usage()
        elif isinstance(event, TurnEnd):
            self.turns += 1
        elif isinstance(event, MessageEnd):
            message = event.message
            if isinstance(message, AssistantMessage):
                self.usage += message.usage
                self.text = message.text or self.text
            elif isinstance(message, ToolResultMessage) and message.usage is not None:
                self.usage += message.usage

    def outcome(self, result: RunResult[Any] | None) -> Outcome:
        """How it ended; without a *result*, it was cancelled."""
        if result is None:
            said = ("aborted", "abort", "Operation aborted")
        else:
            said = (result.stop_reason, result.stopped_by, result.error_message)
        return Outcome(self.text, *said, self.usage, self.turns, cancelled=result is None)


async def run_child(
    child: Child,
    prompt: str,
    *,
    signal: AbortSignal,
    tell: Callable[[AgentToolResult], object],
    max_parallel: int,
) -> Outcome:
    """Run *child* with *prompt*; *tell* hears of all it does, *signal* stops it.

    A cancellation does not come out: it ends the child, and the outcome says so, so that what the
    child has used is counted. Raises what a wrong call of the agent raises.
    """
    agent = child.agent
    relay = EventRelay(child.name, tell)
    stop_hearing = [agent.subscribe(child.hear), agent.subscribe(relay)]
    unregister = signal.on_abort(lambda: agent.abort(signal.reason))
    before = calling.get()
    calling.set(Caller(agent, child.name, max_parallel))
    result: RunResult[Any] | None = None
    try:
        if not signal.aborted:
            result = await agent.prompt(prompt)
    except asyncio.CancelledError:
        # The child's run has ended by now, closing events and all: the agent sees to that.
        return child.outcome(None)
    finally:
        calling.set(before)
        unregister()
        relay.close()
        for stop in stop_hearing:
            stop()
    return child.outcome(result)


def result_of(child: Child, outcome: Outcome, most_bytes: int, transcript: Any) -> AgentToolResult:
    """What the parent's model is told, and what people are."""
    model = child.agent.model
    details = {
        "id": child.name.id,
        "agent": child.name.agent,
        "description": child.description,
        "depth": child.name.depth,
        "parentId": child.name.parent_id,
        "model": f"{model.provider}/{model.id}",
        "turns": outcome.turns,
        "stopReason": outcome.stop_reason,
        "stoppedBy": outcome.stopped_by,
        "errorMessage": outcome.error_message,
        "usage": outcome.usage.to_dict(camel=True),
        "transcript": transcript,
    }
    return AgentToolResult(
        [TextContent(_in_words(outcome, most_bytes))],
        {"subagent": details},
        not outcome.done,
        usage=None if outcome.usage.is_empty and outcome.usage.known else outcome.usage,
    )


def _in_words(outcome: Outcome, most_bytes: int) -> str:
    text = _cut(outcome.text, most_bytes)
    if outcome.done:
        if outcome.stop_reason == "length":
            return f"{text}\n\n[The agent's answer was cut off by the output limit.]"
        return text or "(The agent ended without an answer.)"
    if outcome.stopped_by == "max_turns":
        why = f"The agent was stopped after {outcome.turns} turns, before it was done."
    elif outcome.stop_reason == "aborted":
        why = outcome.error_message or "Operation aborted"
    else:
        why = f"The agent failed: {outcome.error_message or 'no reason is known'}"
    return f"{why}\n\nThe last that it said:\n{text}" if text else why


def _cut(text: str, most_bytes: int) -> str:
    size = byte_size(text)
    if size <= most_bytes:
        return text
    shown = first_bytes(text, most_bytes)
    return (
        f"{shown}\n\n[Cut: the answer has {show_size(size)}, of which the first "
        f"{show_size(byte_size(shown))} are shown.]"
    )
