"""An event loop whose clock jumps, and which can strike between any two of its steps.

When nothing is ready the time goes on to the next timer at once, so that graces and delays of
seconds cost nothing and a run takes the same course every time. When nothing is ready and nothing
will ever be, it says so instead of hanging. Threads of tools take real time; the clock waits for
them, except for those that said they are stuck.
"""

from __future__ import annotations

import asyncio
import contextvars
import selectors
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from loopwright.loop import threads

__all__ = ["Hang", "VirtualTimeLoop"]

T = TypeVar("T")

MOST_STEPS = 100_000
MOST_SECONDS = 10_000.0
PATIENCE_SECONDS = 10.0  # of real time, with a thread


class Hang(AssertionError):
    """The loop would wait, or spin, for ever."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """See the module. `steps` counts callbacks; what stands in `strikes` under a number runs right
    before that step, outside of any task."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self.strikes: dict[int, Callable[[], object]] = {}
        self.complaints: list[str] = []
        """What asyncio complained about: exceptions nobody looked at, tasks destroyed early."""
        self.stuck = 0
        """Threads that will not return until the test lets them."""
        self._busy_before = _busy_threads()
        super().__init__(_JumpingSelector(self))
        self.set_exception_handler(self._complain)

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.complaints.append(f"{context.get('message')}: {context.get('exception')!r}")

    def time(self) -> float:
        return self.now

    @property
    def threads_at_work(self) -> bool:
        """A tool's thread is busy with something that will end."""
        return _busy_threads() - self._busy_before - self.stuck > 0

    # -- counting the steps -----------------------------------------------------------------

    def _step(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.steps += 1
        if self.steps in self.strikes:
            self.strikes.pop(self.steps)()
        if self.steps > MOST_STEPS:
            raise Hang(f"more than {MOST_STEPS} steps: the run goes round in circles")
        callback(*args)

    def call_soon(
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        return super().call_soon(self._step, callback, args, context=context)

    def call_soon_threadsafe(
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        return super().call_soon_threadsafe(self._step, callback, args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return super().call_at(when, self._step, callback, args, context=context)

    # -- a whole life -----------------------------------------------------------------------

    def live(self, main: Coroutine[Any, Any, T]) -> T:
        """Run *main* and end. Nothing may be left: no task, no complaint, no open generator."""
        try:
            result = self.run_until_complete(main)
            left = [repr(task) for task in asyncio.all_tasks(self)]
            assert not left, f"tasks outlived the run: {left}"
            generators: Any = getattr(self, "_asyncgens", ())
            suspended = [g for g in generators if g.ag_frame is not None]
            assert not suspended, f"async generators were not closed: {suspended}"
            assert not self.complaints, self.complaints
            return result
        finally:
            for task in asyncio.all_tasks(self):
                task.cancel()
            self.close()


def _busy_threads() -> int:
    pool = threads._pool
    alive = sum(thread.name == "loopwright-tool" for thread in threading.enumerate())
    return alive - len(pool._idle)


class _JumpingSelector(selectors.SelectSelector):
    """Where a loop waits: here, instead of waiting, the clock is moved."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return []  # threads put their callbacks into the queue; the socket is but a bell
        left = PATIENCE_SECONDS
        while self._loop.threads_at_work and left > 0:
            ready = super().select(0.01)
            left -= 0.01
            if ready:
                return ready
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            # A thread of the test before may have been counted as busy when it was just ending.
            ready = super().select(1.0)
            if ready:
                return ready
            raise Hang("the run hangs: nothing is ready and no timer is set")
        self._loop.now += timeout
        if self._loop.now > MOST_SECONDS:
            raise Hang(f"the run takes more than {MOST_SECONDS} seconds")
        return []
