"""The time between being asked for something and beginning with it, in which it can be called off.

A model of this machine may have to be started, or fetched; files are read. A harness knows nothing of
the run yet and can stop nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["Beginning"]

T = TypeVar("T")


class Beginning:
    """Used once, on one event loop."""

    def __init__(self) -> None:
        self.stopped = False
        """It was called off."""
        self._task: asyncio.Task[object] | None = None

    def stop(self) -> None:
        """Call it off. May come at any time, and more than once."""
        self.stopped = True
        if self._task is not None:
            self._task.cancel()

    async def unless_stopped(self, begin: Callable[[], Awaitable[T]]) -> T | None:
        """What *begin* gives, or raises; None if it was called off, and has been cancelled."""

        async def run() -> T:
            return await begin()

        self._task = task = asyncio.create_task(run())
        if self.stopped:
            task.cancel()
        try:
            result = await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise  # it was the caller who was cancelled
            return None
        return None if self.stopped else result
