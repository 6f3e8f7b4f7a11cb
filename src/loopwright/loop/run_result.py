"""What a caller of `Agent.prompt` gets: this run's messages and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

import msgspec

from ..errors import RunFailed
from ..messages import AgentMessage, AssistantMessage, StopReason, ToolResultMessage, Usage
from .run import RunOutcome
from .transcript import StoppedBy

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    OutputT = TypeVar("OutputT", default=Any)
else:
    from typing import TypeVar

    OutputT = TypeVar("OutputT")

__all__ = ["OutputT", "RunResult"]


class RunResult(msgspec.Struct, Generic[OutputT]):
    """How a run went. A run never raises for a failing model or tool; look at `stop_reason`."""

    messages: list[AgentMessage]
    """What this run added to the transcript, in order."""
    stop_reason: StopReason
    stopped_by: StoppedBy | None = None
    """Who ended the run before it came to its own end; None if nothing was left to do."""
    error_message: str | None = None
    usage: Usage = msgspec.field(default_factory=Usage)
    """All requests of the run, retried ones and those that tools made included."""
    output: OutputT | None = None
    """The answer, of the agent's `output_type`; None without one, or if the run ended before the
    model gave an answer that fits, as `stop_reason` and `stopped_by` tell."""
    undelivered: tuple[AgentMessage, ...] = ()
    """Messages still queued when the run ended; the next `prompt` or `resume` says them."""

    @property
    def text(self) -> str:
        """The text of the last reply."""
        last = next((m for m in reversed(self.messages) if isinstance(m, AssistantMessage)), None)
        return last.text if last is not None else ""

    def raise_on_error(self) -> RunResult[OutputT]:
        """This result; for a run that failed or was aborted, an exception in its place.

            answer = agent.prompt_sync("What is 17 + 25?").raise_on_error().text

        Raises `RunFailed`, with the text of `error_message`, if `stop_reason` is `error` or
        `aborted`. A run that was cut by a limit of turns or output, or waits for an approval, does
        not raise.
        """
        if self.stop_reason not in ("error", "aborted"):
            return self
        raise RunFailed(
            self.error_message or f"the run ended with stop_reason {self.stop_reason!r}",
            stop_reason=self.stop_reason,
            stopped_by=self.stopped_by,
        )

    @classmethod
    def of(
        cls, outcome: RunOutcome, output: OutputT | None, undelivered: tuple[AgentMessage, ...]
    ) -> RunResult[OutputT]:
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
