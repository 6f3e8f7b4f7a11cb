"""One life of a scenario: the store it works on, and what it tells beyond its own death.

Not here: ending it (killing), or starting it (worker).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ...events import AgentEvent, MessageEnd, ToolExecutionEnd
from ...loop.agent import Agent
from ...loop.wording import waits_for_approval
from ...messages import AssistantMessage, ToolResultMessage
from ...session.entries import MessageEntry, to_row
from ...session.store import SessionStore
from .killing import KillPoints

__all__ = ["Diary", "Effects", "Life", "Scenario"]

AgentT = TypeVar("AgentT", bound="Agent[Any]")


class Diary:
    """A file of JSON lines that several processes write to, one after another.

    Each line is one `write` to a file opened for appending. That is in the hands of the operating
    system and so survives the process; against a power failure nothing is done.
    """

    def __init__(self, path: Path, life: int) -> None:
        self._life = life
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, line: dict[str, Any]) -> None:
        """Keep *line*."""
        os.write(self._file, msgspec.json.encode({"life": self._life, **line}) + b"\n")

    @staticmethod
    def read(path: Path) -> list[dict[str, Any]]:
        """All lines, oldest first; none if nobody has written any."""
        if not path.exists():
            return []
        return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


class Effects:
    """What the scenario has done to the world. Tell of it where your tool does it."""

    def __init__(self, diary: Diary, points: KillPoints) -> None:
        self._diary = diary
        self._points = points

    def happened(self, name: str, *, safe: bool = False) -> None:
        """The effect *name* happens now; may be called from any thread.

        Names are unique within a scenario: `pay invoice 7`. One that is not *safe* to repeat may
        happen once in all lives of the scenario.
        """
        number = self._points.enter("effect", f"effect {name!r}")
        self._diary.note({"effect": name, "safe": safe})
        self._points.leave(number)


class Life:
    """What a scenario is handed each time it is run."""

    def __init__(
        self, number: int, store: SessionStore, folder: Path, effects: Effects, diary: Diary
    ) -> None:
        self.number = number
        """1 for the first process, 2 for the one that goes on after its death."""
        self.store = store
        """The store under test. Do not close it."""
        self.folder = folder
        """For files of the scenario's own; the same in all its lives."""
        self.effects = effects
        self._diary = diary

    def watch(self, agent: AgentT) -> AgentT:
        """*agent*, of which is noted what it announces and what it asks models.

        All that was announced must be found in the store, whenever the process dies; and in every
        request each call must be followed by its result.
        """
        ask = agent.stream_fn

        def ask_noted(model: Any, context: Any, /, **options: Any) -> Any:
            fault = fault_of_request(context.messages)
            if fault is not None:
                self._diary.note({"fault": f"a request that vendors refuse: {fault}"})
            return ask(model, context, **options)

        agent.stream_fn = ask_noted
        agent.subscribe(self._hear)
        return agent

    def _hear(self, event: AgentEvent) -> None:
        if isinstance(event, MessageEnd):
            row = to_row(MessageEntry(parent_id=None, message=event.message))
            self._diary.note({"heard": msgspec.json.decode(row.payload)["message"]})
        elif isinstance(event, ToolExecutionEnd):
            parked = waits_for_approval(event.tool_name).content
            if event.result.content != parked:  # else it has not ended at all
                result = ToolResultMessage(
                    event.tool_call_id, event.tool_name, event.result.content
                )
                row = to_row(MessageEntry(parent_id=None, message=result))
                told = msgspec.json.decode(row.payload)["message"]
                self._diary.note({"ended": told["toolCallId"], "content": told["content"]})


Scenario = Callable[[Life], Awaitable[object]]
"""Runs an agent on `life.store` to the end, however far an earlier life has come."""


def fault_of_request(messages: Sequence[Any]) -> str | None:
    """What a vendor would refuse in a request of *messages*; None if there is nothing."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            if not waiting:
                return f"a result without a call: {message.tool_call_id}"
            if message.tool_call_id != waiting.pop(0):
                return f"the result of {message.tool_call_id} is not in its place"
            continue
        if waiting:
            return f"calls without results: {', '.join(waiting)}"
        if isinstance(message, AssistantMessage):
            if message.stop_reason in ("error", "aborted"):
                return "a reply that failed"
            waiting = [call.id for call in message.tool_calls]
    return f"calls without results: {', '.join(waiting)}" if waiting else None
