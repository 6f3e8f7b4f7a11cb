"""A command of the user's as lines: what it prints while it runs, and what came of it.

Shown like a call of the tool `bash`, but more of it: the user ran it to see that.

Not here: running it (live/user_command.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ...messages import AgentToolResult, TextContent
from .one_line import one_line
from .paint import Painter, Run
from .shell_line import MARK
from .text_lines import TextLines
from .tool_view import ToolView

if TYPE_CHECKING:  # not needed for the first drawing
    from ...messages import AgentMessage
    from ...session.formats.pi_messages import BashExecution
    from ..live.user_command import UserCommand

__all__ = ["CommandView", "running_command", "stored_command"]

SHOWN_LINES = 100
"""Of the output, its last ones; Ctrl-O shows the rest."""


class CommandView(ToolView):
    """One command. *so_far* gives what it has printed by now."""

    def __init__(
        self,
        command: str,
        painter: Painter,
        *,
        told: bool,
        clock: Callable[[], float] | None,
        so_far: Callable[[], str] = lambda: "",
    ) -> None:
        name = MARK if told else MARK * 2
        super().__init__(name, painter, clock)
        self._so_far = so_far
        self._where = ""
        self.begins(name, {"command": command})

    def has_ended(self, ran: BashExecution) -> None:
        """It has come to its end."""
        details: dict[str, Any] = {}
        if ran.cancelled:
            details["aborted"] = True
        elif ran.exit_code is not None:
            details["exitCode"] = ran.exit_code
        if ran.truncated:
            path = ran.full_output_path
            self._where = f"all of it is in {one_line(path)}" if path else "the rest was not kept"
        failed = ran.cancelled or bool(ran.exit_code)
        self.ends(AgentToolResult([TextContent(ran.output)], details, failed), failed=failed)

    def close(self) -> None:
        if not self.finished:
            self._progress = AgentToolResult([TextContent(self._so_far())])
        super().close()

    def live(self, width: int, most: int) -> list[str]:
        if self.finished or most < 1:
            return super().live(width, most)
        rows = [self._head(width, self._mark(), self._running_notes())]
        last = TextLines(self._so_far()).last(most - 1)
        return [*rows, *[self._line(line, width) for line in last]]

    def _body(self, width: int) -> list[str]:
        lines = self._lines()
        rows = self._in_full(lines.last(SHOWN_LINES), width)
        left = len(lines) - SHOWN_LINES
        if left > 0:
            rows.insert(0, self._left_out(left, "earlier"))
        if self._where:
            rows.append(self._painter.line([Run("  "), Run(f"… {self._where}", ("note",))]))
        return rows


def running_command(
    command: UserCommand, painter: Painter, clock: Callable[[], float] | None
) -> CommandView:
    """One that runs."""
    return CommandView(
        command.command, painter, told=command.told, clock=clock, so_far=command.so_far
    )


def stored_command(message: AgentMessage, painter: Painter) -> CommandView | None:
    """One that was run before; None if *message* is none. Told by its role, as all that is stored
    is."""
    if message.role != "bashExecution":
        return None
    ran = cast("BashExecution", message)
    view = CommandView(ran.command, painter, told=not ran.exclude_from_context, clock=None)
    view.has_ended(ran)
    return view
