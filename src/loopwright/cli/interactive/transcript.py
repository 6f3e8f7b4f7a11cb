"""What was said and done, as text for a terminal, while it happens and afterwards.

Finished rows are taken out once and go to the terminal's own scrollback; what is unfinished is
drawn again and again below them. Parts come out in the order in which they began, so of calls that
run side by side the first keeps the others waiting in the live part.

Not here: the parts themselves (spoken.py, said.py, tool_view.py), the screen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ...events import (
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
)
from ...loop.run_result import RunResult
from ...messages import (
    AgentMessage,
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ...stream import (
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ...stream.events import StreamEvent
from ..render import ending_note
from .command_view import CommandView, running_command, stored_command
from .other_messages import other_message, summary_words
from .paint import Painter, Run
from .said import Said, error_words, users_words
from .spoken import Part, ReplyText, Thinking
from .theme import Theme
from .tool_view import ToolView

if TYPE_CHECKING:
    from ...session.formats.pi_messages import BashExecution
    from ..live.user_command import UserCommand

__all__ = ["Transcript"]

_PartT = TypeVar("_PartT", ReplyText, Thinking, ToolView)


class _Above(NamedTuple):
    """What stands above the next rows."""

    kind: str
    """Of the part that was given out last."""
    rows: int
    part: Part | None
    """The part itself, if more of it may follow."""


class Transcript:
    """Hears the events of an agent and gives them out as rows.

    Without *color* nothing but text is written. *clock* gives seconds, for how long things take.
    """

    def __init__(
        self,
        theme: Theme,
        *,
        show_thinking: bool = False,
        color: bool = True,
        clock: Callable[[], float] | None = time.monotonic,
    ) -> None:
        self.show_thinking = show_thinking
        self._color = color
        self._clock = clock
        self._painter = Painter(theme, color=color)
        self._parts: list[Part] = []
        self._above: _Above | None = None
        self._open: dict[int, ReplyText | Thinking | ToolView] = {}
        """The parts of the reply that is being written, by content index."""
        self._calls: dict[str, ToolView] = {}
        """Calls without a result message, by id."""
        self._command: CommandView | None = None
        """What the user runs now."""
        self._last_ended: ToolView | None = None
        self._told_end = False
        """How the run ended has been said."""

    @property
    def theme(self) -> Theme:
        """What is drawn with from here on; what is unfinished follows when it is set."""
        return self._painter.theme

    @theme.setter
    def theme(self, theme: Theme) -> None:
        self._painter.use(theme)

    # -- what happens -------------------------------------------------------------------------

    def feed(self, event: AgentEvent) -> None:
        """Hear *event*. Costs no more than the event is long."""
        match event:
            case MessageUpdate():
                self._update(event.assistant_message_event)
            case ToolExecutionUpdate():
                view = self._calls.get(event.tool_call_id)
                if view is not None:
                    view.progresses(event)
            case ToolExecutionStart():
                self._call(event.tool_call_id, event.tool_name).begins(event.tool_name, event.args)
            case ToolExecutionEnd():
                view = self._call(event.tool_call_id, event.tool_name)
                view.ends(event.result, failed=event.is_error)
                self._last_ended = view
            case MessageStart(AssistantMessage()):
                self._close_reply()
                self._told_end = False
            case MessageEnd(message):
                self._message(message)
            case AgentStart():
                self._told_end = False
            case AgentEnd():
                self._close()
            case Retry():
                self._retry(event)
            case _:
                pass

    def ended(self, result: RunResult) -> None:
        """Say how the run ended, as far as its events did not: turns, time, or before a reply."""
        told, self._told_end = self._told_end, True
        if told:
            return
        if result.stop_reason == "error" and result.error_message:
            self._error(result.error_message)
        elif result.stop_reason == "aborted" and result.stopped_by != "timeout":
            self._note("interrupted")
        elif result.stopped_by == "approval":
            self._note("the run waits for an approval")
        elif note := ending_note(result):
            self._note(note)

    def waits_for_word(self, call: str | None) -> None:
        """The user is asked about the call with the id *call*; None: nothing is asked any more.
        Of calls that run side by side none begins before all are decided, so the others wait."""
        asked = None if call is None else self._calls.get(call)
        for view in self._calls.values():
            if asked is None:
                view.goes_on()
            else:
                view.waits("waiting for your word" if view is asked else "waiting")

    def command_begins(self, command: UserCommand) -> None:
        """The user runs *command*."""
        self._command = running_command(command, self._painter, self._clock)
        self._parts.append(self._command)

    def command_ends(self, ran: BashExecution | None) -> None:
        """It has ended; None if nothing more is known of it."""
        view, self._command = self._command, None
        if view is None:
            return
        if ran is None:
            view.close()
        else:
            view.has_ended(ran)
        self._last_ended = view

    def said(self, text: str) -> None:
        """Show *text* as the user's. Not for prompts and steering: they come as events."""
        self._aside(users_words(text, self._painter))

    def note(self, text: str) -> None:
        """Show a remark of the front end. It does not wait for a tool that is running."""
        self._aside(Said("note", self._painter, [(text, "note")]))

    def error(self, message: str, hint: str | None = None) -> None:
        """Show what was wrong, and what to do about it. It does not wait for a tool."""
        self._aside(error_words(message, hint, self._painter))

    # -- how it looks -------------------------------------------------------------------------

    def take(self, width: int) -> str:
        """What was finished since the last call, in rows of at most *width* columns; empty, or
        with a newline at its end. For the scrollback."""
        rows: list[str] = []
        while self._parts:
            part = self._parts[0]
            new = part.take(width)
            if new:
                rows += self._gap(part, self._above)
                rows += new
                self._above = _Above(part.kind, len(new), part)
            if not part.done:
                break
            if self._above is not None:
                self._above = self._above._replace(part=None)
            self._parts.pop(0)
        return "".join([f"{row}\n" for row in rows])

    def live(self, width: int, height: int) -> str:
        """What is unfinished, at most *height* rows, without a newline at the end."""
        if height < 1:
            return ""
        parts = self._parts
        if len(parts) > height:
            running = [part for part in parts if not part.finished] or parts
            parts = running[: height - 1]
        hidden = len(self._parts) - len(parts)
        share = max(1, (height - bool(hidden)) // max(1, len(parts)))
        rows: list[str] = []
        above = self._above
        for part in parts:
            new = part.live(width, share)
            if new:
                if share > 2:
                    rows += self._gap(part, above)
                rows += new
                above = _Above(part.kind, len(new), None)
        if hidden:
            rows.append(self._painter.line([Run(f"… {hidden} more", ("note",))]))
        return "\n".join(rows[-height:])

    def replay(self, messages: Iterable[AgentMessage], width: int) -> str:
        """How stored *messages* look, results with their calls; ends with a newline or is empty.

        What is taken next follows it, and `expand_last` shows its last result. Does not touch what
        is unfinished here."""
        stored = Transcript(
            self.theme, show_thinking=self.show_thinking, color=self._color, clock=None
        )
        pieces: list[str] = []
        for message in messages:
            stored._message(message)
            pieces.append(stored.take(width))
        stored._close()
        pieces.append(stored.take(width))
        self._above = stored._above
        self._last_ended = stored._last_ended
        return "".join(pieces)

    def expand_last(self, width: int = 80) -> str:
        """The whole result of the tool that ended last, up to 2,000 lines of it, which are its
        first and its last ones; ends with a newline, or is empty if there is none."""
        if self._last_ended is None:
            return ""
        return "".join([f"{row}\n" for row in self._last_ended.whole(width)])

    def _gap(self, part: Part, above: _Above | None) -> list[str]:
        """An empty row between parts. A part that goes on, notes, and calls with nothing but their
        first line stand together."""
        if above is None or above.part is part:
            return []
        if part.kind == above.kind and (part.kind == "note" or above[:2] == ("tool", 1)):
            return []
        return [""]

    # -- messages -----------------------------------------------------------------------------

    def _update(self, said: StreamEvent) -> None:
        if isinstance(said, TextDelta):
            self._text(said.content_index).feed(said.delta)
        elif isinstance(said, ThinkingDelta):
            self._thinking(said.content_index).feed(said.delta)
        elif isinstance(said, ToolCallDelta):
            view = self._open.get(said.content_index)
            if isinstance(view, ToolView):
                view.arrives(len(said.delta))
        else:
            self._block(said)

    def _block(self, said: StreamEvent) -> None:
        """A block of the reply begins or ends."""
        match said:
            case TextEnd():
                if said.content_index not in self._open:
                    self._text(said.content_index).feed(said.content)
                self._open[said.content_index].close()
            case ThinkingEnd():
                if said.content_index not in self._open:
                    self._thinking(said.content_index).feed(said.content)
                self._open[said.content_index].close()
            case ToolCallStart():
                view = ToolView(said.tool_name, self._painter, self._clock)
                self._open[said.content_index] = self._append(view)
            case ToolCallEnd():
                self._called(said.tool_call, self._open.get(said.content_index))
            case Retry():
                self._retry(said)
            case _:
                pass

    def _text(self, index: int) -> ReplyText:
        part = self._open.get(index)
        if not isinstance(part, ReplyText):
            if part is not None:  # two blocks with one number: no vendor does that
                part.close()
            self._open[index] = part = self._append(ReplyText(self._painter))
        return part

    def _thinking(self, index: int) -> Thinking:
        part = self._open.get(index)
        if not isinstance(part, Thinking):
            if part is not None:
                part.close()
            part = Thinking(self._painter, lambda: self.show_thinking, self._clock)
            self._open[index] = self._append(part)
        return part

    def _called(self, call: ToolCall, part: Part | None = None) -> None:
        if isinstance(part, ToolView):
            self._calls.setdefault(call.id, part)
            part.called(call)
        else:
            self._call(call.id, call.name).called(call)

    def _call(self, id: str, name: str) -> ToolView:
        view = self._calls.get(id)
        if view is None:
            view = self._calls[id] = self._append(ToolView(name, self._painter, self._clock))
        return view

    def _message(self, message: AgentMessage) -> None:
        match message:
            case AssistantMessage():
                self._reply(message)
            case UserMessage():
                summary = summary_words(message, self._painter)
                self._parts.append(summary or users_words(message.content, self._painter))
            case ToolResultMessage():
                view = self._call(message.tool_call_id, message.tool_name)
                if not view.finished:
                    view.ends(message, failed=message.is_error)
                    self._last_ended = view
                del self._calls[message.tool_call_id]
            case _:
                command = stored_command(message, self._painter)
                self._last_ended = command or self._last_ended
                block = command or other_message(message, self._painter)
                if block is not None:
                    self._parts.append(block)

    def _reply(self, message: AssistantMessage) -> None:
        """A reply is complete. What did not come piece by piece comes from the message."""
        if not self._open:
            for index, block in enumerate(message.content):
                if isinstance(block, TextContent):
                    self._text(index).feed(block.text)
                elif isinstance(block, ThinkingContent):
                    self._thinking(index).feed(block.thinking)
        for index, block in enumerate(message.content):
            part = self._open.get(index)
            if isinstance(block, ThinkingContent) and block.redacted and isinstance(part, Thinking):
                part.hide()
        for index, block in enumerate(message.content):
            if isinstance(block, ToolCall):
                self._called(block, self._begun_call(index, block))
        if message.stop_reason in ("error", "aborted"):
            for call in message.tool_calls:
                self._call(call.id, call.name).close()
                del self._calls[call.id]
        self._close_reply()
        self._say_end(message)

    def _begun_call(self, index: int, call: ToolCall) -> ToolView | None:
        """The part of *call* if the reply was cut before its end, so that it has no id yet."""
        if call.id in self._calls:
            return None
        called = [id(view) for view in self._calls.values()]
        waiting = {
            place: part
            for place, part in self._open.items()
            if isinstance(part, ToolView)
            and id(part) not in called
            and part.name in ("", call.name)
        }
        # Blocks without anything in them may be missing in the message, so numbers may differ.
        return waiting.get(index) or next(iter(waiting.values()), None)

    def _close_reply(self) -> None:
        """The open parts are complete; of calls, those that nobody will run."""
        called = [id(view) for view in self._calls.values()]
        for part in self._open.values():
            if not (isinstance(part, ToolView) and id(part) in called):
                part.close()
        self._open = {}

    def _say_end(self, message: AssistantMessage) -> None:
        if message.stop_reason == "error":
            self._error(message.error_message or "the reply ended with an error")
        elif message.stop_reason == "aborted":
            reason = message.error_message or ""
            reason = reason.removeprefix("Operation aborted").removeprefix(": ")
            self._note(f"interrupted: {reason}" if reason else "interrupted")
        elif message.stop_reason == "length":
            self._note("the reply was cut: it reached the model's output limit")
        else:
            return
        self._told_end = True

    def _retry(self, event: Retry) -> None:
        self._note(
            f"attempt {event.attempt} of {event.max_attempts} in {event.delay_seconds:.1f} s, "
            f"since the last one failed: {event.error}"
        )

    def _note(self, text: str) -> None:
        self._parts.append(Said("note", self._painter, [(text, "note")]))

    def _error(self, message: str) -> None:
        said, _, hint = message.partition("\nhint: ")  # as the text of our errors has it
        self._parts.append(error_words(said, hint, self._painter))
        self._told_end = True

    def _aside(self, part: Said) -> None:
        """Put a block of the front end where it is seen soon: before a tool that is running."""
        for index, other in enumerate(self._parts):
            if not other.finished:
                if isinstance(other, ToolView):
                    self._parts.insert(index, part)
                    return
                break
        self._parts.append(part)

    def _append(self, part: _PartT) -> _PartT:
        self._parts.append(part)
        return part

    def _close(self) -> None:
        """Nothing of what is open will go on."""
        for part in self._parts:
            part.close()
        self._open = {}
        self._calls = {}
