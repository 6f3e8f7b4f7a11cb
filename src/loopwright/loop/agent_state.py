"""What an agent knows: its prompt, model, tools and transcript, and what it is doing.

The first five can be assigned; lists are copied in, and the list that is read can be changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..events import (
    AgentEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
)
from ..messages import AgentMessage, AssistantMessage
from ..models.model import Model, ThinkingLevel
from .config import AgentLoopConfig
from .tool import AgentTool, as_tool

__all__ = ["AgentState"]


class AgentState:
    """See `Agent.state`."""

    __slots__ = (
        "_config",
        "_messages",
        "_pending",
        "_streaming",
        "_tools",
        "error_message",
        "is_streaming",
        "system_prompt",
    )

    def __init__(self, config: AgentLoopConfig, system_prompt: str) -> None:
        self._config = config
        self.system_prompt = system_prompt
        self._tools: list[Any] = []
        self._messages: list[AgentMessage] = []
        self._pending: dict[str, int] = {}  # how many calls with this id; ids may repeat
        self._streaming: MessageStart | MessageUpdate | None = None
        self.is_streaming = False
        """A run is going on, its last listeners included."""
        self.error_message: str | None = None
        """Why the last turn failed, or None."""

    @property
    def model(self) -> Model:
        """The model of the next run."""
        return self._config.model

    @model.setter
    def model(self, model: Model | str) -> None:
        from .model_choice import choose_model

        self._config.model, level = choose_model(model)
        if level is not None:
            self._config.thinking_level = level

    @property
    def thinking_level(self) -> ThinkingLevel:
        """How hard the model of the next run thinks."""
        return self._config.thinking_level

    @thinking_level.setter
    def thinking_level(self, level: ThinkingLevel) -> None:
        self._config.thinking_level = level

    @property
    def tools(self) -> list[AgentTool[Any, Any]]:
        """The tools on offer. Functions become tools when they are assigned."""
        return self._tools

    @tools.setter
    def tools(self, tools: Iterable[Any]) -> None:
        made = [as_tool(tool) for tool in tools]
        for tool in made:
            tool.check()
        check_names(made)
        self._tools = made

    @property
    def messages(self) -> list[AgentMessage]:
        """The transcript."""
        return self._messages

    @messages.setter
    def messages(self, messages: Iterable[AgentMessage]) -> None:
        self._messages = list(messages)

    @property
    def streaming_message(self) -> AgentMessage | None:
        """The message that has begun and not ended, as far as listeners have seen it."""
        return None if self._streaming is None else self._streaming.message

    @property
    def pending_tool_calls(self) -> frozenset[str]:
        """The ids of the calls that have started and not ended."""
        return frozenset(self._pending)

    def apply(self, event: AgentEvent) -> None:
        """Take note of *event*, before any listener hears of it."""
        kind = type(event)
        if kind is MessageUpdate or kind is MessageStart:
            self._streaming = event  # pyright: ignore[reportAttributeAccessIssue]
        elif isinstance(event, MessageEnd):
            self._streaming = None
            self._messages.append(event.message)
        elif isinstance(event, ToolExecutionStart):
            self._pending[event.tool_call_id] = self._pending.get(event.tool_call_id, 0) + 1
        elif isinstance(event, ToolExecutionEnd):
            left = self._pending.pop(event.tool_call_id, 1) - 1
            if left:
                self._pending[event.tool_call_id] = left
        elif isinstance(event, TurnEnd):
            message: AssistantMessage = event.message
            if message.stop_reason in ("error", "aborted"):
                self.error_message = message.error_message

    def forget(self) -> None:
        """Clear the transcript and all traces of runs."""
        self._messages = []
        self._streaming = None
        self._pending.clear()
        self.error_message = None


def check_names(tools: Iterable[AgentTool[Any, Any]]) -> None:
    """Raise `Misuse` if two tools share a name: the model could not tell them apart."""
    from ..errors import Misuse

    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            raise Misuse(f"two tools are named {tool.name!r}; give one another name")
        seen.add(tool.name)
