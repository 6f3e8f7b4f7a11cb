"""The run that is going on in an agent: how to stop it, and who waits for its end.

Not here: what a run works on (run), or what of it outlasts it (agent_state).
"""

from __future__ import annotations

import asyncio

from ..signals import AbortController

__all__ = ["ActiveRun"]


class ActiveRun:
    """Made in the task that drives the run; may be waited for in any event loop."""

    __slots__ = ("_over", "_waiting", "controller", "task")

    def __init__(self) -> None:
        self.controller = AbortController()
        self.task = asyncio.current_task()
        self._waiting: list[asyncio.Future[None]] = []
        self._over = False

    async def wait(self) -> None:
        """Return when the run has ended."""
        ended = asyncio.get_running_loop().create_future()
        self._waiting.append(ended)
        try:
            if not self._over:  # looked at behind the append: `end` may run in another thread
                await ended
        finally:
            self._waiting.remove(ended)

    def end(self) -> None:
        """Wake everybody who waits."""
        self._over = True
        for ended in tuple(self._waiting):
            try:
                ended.get_loop().call_soon_threadsafe(_resolve, ended)
            except RuntimeError:  # that loop has ended, and whoever waited in it
                continue


def _resolve(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)
