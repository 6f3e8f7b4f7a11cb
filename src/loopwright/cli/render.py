"""Events of a run as text for people.                                                     (pure)

The answer and the notes about it are kept apart: the one goes to standard output, the others to
standard error, so that an answer can be piped on.

Not here: styles of terminals (streams.py), the demo's picture of every event (demo_view.py).
"""

from __future__ import annotations

from typing import NamedTuple

from ..events import (
    AgentEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Retry,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from ..loop.run_result import RunResult
from ..messages import AgentToolResult, AssistantMessage, Usage
from ..stream import TextDelta

__all__ = ["Answer", "Shown", "call_text", "ending_note", "first_line", "usage_text"]

SHOWN_CHARACTERS = 100
"""How much of an argument or a result a note shows."""


class Shown(NamedTuple):
    """What one event adds: to the answer, and to the notes (a line without its end, or nothing)."""

    answer: str = ""
    note: str = ""


_NOTHING = Shown()


class Answer:
    """The replies' text in order of appearance, a blank line between two replies."""

    def __init__(self) -> None:
        self._last = ""  # character written
        self._in_message = ""  # what of the open message has been written, its last character

    def of(self, event: AgentEvent) -> Shown:
        """What to write for *event*."""
        match event:
            case MessageUpdate(TextDelta(delta=delta)) if delta:
                return Shown(self._say(delta))
            case MessageStart(AssistantMessage()):
                self._in_message = ""
            case MessageEnd(AssistantMessage() as message):
                # A reply that came in one piece, without updates.
                rest = self._say(message.text) if message.text and not self._in_message else ""
                end = "\n" if self._in_message and self._last != "\n" else ""
                self._last = end or self._last
                return Shown(rest + end)
            case ToolExecutionStart():
                return Shown(note=f"calls {call_text(event.tool_name, event.args)}")
            case ToolExecutionEnd():
                return Shown(note=_result_note(event))
            case Retry():
                return Shown(
                    note=f"attempt {event.attempt} of {event.max_attempts} in "
                    f"{event.delay_seconds:.1f} s, since the last one failed: {event.error}"
                )
            case _:
                pass
        return _NOTHING

    def _say(self, text: str) -> str:
        gap = "\n" if not self._in_message and self._last else ""
        self._in_message = self._last = text[-1]
        return gap + text


def _result_note(event: ToolExecutionEnd) -> str:
    verb = "failed" if event.is_error else "answers"
    return f"{event.tool_name} {verb}: {first_line(event.result)}"


def first_line(result: AgentToolResult) -> str:
    """The beginning of what a tool said, and how much there is."""
    lines = result.text.strip().splitlines()
    if not lines:
        images = sum(block.type == "image" for block in result.content)
        return f"{images} image{'s' * (images != 1)}" if images else "(nothing)"
    return _cut(lines[0]) if len(lines) == 1 else f"{len(lines)} lines, {_cut(lines[0])}"


def call_text(name: str, arguments: object) -> str:
    """A call as Python would write it: `read_file(path='notes.txt')`."""
    if not isinstance(arguments, dict):
        return f"{name}({_cut(str(arguments))})"
    return f"{name}({', '.join(f'{key}={_cut(repr(value))}' for key, value in arguments.items())})"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - any JSON


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"


def ending_note(result: RunResult) -> str:
    """What the answer alone does not tell about how the run ended; empty if there is nothing."""
    match result.stop_reason, result.stopped_by:
        case "length", _:
            return "the reply was cut: it reached the model's output limit"
        case _, "max_turns":
            return "the run was stopped: it reached its limit of turns"
        case _, "timeout":
            return "the run was stopped: its time was up"
        case "stop", None if not result.text:
            return "the model answered without text"
        case _:
            return ""


def usage_text(usage: Usage) -> str:
    """Tokens and price, as far as they are known."""
    if not usage.known or usage.is_empty:
        return "token counts unknown"
    taken = usage.input + usage.cache_read + usage.cache_write
    parts = [f"{taken:,} tokens in", f"{usage.output:,} out"]
    if usage.cache_read:
        parts.insert(1, f"{usage.cache_read:,} of them from the cache")
    if usage.cost.total is not None:
        parts.append(f"${usage.cost.total:.4f}")
    return ", ".join(parts)
