"""Signals while the screen is ours: asked to end, interrupted from outside, stopped, hung up.

As in the other modes the first signal ends the run and the program in order, and a second one ends
it at once; here the terminal is put back first.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["TerminalSignals"]

LEAVE_SCREEN = b"\x1b[?2004l\x1b[?25h\x1b[?7h\x1b[0m\r\n"
"""No bracketed paste any more, cursor shown, lines wrapped, no colours."""


class TerminalSignals:
    """While entered, signals call the given functions in the event loop.

    A signal that the program was started to ignore, as by `nohup`, stays ignored.
    """

    def __init__(
        self,
        *,
        end: Callable[[signal.Signals], object],
        interrupt: Callable[[], object],
        suspend: Callable[[], object],
    ) -> None:
        """*end* is called for SIGTERM and SIGHUP, *interrupt* for SIGINT (which the key Ctrl-C is
        not here), *suspend* for SIGTSTP."""
        self._calls: dict[int, Callable[[], object]] = {
            signal.SIGTERM: lambda: end(signal.SIGTERM),
            signal.SIGINT: interrupt,
        }
        if sys.platform != "win32":
            self._calls[signal.SIGHUP] = lambda: end(signal.SIGHUP)
            self._calls[signal.SIGTSTP] = suspend
        self._loop = asyncio.get_running_loop()
        self._before: dict[int, Any] = {}
        self._waiting: set[int] = set()
        self._ending = False
        self._terminal = _terminal_state()

    def __enter__(self) -> TerminalSignals:
        if threading.current_thread() is threading.main_thread():  # signals reach no other thread
            for number in self._calls:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def stop_process(self) -> None:
        """Stop this process and its job, as Ctrl-Z does; returns when it is continued. The terminal
        must have been put back."""
        if sys.platform == "win32":
            return
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        try:
            os.kill(0, signal.SIGTSTP)
        finally:
            signal.signal(signal.SIGTSTP, ours)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        ends = number in (signal.SIGTERM, getattr(signal, "SIGHUP", None))
        # Also when the loop has not even heard of the last one: it hangs.
        if (ends and self._ending) or (number == signal.SIGINT and number in self._waiting):
            _put_back(self._terminal)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self._ending = self._ending or ends
        self._waiting.add(number)
        self._loop.call_soon_threadsafe(self._call, number)

    def _call(self, number: int) -> None:
        self._waiting.discard(number)
        self._calls[number]()


def _terminal_state() -> list[Any] | None:
    if sys.platform == "win32":
        return None
    import termios

    try:
        return termios.tcgetattr(0)
    except (termios.error, OSError):
        return None


def _put_back(state: list[Any] | None) -> None:
    if sys.platform == "win32" or state is None:
        return
    import termios

    try:
        os.write(1, LEAVE_SCREEN)
        termios.tcsetattr(0, termios.TCSANOW, state)
    except (termios.error, OSError):
        return
