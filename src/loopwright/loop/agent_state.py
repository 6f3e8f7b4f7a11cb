"""What an agent knows: its prompt, model, tools and transcript, and what it is doing.

The first five can be assigned; lists are copied in, and the list that is read can be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..errors import Misuse
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
from .model_choice import choose_model
from .tool import AgentTool, as_tool, check_names

__all__ = ["AgentState"]


class AgentState:
    """See `Agent.state`."""

    __slots__ = (
        "_config",
        "_error_message",
        "_is_streaming",
        "_messages",
        "_pending",
        "_stream_fn",
        "_streaming",
        "_tools",
        "system_prompt",
    )

    def __init__(
        self, config: AgentLoopConfig, system_prompt: str, stream_fn: Callable[[], Any]
    ) -> None:
        """*stream_fn* gives the function that will ask: names of models are looked up there."""
        self._config = config
        self._stream_fn = stream_fn
        self.system_prompt = system_prompt
        self._tools: list[Any] = []
        self._messages: list[AgentMessage] = []
        self._pending: dict[str, int] = {}  # how many calls with this id; ids may repeat
        self._streaming: MessageStart | MessageUpdate | None = None
        self._is_streaming = False
        self._error_message: str | None = None

    @property
    def model(self) -> Model:
        """The model of the next run."""
        return self._config.model

    @model.setter
    def model(self, model: Model | str) -> None:
        self._config.model, level = choose_model(model, self._stream_fn())
        if level is not None:
            self._config.thinking_level = level

    @property
    def thinking_level(self) -> ThinkingLevel | None:
        """How hard the model of the next run thinks; None leaves it to the vendor."""
        return self._config.thinking_level

    @thinking_level.setter
    def thinking_level(self, level: ThinkingLevel | None) -> None:
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
        given = list(messages)
        for message in given:
            if not hasattr(message, "role"):
                raise Misuse(
                    f"a transcript is made of messages; {type(message).__name__} has no role",
                    hint='UserMessage("...") says something as the user',
                )
        self._messages = given

    @property
    def is_streaming(self) -> bool:
        """A run is going on, its last listeners included."""
        return self._is_streaming

    @property
    def error_message(self) -> str | None:
        """Why the last turn failed, or None."""
        return self._error_message

    @property
    def streaming_message(self) -> AgentMessage | None:
        """The message that has begun and not ended, as far as listeners have seen it."""
        return None if self._streaming is None else self._streaming.message

    @property
    def pending_tool_calls(self) -> frozenset[str]:
        """The ids of the calls that have started and not ended."""
        return frozenset(self._pending)

    def begin_run(self) -> None:
        """A run begins."""
        self._is_streaming = True
        self._error_message = None

    def end_run(self) -> None:
        """It is over, its last listeners included; nothing of it stays open, even if it broke off."""
        self._is_streaming = False
        self._streaming = None
        self._pending.clear()

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
                self._error_message = message.error_message

    def forget(self) -> None:
        """Clear the transcript and all traces of runs."""
        self._messages = []
        self._streaming = None
        self._pending.clear()
        self._error_message = None
