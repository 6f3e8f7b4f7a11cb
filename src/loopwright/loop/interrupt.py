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
from .faults import is_failure

__all__ = ["GRACE_SECONDS", "CancelledFromWithin", "Interrupt", "Interrupted"]

GRACE_SECONDS = 2.0
"""How long, after a stop, foreign code may take to settle before it is left behind."""

_AGAIN_SECONDS = 0.5
"""Code that swallowed a cancellation and goes on waiting is cancelled once more after so long."""


class Interrupted(Exception):
    """The await was cancelled because the run was stopped. Never leaves the loop."""


class CancelledFromWithin(Exception):
    """Foreign code raised `CancelledError` though nobody cancelled the run: it has failed."""

    def __init__(self) -> None:
        super().__init__("it was cancelled from within, though nobody cancelled the run")


class Interrupt:
    """Watches *signal* for the task that creates it."""

    __slots__ = (
        "_asked",
        "_baseline",
        "_deadline",
        "_loop",
        "_signal",
        "_task",
        "_timer",
        "_turn",
        "_wait",
        "cancelling",
    )

    def __init__(self, signal: AbortSignal) -> None:
        self._signal = signal
        self._loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self.cancelling = task.cancelling
        """How often the task's end was asked for, by anybody: the cheap first look."""
        self._wait: float | None = None  # the grace of the present await; None: not waiting
        self._turn = 0  # tells one await from the next
        self._asked = 0  # how often we have cancelled the present await
        self._baseline = task.cancelling()  # whatever was asked for before is not about this run
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def watch(self) -> Callable[[], None]:
        """Start watching. Returns what ends it."""
        forget = self._signal.on_abort(self._fired)

        def unwatch() -> None:
            forget()
            if self._timer is not None:
                self._timer.cancel()

        return unwatch

    @property
    def from_outside(self) -> bool:
        """Somebody else wants the task to end, even if what was awaited swallowed it."""
        return self._task.cancelling() - self._asked > self._baseline

    async def guard(self, awaitable: Awaitable[Any], grace: float = 0.0) -> Any:
        """Await it; once the signal has fired it has *grace* seconds more.

        Raises `Interrupted` if it was cut off, `CancelledFromWithin` if it was cancelled by nobody
        we know. A source that swallows its cancellation and returns keeps its value.
        """
        self._turn += 1
        self._wait = grace
        if self._signal.aborted:
            self._schedule()
        try:
            value = await awaitable
        except asyncio.CancelledError as error:
            if not self._asked:
                if self.from_outside:
                    raise
                raise CancelledFromWithin from error
            self._take_back()
            raise Interrupted from None
        except BaseException as error:
            if self._asked or is_failure(error):  # which may be how it takes its cancellation
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

    def cut(self) -> None:
        """End the present await now, as if the signal had fired, if it may be cut off at all."""
        if self._wait is not None:
            self._strike_in(0)

    def _take_back(self) -> None:
        while self._asked:
            self._asked -= 1
            self._task.uncancel()
        if self.from_outside:
            raise asyncio.CancelledError

    def _fired(self) -> None:
        self._deadline = self._loop.time()
        if self._wait is not None and not self._asked:
            self._schedule()

    def _schedule(self) -> None:
        """Strike when the grace of the present await is over, counted from the stop on."""
        assert self._wait is not None
        if self.from_outside:  # what is awaited has just been cancelled; it may clean up
            self._strike_in(_AGAIN_SECONDS)
            return
        now = self._loop.time()
        stopped_at = now if self._deadline is None else self._deadline
        self._strike_in(max(stopped_at + self._wait - now, 0.05 if self._wait else 0.0))

    def _strike_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, self._strike, self._turn)

    def _strike(self, turn: int) -> None:
        if turn == self._turn and self._wait is not None:
            self._asked += 1
            self._task.cancel()
            self._strike_in(_AGAIN_SECONDS)
