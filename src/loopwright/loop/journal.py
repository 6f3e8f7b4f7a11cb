"""How a run is made durable: what somebody who keeps a session is told, and when.

The kernel awaits each of these before it goes on, so that what was written comes before what
depends on it: a message before it is reported, an intent before its tool runs, an outcome before
anybody hears that the tool has ended. A journal that raises has lost the session: nothing more
is started, and the run ends with an error that says so.

Not here: anything that keeps a session (harness).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from ..messages import AgentMessage, AgentToolResult, AssistantMessage, ToolCall, ToolResultMessage
from ..stream import Retry
from .agent_tool import AgentTool

if TYPE_CHECKING:
    from .run import Run

__all__ = ["Journal", "Recall", "Starting"]


class Starting(msgspec.Struct):
    """A call whose tool is about to run."""

    index: int
    """Which of the reply's calls; ids may repeat."""
    call: ToolCall
    tool: AgentTool[Any, Any]
    args: dict[str, Any]
    """As the tool gets them: repaired, changed by hooks, validated."""


class Recall(msgspec.Struct):
    """What is known of a call from before this run.

    `ended`: here is its result, already written. `lost`: it was started and nobody knows what came
    of it; `result` says that. `again`: run it with these arguments; one that was *approved* may still be blocked by
    a gate, which is not asked about others. `parked`: it
    waits for somebody's word. `denied`: that word was no; `result` says so.
    """

    kind: Literal["ended", "lost", "again", "parked", "denied"]
    result: AgentToolResult | None = None
    message: ToolResultMessage | None = None
    arguments: dict[str, Any] | None = None
    approved: bool = False


class Journal(Protocol):
    """Keeps what a run does. Calls are named by their reply and their place in it."""

    async def before_request(self, run: Run) -> None:
        """The model is about to be asked; the context may be made smaller now. What this raises
        becomes the reply: a message with stop reason `error`."""
        ...

    def retried(self, event: Retry) -> None:
        """An attempt failed and is tried again; what it cost belongs to the ledger."""
        ...

    def recovers(self, run: Run, reply: AssistantMessage, kind: str | None) -> bool:
        """Whether *reply*, which failed or was cut, can be asked for once more. *kind* is the
        wire's short name of the failure."""
        ...

    async def admits(self, message: AgentMessage) -> bool:
        """*message* was queued and is about to be said. False if it was taken back meanwhile."""
        ...

    async def message(self, message: AgentMessage) -> None:
        """*message* is final. May be called twice with the same one, after an interruption."""
        ...

    def recall(self, reply: AssistantMessage, index: int, call: ToolCall) -> Recall | None:
        """What is known of this call; None: it has never been started."""
        ...

    async def park(self, reply: AssistantMessage, starting: Starting) -> None:
        """The call needs somebody's approval before it runs."""
        ...

    async def begin(self, reply: AssistantMessage, starting: Sequence[Starting]) -> None:
        """These are run next, side by side."""
        ...

    async def ended(
        self, reply: AssistantMessage, index: int, message: ToolResultMessage, terminate: bool
    ) -> None:
        """The outcome of a call is known. May be called twice, after an interruption."""
        ...

    async def finish(self, run: Run) -> bool:
        """The run ends now. False if a message has arrived that should be heard first."""
        ...
