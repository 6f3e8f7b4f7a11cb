"""What the agent is doing right now, in a word or two, and for how long.          (pure)

Not here: how it is drawn (footer.py).
"""

from __future__ import annotations

from ...events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    MessageStart,
    MessageUpdate,
    Retry,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from ...messages import AssistantMessage
from ...stream import TextDelta, ThinkingDelta, ToolCallDelta
from ...stream.events import StreamEvent

__all__ = ["Activity"]

_WORDS: dict[type[StreamEvent], str] = {
    TextDelta: "writing",
    ThinkingDelta: "thinking",
    ToolCallDelta: "writing a call",
}


class Activity:
    """Fed with every event, which costs next to nothing."""

    def __init__(self) -> None:
        self._doing = ""
        self._running: dict[str, str] = {}
        self._since: float | None = None
        self._retry: tuple[Retry, float] | None = None

    def begin(self, now: float, doing: str = "starting") -> None:
        """Something was asked for at *now*, in seconds of any clock."""
        self._since = now
        self._doing = doing
        self._running.clear()
        self._retry = None

    def end(self) -> None:
        """Nothing is going on any more."""
        self._since = None
        self._running.clear()
        self._retry = None

    def feed(self, event: AgentEvent, now: float) -> None:
        """Hear *event*."""
        match event:
            case MessageUpdate():
                self._doing = _WORDS.get(type(event.assistant_message_event), self._doing)
                self._retry = None
            case AgentStart():
                self.begin(self._since if self._since is not None else now, "waiting for the model")
            case MessageStart(AssistantMessage()):
                self._retry = None
            case MessageStart():
                self._doing = "waiting for the model"
            case ToolExecutionStart():
                self._running[event.tool_call_id] = event.tool_name
            case ToolExecutionEnd():
                self._running.pop(event.tool_call_id, None)
                self._doing = "waiting for the model"
            case Retry():
                self._retry = event, now
            case AgentEnd():
                self._running.clear()
                self._doing = "finishing"
            case _:
                pass

    def seconds(self, now: float) -> float:
        """Since it began; 0 while nothing goes on."""
        return 0.0 if self._since is None else max(0.0, now - self._since)

    def text(self, now: float) -> str:
        """What is going on; empty if nothing is."""
        if self._since is None:
            return ""
        if self._retry is not None:
            retry, heard = self._retry
            left = max(0.0, retry.delay_seconds - (now - heard))
            return f"attempt {retry.attempt} of {retry.max_attempts} in {left:.0f} s"
        if self._running:
            names = list(dict.fromkeys(self._running.values()))
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            return f"running {names[0]}{more}"
        return self._doing
