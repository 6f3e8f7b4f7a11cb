"""What the agent is doing right now, in a word or two, and for how long.          (pure)

The time is that of what is done now, not of the whole run, and without what the user took to say
whether a call may run.

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
        self._at = 0.0
        """When that began."""
        self._running: dict[str, tuple[str, float]] = {}
        """Calls by id: the tool, and when it began."""
        self._goes_on = False
        self._asked: list[str] = []
        """Calls that wait for the user's word."""
        self._asked_at = 0.0
        self._retry: tuple[Retry, float] | None = None

    def begin(self, now: float, doing: str = "starting") -> None:
        """Something was asked for at *now*, in seconds of any clock."""
        self.end()
        self._goes_on = True
        self._doing, self._at = doing, now

    def end(self) -> None:
        """Nothing is going on any more."""
        self._goes_on = False
        self._running.clear()
        self._asked.clear()
        self._retry = None

    def feed(self, event: AgentEvent, now: float) -> None:
        """Hear *event*."""
        match event:
            case MessageUpdate():
                self._turn(_WORDS.get(type(event.assistant_message_event), self._doing), now)
                self._retry = None
            case AgentStart():
                self.begin(now, "waiting for the model")
            case MessageStart(AssistantMessage()):
                self._retry = None
            case MessageStart():
                self._turn("waiting for the model", now)
            case ToolExecutionStart():
                self._running[event.tool_call_id] = event.tool_name, now
            case ToolExecutionEnd():
                self._running.pop(event.tool_call_id, None)
                self._doing, self._at = "waiting for the model", now
            case Retry():
                self._retry = event, now
            case AgentEnd():
                self._running.clear()
                self._turn("finishing", now)
            case _:
                pass

    def waits_for_word(self, call: str, now: float) -> None:
        """The user is asked whether the call with the id *call* may run. Until they have said it,
        no time passes for the calls; calls of others, such as children, are none of these."""
        if call in self._running:
            if not self._asked:
                self._asked_at = now
            self._asked.append(call)

    def has_word(self, call: str, now: float) -> None:
        """They are asked about *call* no more."""
        if call not in self._asked:
            return
        self._asked.remove(call)
        if not self._asked:
            for id, (name, began) in self._running.items():
                self._running[id] = name, began + now - max(began, self._asked_at)

    def seconds(self, now: float) -> float:
        """How long that has been going on which `text` tells; 0 while nothing goes on."""
        if not self._goes_on:
            return 0.0
        if self._retry is not None:
            since = self._retry[1]
        elif self._asked:
            since = self._asked_at
        elif self._running:
            since = next(iter(self._running.values()))[1]
        else:
            since = self._at
        return max(0.0, now - since)

    def text(self, now: float) -> str:
        """What is going on; empty if nothing is."""
        if not self._goes_on:
            return ""
        if self._retry is not None:
            retry, heard = self._retry
            left = max(0.0, retry.delay_seconds - (now - heard))
            return f"attempt {retry.attempt} of {retry.max_attempts} in {left:.0f} s"
        if self._asked:
            return "waiting for your word"
        if self._running:
            names = list(dict.fromkeys([name for name, _ in self._running.values()]))
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            return f"running {names[0]}{more}"
        return self._doing

    def _turn(self, doing: str, now: float) -> None:
        if doing != self._doing:
            self._doing, self._at = doing, now
