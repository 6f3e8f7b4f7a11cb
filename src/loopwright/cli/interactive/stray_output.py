"""What something prints while the screen is ours: caught, and shown as a note above it.

A warning or a log line in the middle of the live area would stay there as dirt. Only what goes
through Python's own streams is caught.
"""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

__all__ = ["caught_output"]

LONGEST_LINE = 2_000


class _Stray(io.TextIOBase):
    """Gives whole lines to *tell*, in the thread of the event loop."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._line = ""

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def write(self, text: str, /) -> int:
        with self._lock:
            *lines, rest = (self._line + text).split("\n")
            self._line = rest[-LONGEST_LINE:]
        for line in lines:
            self._send(line)
        return len(text)

    def flush(self) -> None:
        return

    def end(self) -> None:
        """Tell what has no newline behind it."""
        with self._lock:
            line, self._line = self._line, ""
        self._send(line)

    def _send(self, line: str) -> None:
        if not line.strip():
            return
        try:
            self._loop.call_soon_threadsafe(self._tell, line[:LONGEST_LINE])
        except RuntimeError:  # the loop is closed; nobody is there to be told
            return


@contextmanager
def caught_output(tell: Callable[[str], None]) -> Generator[None, None, None]:
    """While entered, standard output and standard error go to *tell*, line by line."""
    before = sys.stdout, sys.stderr
    stray = _Stray(tell)
    sys.stdout = sys.stderr = stray
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
        stray.end()
