"""The demo's picture of a run: every event, by its name, with what it carries.            (pure)

Left stands the event, right what is in it. Updates of a reply come by the dozen, so each run of
them shares a line that grows, and says at its end how many there were.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from ..events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Retry,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from ..loop.run_result import RunResult
from ..messages import AssistantMessage, ToolResultMessage, UserMessage
from ..stream import TextDelta, ThinkingDelta, ToolCallEnd
from .render import call_text, first_line, usage_text
from .streams import Piece, Style

__all__ = ["DemoView"]

COLUMN = 22
"""Where the right side begins."""


class DemoView:
    """Turns events into pieces of text, lines of at most *width* characters."""

    def __init__(self, width: int = 80) -> None:
        self._width = max(width - 1, 50)
        self._turns = 0
        self._events = 0
        self._updates = 0  # in the line that is still growing
        self._streaming: str | None = None  # "text", "thinking": what that line shows
        self._results: list[ToolResultMessage] = []

    def opening(self) -> list[Piece]:
        """What stands above the first event."""
        return [
            Piece("The model is scripted; agent, tools and files are real. No key, no network.\n"),
            Piece("Left: the event that a program gets. Right: what is in it.\n\n", "quiet"),
        ]

    def of(self, event: AgentEvent) -> list[Piece]:
        """What to write for *event*."""
        self._events += 1
        if isinstance(event, MessageUpdate):
            return self._update(event)
        return [*self._close_line(), *self._line_of(event)]

    def _line_of(self, event: AgentEvent) -> Iterable[Piece]:
        match event:
            case AgentStart():
                return self._line("agent_start", "the run begins", "quiet")
            case TurnStart():
                self._turns += 1
                what = f"turn {self._turns}: ask the model, run the tools it asks for"
                return self._line("turn_start", what, "quiet")
            case MessageStart(AssistantMessage() as message):
                return self._line("message_start", f"the model {message.model!r} answers", "quiet")
            case MessageStart():
                return []  # complete from the start: shown with its end
            case MessageEnd(message):
                return self._message(message)
            case ToolExecutionStart():
                call = call_text(event.tool_name, event.args)
                return self._line("tool_execution_start", call, "call")
            case ToolExecutionEnd():
                said = first_line(event.result)
                if event.is_error:
                    return self._line(
                        "tool_execution_end", f"{event.tool_name} failed: {said}", "bad"
                    )
                return self._line("tool_execution_end", f"{event.tool_name}: {said}", "good")
            case ToolExecutionUpdate():
                return self._line("tool_execution_update", first_line(event.partial_result))
            case TurnEnd():
                count = len(event.tool_results)
                results = f"{count} results go back to the model" if count else "nothing left to do"
                return [*self._flush_results(), *self._line("turn_end", results, "quiet")]
            case AgentEnd():
                count = len(event.messages)
                what = f"always the last event; the transcript has {count} new messages"
                return self._line("agent_end", what, "quiet")
            case Retry():
                return self._line("retry", event.error, "bad")
            case MessageUpdate():
                return []

    def _message(self, message: object) -> Iterable[Piece]:
        match message:
            case AssistantMessage():
                ending = f"stop reason {message.stop_reason}, {usage_text(message.usage)}"
                if message.error_message:
                    ending += f": {message.error_message}"
                return self._line("message_end", ending, "quiet")
            case UserMessage():
                return self._line("message_start, _end", f"user: {message.text}", "speech")
            case ToolResultMessage():
                self._results.append(message)
                return []  # shown together, at the end of the turn
            case _:
                return self._line("message_start, _end", "a message of a program's own")

    def _flush_results(self) -> list[Piece]:
        names = ", ".join(result.tool_name for result in self._results)
        self._results.clear()
        if not names:
            return []
        return self._line("message_start, _end", f"toolResults in the order asked: {names}")

    # -- the line that grows --------------------------------------------------------------------

    def _update(self, update: MessageUpdate) -> list[Piece]:
        event = update.assistant_message_event
        pieces: list[Piece] = []
        match event:
            case TextDelta(delta=delta):
                pieces = self._grow("text", delta, "speech")
            case ThinkingDelta(delta=delta):
                pieces = self._grow("thinking", delta, "quiet")
            case ToolCallEnd(tool_call=call):
                pieces = self._close_line() if self._streaming else []
                self._updates += 1
                asked = f"asks for {call_text(call.name, call.arguments)}"
                return [*pieces, *self._line("message_update", asked + self._count(), "call")]
            case _:
                if self._streaming and event.type.endswith("_start"):  # the next block begins
                    pieces = self._close_line()
        self._updates += 1
        return pieces

    def _grow(self, what: str, text: str, style: Style) -> list[Piece]:
        pieces: list[Piece] = []
        if self._streaming != what:
            updates = self._updates
            pieces = [*self._close_line(), *self._label("message_update")]
            self._updates = updates  # its start came before and belongs to this line
        self._streaming = what
        return [*pieces, Piece(text.replace("\n", "\n" + " " * COLUMN), style)]

    def _close_line(self) -> list[Piece]:
        """End the line that grows, if there is one."""
        if self._streaming is None:
            self._updates = 0
            return []
        self._streaming = None
        return [Piece(self._count() + "\n", "quiet")]

    def _count(self) -> str:
        count, self._updates = self._updates, 0
        return f"  ×{count}"

    # -- lines ----------------------------------------------------------------------------------

    def _line(self, event: str, what: str, style: Style = "plain") -> list[Piece]:
        room = self._width - COLUMN
        lines = textwrap.wrap(what, room, subsequent_indent="  ") or [""]
        indented = ("\n" + " " * COLUMN).join(lines)
        return [*self._label(event), Piece(indented, style), Piece("\n")]

    def _label(self, event: str) -> list[Piece]:
        return [Piece(event.ljust(COLUMN), "event")]

    def closing(self, result: RunResult) -> list[Piece]:
        """What stands below the last event."""
        lines = [
            "",
            f"{self._events} events in {self._turns} turns, {usage_text(result.usage)} (made up).",
            "One tool failed, the model was told, and the run went on: that is the loop.",
            "",
            "loopwright demo --mode json                        the same events, one a line",
            'loopwright --model local "Where is Paris?"         a real model on this machine',
            "loopwright -h                                      everything else",
        ]
        if result.stop_reason != "stop":
            lines[2] = f"The run did not come to its own end: {result.stop_reason}."
        return [Piece("\n".join(lines) + "\n")]
