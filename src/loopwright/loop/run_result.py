"""What a caller of `Agent.prompt` gets: this run's messages and how it ended."""

from __future__ import annotations

from typing import Any

import msgspec

from ..messages import AgentMessage, AssistantMessage, StopReason, ToolResultMessage, Usage
from .run import RunOutcome
from .transcript import StoppedBy

__all__ = ["RunResult"]


class RunResult(msgspec.Struct):
    """How a run went. A run never raises for a failing model or tool; look at `stop_reason`."""

    messages: list[AgentMessage]
    """What this run added to the transcript, in order."""
    stop_reason: StopReason
    stopped_by: StoppedBy | None = None
    """Who ended the run before it came to its own end; None if nothing was left to do."""
    error_message: str | None = None
    usage: Usage = msgspec.field(default_factory=Usage)
    """All requests of the run, retried ones and those that tools made included."""
    output: Any = None
    """The typed answer, if the agent was given an `output_type`."""
    undelivered: tuple[AgentMessage, ...] = ()
    """Messages still queued when the run ended; the next `prompt` or `resume` says them."""

    @property
    def text(self) -> str:
        """The text of the last reply."""
        last = next((m for m in reversed(self.messages) if isinstance(m, AssistantMessage)), None)
        return last.text if last is not None else ""

    @classmethod
    def of(
        cls, outcome: RunOutcome, output: Any, undelivered: tuple[AgentMessage, ...]
    ) -> RunResult:
        """The result of a run that ended with *outcome*."""
        usage = outcome.extra_usage
        for message in outcome.messages:
            if isinstance(message, AssistantMessage | ToolResultMessage) and message.usage:
                usage += message.usage
        return cls(
            outcome.messages,
            outcome.stop_reason,
            outcome.stopped_by,
            outcome.error_message,
            usage,
            output,
            undelivered,
        )
