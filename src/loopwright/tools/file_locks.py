"""One change of a file at a time, also when whoever asked for it has gone.

A thread that writes cannot be stopped. So a lock belongs to the work, not to the caller: it is let
go when the work has settled, and a caller that is cancelled leaves word that nothing new may be put
in place. Waiting takes no thread.

Not here: which paths are one file (paths.lock_key).
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from ..loop.threads import run_in_thread

__all__ = ["FileLocks", "GivenUp", "GiveUp"]

T = TypeVar("T")

SETTLE_SECONDS = 1.0
"""How long a cancelled caller waits for the work to settle. Less than the grace of an aborted tool,
so that nearly always a file is at rest when the run reports the abort."""

_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class GivenUp(Exception):
    """Raised inside the work when its caller has gone; nobody sees it."""


class GiveUp:
    """Tells work in a thread that nobody waits for it any more."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def now(self) -> None:
        self._event.set()

    def check(self) -> None:
        """Raise `GivenUp` if the caller has gone."""
        if self._event.is_set():
            raise GivenUp


class FileLocks:
    """Locks by name, for any number of event loops in any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[_Waiter]] = {}
        """Whoever waits for a lock; there is an entry for each lock that is held."""

    async def run(self, key: str, work: Callable[[GiveUp], T]) -> T:
        """Run *work* in a thread while holding the lock *key*; in the order of asking.

        Cancelled while waiting for the lock, nothing happens. Cancelled later, *work* is told by
        its `GiveUp` and the lock is held until it has returned.
        """
        await self._acquire(key)
        loop = asyncio.get_running_loop()
        settled: asyncio.Future[None] = loop.create_future()
        give_up = GiveUp()
        claim = threading.Lock()  # taken once, by the work or by the caller: it releases

        def hold() -> T:
            if not claim.acquire(blocking=False):
                raise GivenUp
            try:
                return work(give_up)
            finally:
                self._release(key)
                _tell(loop, settled)

        try:
            return await run_in_thread(hold)
        except asyncio.CancelledError:
            give_up.now()
            if claim.acquire(blocking=False):
                self._release(key)
            else:
                await asyncio.wait({settled}, timeout=SETTLE_SECONDS)
            raise
        except BaseException:
            if claim.acquire(blocking=False):  # no thread could be started
                self._release(key)
            raise

    async def _acquire(self, key: str) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is None:
                self._waiting[key] = deque()
                return
            turn: asyncio.Future[None] = loop.create_future()
            waiter = (loop, turn)
            waiting.append(waiter)
        try:
            await turn
        except BaseException:
            with self._lock:
                still = self._waiting.get(key)
                if still is not None and waiter in still:
                    still.remove(waiter)
                    raise
            self._release(key)  # the lock was already ours, or on its way
            raise

    def _release(self, key: str) -> None:
        while True:
            with self._lock:
                waiting = self._waiting[key]
                if not waiting:
                    del self._waiting[key]
                    return
                loop, turn = waiting.popleft()
            if _tell(loop, turn):
                return


def _tell(loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> bool:
    """Settle *future* from any thread. False if its loop has ended, and with it who waited."""
    try:
        loop.call_soon_threadsafe(_settle, future)
    except RuntimeError:
        return False
    return True


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
