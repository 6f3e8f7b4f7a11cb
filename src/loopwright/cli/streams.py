"""Standard output and standard error: what can be written to them, and how it looks there.

On a terminal, text may be styled, and control characters that came from a model or a tool are made
visible instead of being obeyed. Into a pipe or a file, text goes as it is.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple, TextIO

from ..visible_text import visible
from .line_breaks import hanging

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "Output",
    "Piece",
    "Style",
    "check_output",
    "drop_output",
    "help_console",
    "prepare_streams",
    "print_error",
    "print_note",
    "visible",
]

Style = Literal["plain", "quiet", "event", "speech", "call", "good", "bad"]

_RICH_STYLES: dict[Style, str] = {
    "plain": "",
    "quiet": "dim",
    "event": "cyan",
    "speech": "bold",
    "call": "yellow",
    "good": "green",
    "bad": "red",
}


class Piece(NamedTuple):
    """Some text, and what it is."""

    text: str
    style: Style = "plain"


class Output:
    """One of the two standard streams. Every write is flushed, so that readers see it at once."""

    console: Console | None
    """What styles are printed with; None where there are none: pipes, NO_COLOR, dumb terminals."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.is_terminal = file.isatty()
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self.console = _console(file) if self.is_terminal and not plain else None

    @property
    def width(self) -> int:
        """Characters in a line."""
        if not self.is_terminal:
            return 80
        import shutil

        asked = os.environ.get("COLUMNS", "")
        if not (asked.isdecimal() and int(asked)):
            try:  # the other stream may be a pipe
                if columns := os.get_terminal_size(self._file.fileno()).columns:
                    return columns
            except (OSError, ValueError):
                pass
        return shutil.get_terminal_size().columns

    def write(self, text: str, style: Style = "plain") -> None:
        """Write *text*. Raises OSError if that fails, `BrokenPipeError` if nobody reads."""
        self.write_pieces([Piece(text, style)])

    def write_pieces(self, pieces: Iterable[Piece]) -> None:
        """Write all *pieces*, one after the other."""
        for text, style in pieces:
            shown = visible(text) if self.is_terminal else text
            if self.console is not None and style != "plain":
                from rich.text import Text

                self.console.print(Text(shown, _RICH_STYLES[style]), end="", soft_wrap=True)
            else:
                self._file.write(shown)
        self._file.flush()

    def write_line_of_bytes(self, line: bytes) -> None:
        """Write *line* and a newline, whatever the encoding of the stream: JSON is UTF-8."""
        self.write_bytes(line + b"\n")

    def write_bytes(self, data: bytes) -> None:
        """Write *data* as it is. Not for a terminal, which would obey what is in it."""
        self._file.flush()
        binary = self._file.buffer
        binary.write(data)
        binary.flush()


def help_console() -> Console:
    """What the help pages are printed with."""
    return Output(sys.stdout).console or _console(sys.stdout, styles=False)


def _console(file: TextIO, *, styles: bool = True) -> Console:
    from rich.console import Console

    class PipeMindedConsole(Console):
        def on_broken_pipe(self) -> None:  # rich itself would end the program with 1
            raise BrokenPipeError

    return PipeMindedConsole(file=file, highlight=False, color_system="auto" if styles else None)


def print_error(message: str, *, hint: str | None = None) -> None:
    """Say on standard error what went wrong, and what to do about it. On a terminal, lines are
    broken between words."""
    _print_to_stderr("error: ", message, "bad")
    for line in (hint or "").splitlines():
        _print_to_stderr("hint: ", line, "quiet")


def print_note(message: str) -> None:
    """Say something on standard error that does not belong to the answer."""
    _print_to_stderr("", message, "quiet")


def _print_to_stderr(label: str, message: str, style: Style) -> None:
    output = Output(sys.stderr)
    text = visible(message).rstrip("\n")
    if output.is_terminal:  # some terminals break a line that fills its last column
        text = hanging(text, output.width - 1, label=len(label))
    try:
        output.write_pieces([Piece(label, style), Piece(f"{text}\n")])
    except OSError:  # nobody reads what we have to say
        return


def prepare_streams() -> None:
    """Make both streams usable, however the program was started.

    A closed stream becomes the null device, so that no file opened later takes its number: standard
    output for reading only, so that a result that is printed there fails as on a full disk. A
    character that the locale's encoding lacks is written as an escape instead of raising.
    """
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for good
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def check_output() -> None:
    """Raise OSError if nothing can be written to standard output, before a request is paid for."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):  # not a real file
        return
    os.write(descriptor, b"")


def drop_output() -> None:
    """Send what is still buffered nowhere; Python would complain when it cannot write it at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, sys.stdout.fileno())
    except (OSError, ValueError):  # not a real file: nothing is written at exit either
        return
    finally:
        os.close(null)
