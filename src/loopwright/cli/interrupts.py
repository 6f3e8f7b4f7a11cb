"""Ctrl-C and SIGTERM: the first one aborts the run, the second one ends the program at once."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["Interrupts"]


class Interrupts:
    """While entered, signals that ask the program to stop call *abort* in the event loop.

    Use it inside a running loop. `received` is the first signal that came, if one did. A signal
    that the program was started to ignore, as `nohup` and shells' background jobs do, stays
    ignored.
    """

    def __init__(self, abort: Callable[[], object]) -> None:
        self._abort = abort
        self._loop = asyncio.get_running_loop()
        self._before: dict[int, Any] = {}
        self.received: signal.Signals | None = None

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():  # signals reach no other thread
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        if self.received is not None:
            # By the signal itself, so that a shell sees how we ended and stops its loops too.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self.received = signal.Signals(number)
        # Not called here: this may be any line of the program, one that holds a lock included.
        self._loop.call_soon_threadsafe(self._abort)
