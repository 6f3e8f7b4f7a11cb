"""What a run reports, in order: it starts, turns pass, messages appear, tools run, it ends.

`AgentEnd` is the last event of every run. Starts and ends pair up, whatever happened. Events are
plain data; `MessageUpdate.message` is built when read.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from .messages import AgentMessage, AgentToolResult, AssistantMessage, ToolResultMessage
from .records import Record, decode_tagged
from .stream.events import AssistantMessageEvent, Retry, StreamEvent

__all__ = [
    "AgentEnd",
    "AgentEvent",
    "AgentStart",
    "MessageEnd",
    "MessageStart",
    "MessageUpdate",
    "Retry",
    "ToolExecutionEnd",
    "ToolExecutionStart",
    "ToolExecutionUpdate",
    "TurnEnd",
    "TurnStart",
    "event_from_dict",
]


class AgentStart(Record, tag_field="type", tag="agent_start"):
    """The run begins."""

    type: ClassVar[str] = "agent_start"


class AgentEnd(Record, tag_field="type", tag="agent_end"):
    """The run is over; *messages* are those it added, in order."""

    type: ClassVar[str] = "agent_end"
    messages: list[AgentMessage]


class TurnStart(Record, tag_field="type", tag="turn_start"):
    """One model request and the tools it asks for begin."""

    type: ClassVar[str] = "turn_start"


class TurnEnd(Record, tag_field="type", tag="turn_end"):
    """The turn is over; results are in the order the model asked."""

    type: ClassVar[str] = "turn_end"
    message: AssistantMessage
    tool_results: list[ToolResultMessage]


class MessageStart(Record, tag_field="type", tag="message_start"):
    """A message appears. Of an assistant's message this is its first partial."""

    type: ClassVar[str] = "message_start"
    message: AgentMessage


class MessageUpdate(Record, tag_field="type", tag="message_update", gc=False):
    """The assistant's message grew by one stream event."""

    type: ClassVar[str] = "message_update"
    assistant_message_event: AssistantMessageEvent

    @property
    def message(self) -> AssistantMessage:
        """The message as it stood right after this event; built now, and yours."""
        return cast("Any", self.assistant_message_event).partial

    def to_dict(self, camel: bool = False, *, partials: bool = False) -> dict[str, Any]:
        """As plain data; the message and the partial only if asked for, since with them the size
        of a written stream would be quadratic."""
        name = "assistantMessageEvent" if camel else "assistant_message_event"
        event = cast("StreamEvent", self.assistant_message_event)
        data: dict[str, Any] = {
            "type": self.type,
            name: event.to_dict(camel, partials=partials),
        }
        if partials:
            data["message"] = self.message.to_dict(camel)
        return data


class MessageEnd(Record, tag_field="type", tag="message_end"):
    """The message is finished and part of the transcript."""

    type: ClassVar[str] = "message_end"
    message: AgentMessage


class ToolExecutionStart(Record, tag_field="type", tag="tool_execution_start"):
    """A call is looked at; *args* are the model's, as they came."""

    type: ClassVar[str] = "tool_execution_start"
    tool_call_id: str
    tool_name: str
    args: Any


class ToolExecutionUpdate(Record, tag_field="type", tag="tool_execution_update"):
    """The running tool reports progress."""

    type: ClassVar[str] = "tool_execution_update"
    tool_call_id: str
    tool_name: str
    args: Any
    partial_result: AgentToolResult


class ToolExecutionEnd(Record, tag_field="type", tag="tool_execution_end"):
    """The call is settled."""

    type: ClassVar[str] = "tool_execution_end"
    tool_call_id: str
    tool_name: str
    result: AgentToolResult
    is_error: bool


AgentEvent = (
    AgentStart
    | AgentEnd
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | Retry
)


def event_from_dict(data: dict[str, Any]) -> AgentEvent:
    """An event from plain data in either case. Raises `DecodeError` for an unknown type."""
    return decode_tagged(AgentEvent, data, "event")
