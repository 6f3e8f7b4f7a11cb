"""One call of a tool as lines: while it is written, while it runs, and what came of it.

A result is folded to a few lines, those that tell most: the end of what a command printed, the
beginning of anything else, the diff of an edit. `whole` shows the rest.

Not here: the words of the first line (tool_words.py), diffs (diff_view.py), children
(child_view.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from ...events import ToolExecutionUpdate
from ...messages import AgentToolResult, ImageContent, TextContent, ToolCall, ToolResultMessage
from ...tools.subagent_events import subagent_event
from .child_view import Children
from .diff_view import changed_lines, diff_rows, written_rows
from .image_words import image_words
from .paint import Painter, Run, cells, crop
from .text_lines import TextLines
from .tool_outcome import was_refused, was_stopped
from .tool_words import call_words

__all__ = ["SPINNER", "ToolView", "seconds_text"]

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPINS_A_SECOND = 10

FOLDED_LINES = 5
FAILED_LINES = 12
DIFF_LINES = 40
WRITTEN_LINES = 10
PROGRESS_LINES = 5

WHOLE_LINES = 2_000
"""Lines of a result that are shown at most, even if all of it is asked for."""

LINE_CHARACTERS = 10_000
"""Of one such line."""

_LAST_LINES_TELL = frozenset({"bash"})
_NO_LINES = frozenset({"read"})

_State = Literal["written", "waiting", "running", "ended"]


class ToolView:
    """What is known of one call. *clock* gives seconds; None where nothing is timed."""

    kind = "tool"

    def __init__(self, name: str, painter: Painter, clock: Callable[[], float] | None) -> None:
        self._name = name
        self._arguments: object = {}
        self._painter = painter
        self._clock = clock
        self._state: _State = "written"
        self._characters = 0
        self._began: float | None = None
        self._seconds: float | None = None
        self._held_up: tuple[float, str] | None = None
        """Since when it is not at work, though it was begun, and why."""
        self._progress: AgentToolResult | None = None
        self._children = Children()
        self._content: list[TextContent | ImageContent] = []
        self._details: Mapping[str, Any] = {}
        self._failed = False
        self._stopped = False
        """By an abort, not by itself."""
        self._not_run = ""
        self._rows: tuple[int, list[str]] | None = None
        self._taken = False

    @property
    def name(self) -> str:
        """The tool's, as far as it is known."""
        return self._name

    # -- what happens -------------------------------------------------------------------------

    def arrives(self, characters: int) -> None:
        """The model has written so many more characters of the arguments."""
        self._characters += characters

    def called(self, call: ToolCall) -> None:
        """The call is complete."""
        self._name = call.name
        self._arguments = call.arguments
        if call.arguments_error is not None and call.raw_arguments is not None:
            self._arguments = call.raw_arguments
        if self._state == "written":
            self._state = "waiting"

    def begins(self, name: str, arguments: object) -> None:
        """The call is looked at, and then run."""
        self._name, self._arguments = name, arguments
        self._state = "running"
        self._began = self._clock() if self._clock is not None else None

    def progresses(self, event: ToolExecutionUpdate) -> None:
        """The tool reports progress: all that it would answer now, or what a child does."""
        envelope = subagent_event(event)
        if envelope is not None:
            self._children.hear(envelope)
        else:
            self._progress = event.partial_result

    def waits(self, why: str) -> None:
        """It is not at work until `goes_on`, which counts for no time it takes."""
        if self._state == "running" and self._clock is not None:
            self._held_up = (self._held_up[0] if self._held_up else self._clock(), why)

    def goes_on(self) -> None:
        """What it waited for has come."""
        if self._held_up is not None and self._clock is not None and self._began is not None:
            self._began += self._clock() - self._held_up[0]
        self._held_up = None

    def ends(self, result: AgentToolResult | ToolResultMessage, *, failed: bool) -> None:
        """The call is settled."""
        self.goes_on()
        self._state = "ended"
        self._content = result.content
        details: object = result.details
        if isinstance(details, dict):
            self._details = cast("dict[str, Any]", details)
            self._children.hear_total(self._details.get("subagent"))
        self._failed = failed
        self._stopped = failed and was_stopped(result)
        if failed and was_refused(self._name, result):
            self._not_run = "not allowed"
        elif self._clock is not None and self._began is not None:
            self._seconds = self._clock() - self._began
        if self._stopped and result.details is None:  # the tool itself could say nothing any more
            self._content = [*self._shown_before(), *result.content]
        self._progress = None

    def close(self) -> None:
        """Nothing more is heard of the call."""
        if self._state != "ended":
            self._not_run = "interrupted" if self._state == "running" else "no result"
            self._content = self._shown_before()
            self._state = "ended"

    def _shown_before(self) -> list[TextContent | ImageContent]:
        """What it had reported."""
        text = "" if self._progress is None else self._progress.text.rstrip("\n")
        return [TextContent(f"{text}\n")] if text else []

    # -- how it looks -------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """All of it has been given out."""
        return self._taken

    @property
    def finished(self) -> bool:
        """It changes no more."""
        return self._state == "ended"

    def take(self, width: int) -> list[str]:
        """All of its rows, once it has ended."""
        if self._state != "ended" or self._taken:
            return []
        self._taken = True
        return self._ended_rows(width)

    def live(self, width: int, most: int) -> list[str]:
        """At most *most* rows of what is to be seen now."""
        if self._state == "ended":
            return self._ended_rows(width)[:most]
        rows = [self._head(width, self._mark(), self._running_notes())]
        if self._state == "running" and most > 1:
            rows += self._children.rows(self._painter, width, running=True)[-(most - 1) :]
            rows += self._progress_rows(width, min(PROGRESS_LINES, most - len(rows)))
        return rows[:most]

    def whole(self, width: int) -> list[str]:
        """All of the result, up to `WHOLE_LINES` lines."""
        head = self._head(width, *self._outcome())
        diff = diff_rows(self._details, self._painter, width, WHOLE_LINES)
        if diff is not None:
            return [head, *diff]
        if self._is_written():
            return [head, *self._written(width, WHOLE_LINES)]
        lines = self._lines()
        rows = [head]
        left = len(lines) - WHOLE_LINES
        if left <= 0:
            return [*rows, *self._in_full(lines.first(WHOLE_LINES), width), *self._images(width)]
        # The middle is left out: the end says where there is more.
        rows += self._in_full(lines.first(WHOLE_LINES // 2), width)
        rows.append(self._left_out(left))
        rows += self._in_full(lines.last(WHOLE_LINES // 2), width)
        return rows + self._images(width)

    def _in_full(self, lines: list[str], width: int) -> list[str]:
        rows: list[str] = []
        for line in lines:
            runs = [Run(line[:LINE_CHARACTERS], ("note",))]
            rows += self._painter.rows(runs, width, first=_MARGIN, rest=_MARGIN)
        return rows

    def _ended_rows(self, width: int) -> list[str]:
        if self._rows is None or self._rows[0] != width:
            head = self._head(width, *self._outcome())
            rows = [head, *self._children.rows(self._painter, width, running=False)]
            self._rows = (width, [*rows, *self._body(width), *self._images(width)])
        return self._rows[1]

    def _body(self, width: int) -> list[str]:
        if not self._failed:
            diff = diff_rows(self._details, self._painter, width, DIFF_LINES)
            if diff is not None:
                return diff
            if self._is_written():
                return self._written(width, WRITTEN_LINES)
            if self._name in _NO_LINES:
                return []
        lines = self._lines()
        most = FAILED_LINES if self._failed else FOLDED_LINES
        from_end = self._name in _LAST_LINES_TELL or self._stopped
        if self._failed and not from_end:
            return self._failure_rows(lines, width)
        left = len(lines) - most
        if left == 1:  # the line that says so would take its place
            most, left = most + 1, 0
        if from_end:
            rows = [self._line(line, width) for line in lines.last(most)]
            return [self._left_out(left, "earlier"), *rows] if left > 0 else rows
        rows = [self._line(line, width) for line in lines.first(most)]
        return [*rows, self._left_out(left)] if left > 0 else rows

    def _failure_rows(self, lines: TextLines, width: int) -> list[str]:
        """The beginning of an error, all of each line."""
        first = [line[:LINE_CHARACTERS] for line in lines.first(FAILED_LINES)]
        if not first:
            return []
        said = Run("\n".join(first), ("note",))
        rows = self._painter.rows([said], width, first=_MARGIN, rest=_MARGIN)
        left = len(lines) - len(first) + max(0, len(rows) - FAILED_LINES)
        rows = rows[:FAILED_LINES]
        return [*rows, self._left_out(left)] if left > 0 else rows

    def _head(self, width: int, mark: Run, notes: str) -> str:
        name, rest = call_words(self._name, self._arguments)
        notes = crop(f" · {notes}", max(1, width - 12)) if notes else ""
        room = max(1, width - 2 - cells(notes))
        name = crop(name, room)
        rest = crop(rest, room - cells(name)) if rest and cells(name) < room else ""
        return self._painter.line(
            [mark, Run(" "), Run(name, ("tool",)), Run(rest), Run(notes, ("note",))]
        )

    def _mark(self) -> Run:
        if self._state == "waiting" or self._held_up is not None:
            return Run("·", ("note",))
        now = self._clock() if self._clock is not None else 0.0
        return Run(SPINNER[int(now * SPINS_A_SECOND) % len(SPINNER)], ("tool",))

    def _running_notes(self) -> str:
        if self._state == "written":
            return f"{self._characters:,} characters" if self._characters else ""
        if self._held_up is not None:
            return self._held_up[1]
        if self._state == "running" and self._clock is not None and self._began is not None:
            seconds = int(self._clock() - self._began)
            return seconds_text(seconds) if seconds >= 1 else ""
        return ""

    def _outcome(self) -> tuple[Run, str]:
        """The mark and the notes of the first line of a call that has ended."""
        if self._not_run:
            mark = Run("✗", ("tool.failed",)) if self._failed else Run("·", ("note",))
            return mark, self._not_run
        notes: list[str] = []
        if self._failed:
            notes.append(self._how_it_failed())
        elif (changed := changed_lines(self._details)) is not None:
            notes.append(f"+{changed[0]} -{changed[1]}")
        elif self._is_written():
            notes.append("new file" if self._details.get("created") else "overwritten")
        elif self._name in _NO_LINES and (lines := self._lines_read()):
            notes.append(f"{lines:,} line{'s' * (lines != 1)}")
        seconds = self._details.get("seconds")
        if not isinstance(seconds, int | float):
            seconds = self._seconds
        if seconds is not None and seconds >= 1:
            notes.append(seconds_text(seconds))
        mark = Run("✗", ("tool.failed",)) if self._failed else Run("✓", ("tool.ok",))
        return mark, " · ".join(notes)

    def _lines_read(self) -> int:
        first, last = self._details.get("startLine"), self._details.get("endLine")
        if isinstance(first, int) and isinstance(last, int):
            return last - first + 1
        return len(self._lines())

    def _how_it_failed(self) -> str:
        details = self._details
        code = details.get("exitCode")
        if isinstance(code, int):
            return f"failed, exit code {code}"
        if details.get("timedOut") is True:
            return "timed out"
        return "stopped" if self._stopped else "failed"

    def _is_written(self) -> bool:
        """It is a file that was written, whose lines stand in the arguments."""
        return (
            self._name == "write"
            and not self._failed
            and not self._not_run
            and isinstance(self._details.get("created"), bool)
        )

    def _written(self, width: int, most: int) -> list[str]:
        arguments = self._arguments
        content: object = None
        if isinstance(arguments, dict):
            content = cast("dict[str, Any]", arguments).get("content")
        if not isinstance(content, str):
            return []
        return written_rows(content, self._painter, width, most)

    def _progress_rows(self, width: int, most: int) -> list[str]:
        if self._progress is None or most < 1:
            return []
        lines = TextLines(self._progress.text)
        return [self._line(line, width) for line in lines.last(most)]

    def _line(self, line: str, width: int) -> str:
        return self._painter.line([*_MARGIN, Run(crop(line, width - 2), ("note",))])

    def _left_out(self, lines: int, which: str = "more") -> str:
        words = f"… {lines:,} {which} line{'s' * (lines != 1)}"
        return self._painter.line([*_MARGIN, Run(words, ("note",))])

    def _lines(self) -> TextLines:
        said = [block.text for block in self._content if isinstance(block, TextContent)]
        return TextLines("".join(said))

    def _images(self, width: int) -> list[str]:
        images = [block for block in self._content if isinstance(block, ImageContent)]
        return [self._line(image_words(image), width) for image in images]


_MARGIN = (Run("  "),)


def seconds_text(seconds: float) -> str:
    """A time in words: `3.2 s`, `14 s`, `2 min 5 s`; whole seconds stay whole."""
    if seconds < 10 and not isinstance(seconds, int):
        return f"{max(seconds, 0):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
