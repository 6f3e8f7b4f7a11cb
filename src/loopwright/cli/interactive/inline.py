"""A live area at the bottom of the terminal, and finished output above it, for good.

What is finished goes into the terminal's own scrollback, where it can be selected, searched and
scrolled with what the terminal has for that; only the area below is drawn again and again. Nothing
is asked of the terminal, so one that does not answer (over ssh, in a log) hangs nothing.

Not here: what is drawn (app.py).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.utils import get_cwidth

from ..exit_codes import ExitCode

if TYPE_CHECKING:
    from prompt_toolkit.data_structures import Size
    from prompt_toolkit.input import Input
    from prompt_toolkit.layout import Layout
    from prompt_toolkit.layout.screen import Char
    from prompt_toolkit.styles import BaseStyle

__all__ = ["InlineApplication", "OneWriteOutput", "terminal_output"]

FRAME_SECONDS = 0.04
"""Between two drawings, so at most 25 a second."""

BUSY_SHARE = 0.25
"""Of the time at most goes into drawing: a big terminal on a slow machine gets fewer frames."""

ESCAPE_SECONDS = 0.05
"""An escape with nothing behind it after so long is the key Esc, not the beginning of a sequence."""

ESCAPE_SECONDS_OVER_SSH = 0.12
"""The same where a network may deliver the bytes of one key apart."""

SLOWEST_FRAME_SECONDS = 0.25
"""However long a drawing takes, the next one comes after so long."""

SEQUENCE_SECONDS = 1.0
"""So long the next key of a sequence such as Ctrl-X Ctrl-E is waited for."""


class OneWriteOutput(Vt100_Output):
    """A terminal that gets a frame in one write, so that it shows no half of one."""

    holding = False

    def flush(self) -> None:
        """Write what waits, unless a frame is being made."""
        if not self.holding:
            super().flush()

    def write_frame(self) -> None:
        """The frame is made: write it."""
        self.holding = False
        self.flush()


def terminal_output(stdout: TextIO) -> Output:
    """The terminal that *stdout* is."""
    if sys.platform == "win32":
        from prompt_toolkit.output.defaults import create_output

        return create_output(stdout)
    output = OneWriteOutput.from_pty(stdout, term=os.environ.get("TERM"))
    output.enable_cpr = False
    return output


class InlineApplication(Application[ExitCode]):
    """An application that is drawn below the output it leaves behind."""

    def __init__(
        self,
        layout: Layout,
        *,
        style: BaseStyle,
        input: Input,
        output: Output,
        vi: bool,
        finished: Callable[[int], str],
        before: Callable[[Size], None],
    ) -> None:
        """*finished* gives what is to be printed above for so many columns, each thing once, as
        text for the terminal that ends with a newline. *before* is called before each drawing."""
        from prompt_toolkit.enums import EditingMode

        super().__init__(
            layout,
            style=style,
            include_default_pygments_style=False,
            editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
            color_depth=ColorDepth.from_env,
            erase_when_done=True,
            min_redraw_interval=FRAME_SECONDS,
            max_render_postpone_time=None,
            terminal_size_polling_interval=0.5 if sys.platform == "win32" else None,
            input=input,
            output=output,
        )
        over_ssh = "SSH_CONNECTION" in os.environ or "SSH_TTY" in os.environ
        self.ttimeoutlen = ESCAPE_SECONDS_OVER_SSH if over_ssh else ESCAPE_SECONDS
        self._finished = finished
        self._before = before
        self._began = 0.0
        self._cursor = Point(0, 0)
        """Where the last drawing left it; the focus may be elsewhere by now."""
        self._columns = output.get_size().columns
        """Of the terminal at the last drawing."""
        self.frames = 0
        """How often it was drawn."""
        self.before_render += self._begin_frame
        self.after_render += self._end_frame
        self.key_processor.after_key_press += self._wait_for_sequence

    def _begin_frame(self, _app: object) -> None:
        self._began = time.perf_counter()
        if isinstance(self.output, OneWriteOutput):
            self.output.holding = True
        size = self.output.get_size()
        if size.columns != self._columns:  # the signal that tells of it may come a moment later
            self._wipe_rewrapped()
            self._columns = size.columns
        text = self._finished(size.columns)
        self._before(size)
        if text or self.is_done:
            self.wipe()
            self.output.write_raw(text.replace("\r\n", "\n").replace("\n", "\r\n"))
            return
        shown = self.renderer.last_rendered_screen
        if shown is not None:
            wanted = self.layout.container.preferred_height(size.columns, size.rows).preferred
            if min(wanted, size.rows) < shown.height:
                self.wipe()  # the renderer never makes an area smaller by itself

    def _end_frame(self, _app: object) -> None:
        self.frames += 1
        shown = self.renderer.last_rendered_screen
        if shown is not None:
            self._cursor = shown.get_cursor_position(self.layout.current_window)
        if isinstance(self.output, OneWriteOutput):
            self.output.write_frame()
        spent = time.perf_counter() - self._began
        wanted = max(FRAME_SECONDS, spent / BUSY_SHARE)
        self.min_redraw_interval = min(wanted, SLOWEST_FRAME_SECONDS)

    def _wait_for_sequence(self, _processor: object) -> None:
        held = self.key_processor.key_buffer
        alone = len(held) == 1 and held[0].data == "\x1b"
        self.timeoutlen = 0.001 if alone else SEQUENCE_SECONDS

    # -- resizing ------------------------------------------------------------------------------

    def _on_resize(self) -> None:
        self._wipe_rewrapped()
        self._redraw()

    def _wipe_rewrapped(self) -> None:
        # The terminal has already broken the area's lines anew where it does that; the way back
        # to its first line is counted in the lines there are now.
        shown = self.renderer.last_rendered_screen
        if shown is not None:
            if rewraps_lines():
                columns = max(1, self.output.get_size().columns)
                widths = [_row_width(shown.data_buffer[y]) for y in range(shown.height)]
                rows = [max(1, -(-width // columns)) for width in widths]
                above = sum(rows[: self._cursor.y]) + self._cursor.x // columns
                self._wipe(above, sum(rows))
            else:
                self.wipe()

    # -- wiping --------------------------------------------------------------------------------

    def wipe(self) -> None:
        """Take the live area off the terminal and leave the cursor where it began."""
        shown = self.renderer.last_rendered_screen
        if shown is not None:
            self._wipe(self._cursor.y, shown.height)

    def _wipe(self, above: int, rows: int) -> None:
        """*above* rows stand over the one with the cursor, of *rows* in all.

        Line by line: some terminals, tmux among them, put a copy into the scrollback of what is
        erased from the top of the screen to its end.
        """
        output = self.output
        rows = min(rows, output.get_size().rows)
        output.write_raw("\r")
        output.cursor_up(above)
        # Remembered by the terminal, since at its last row the way down ends early.
        output.write_raw("\x1b7\x1b[2K" + "\x1b[B\x1b[2K" * (rows - 1) + "\x1b8")
        output.reset_attributes()
        output.enable_autowrap()
        self.renderer.reset(leave_alternate_screen=False)


def rewraps_lines() -> bool:
    """Whether the terminal breaks long lines anew when it gets narrower, as nearly all do."""
    environment = os.environ
    term = environment.get("TERM", "")
    if "TMUX" in environment:
        return True
    return not ("XTERM_VERSION" in environment or term == "linux" or term.startswith("screen"))


def _row_width(row: Mapping[int, Char]) -> int:
    """Columns of a drawn line up to the last thing in it."""
    return max(
        (x + get_cwidth(char.char) for x, char in row.items() if char.char.strip()), default=0
    )
