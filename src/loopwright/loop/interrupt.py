"""Cancelling an await of ours when the run is stopped, and nothing else.

`Task.cancel` hits whatever the task happens to await. So it is used only while the run says "I am
waiting here, and may be disturbed", it is taken back with `uncancel`, and what arrives is told
apart from a cancellation by the outside, which always wins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ..signals import AbortSignal

__all__ = ["GRACE_SECONDS", "Interrupt", "Interrupted"]

GRACE_SECONDS = 2.0
"""How long, after a stop, foreign code may take to settle before it is left behind."""


class Interrupted(Exception):
    """The await was cancelled because the run was stopped. Never leaves the loop."""


class Interrupt:
    """Watches *signal* for the task that creates it."""

    __slots__ = ("_asked", "_baseline", "_deadline", "_loop", "_signal", "_task", "_turn", "_wait")

    def __init__(self, signal: AbortSignal) -> None:
        self._signal = signal
        self._loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._wait: float | None = None  # the grace of the present await; None: not waiting
        self._turn = 0  # tells one await from the next
        self._asked = False
        self._baseline = 0
        self._deadline: float | None = None

    def watch(self) -> Callable[[], None]:
        """Start watching. Returns what ends it."""
        return self._signal.on_abort(self._fired)

    async def guard(self, awaitable: Awaitable[Any], grace: float = 0.0) -> Any:
        """Await it; once the signal has fired it has *grace* seconds more.

        Raises `Interrupted` if it was cut off. A source that swallows its cancellation and
        returns keeps its value.
        """
        self._turn += 1
        self._wait = grace
        if self._signal.aborted:
            self._schedule()
        try:
            value = await awaitable
        except asyncio.CancelledError:
            if not self._asked:
                raise
            self._take_back()
            raise Interrupted from None
        except BaseException:
            if self._asked:
                self._take_back()
            raise
        finally:
            self._wait = None
        if self._asked:
            self._take_back()
        return value

    async def settle(self, awaitable: Awaitable[Any], grace: float) -> None:
        """`guard` for what the run only waits for: being cut off is no news.

        Written out a second time because it is awaited for every event of an async listener.
        """
        self._turn += 1
        self._wait = grace
        if self._signal.aborted:
            self._schedule()
        try:
            await awaitable
        except asyncio.CancelledError:
            if not self._asked:
                raise
        finally:
            self._wait = None
            if self._asked:
                self._take_back()

    def _take_back(self) -> None:
        self._asked = False
        if self._task.uncancel() > self._baseline:
            raise asyncio.CancelledError  # the outside wants the task to end as well

    def _fired(self) -> None:
        self._deadline = self._loop.time()
        if self._wait is not None:
            self._schedule()

    def _schedule(self) -> None:
        """Strike when the grace of the present await is over, counted from the stop on."""
        assert self._wait is not None
        now = self._loop.time()
        stopped_at = now if self._deadline is None else self._deadline
        left = max(stopped_at + self._wait - now, 0.05 if self._wait else 0.0)
        self._loop.call_later(left, self._strike, self._turn)

    def _strike(self, turn: int) -> None:
        if turn == self._turn and self._wait is not None and not self._asked:
            self._asked = True
            self._baseline = self._task.cancelling()
            self._task.cancel()
