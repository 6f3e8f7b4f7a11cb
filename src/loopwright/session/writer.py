"""Commits one after another, whatever happens to those who wait for them.

A commit that was handed over is written even if its caller is cancelled meanwhile: what the next
one builds on must not depend on who was still listening. The first one that fails for more than a
refusal stops all that follow, since what is on the disk is then no longer known.

Not here: what is committed (session), or how (the stores).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ..errors import ApprovalRefused, InboxNotEmpty, LeaseLost, SessionClosed, StoreUnavailable
from .store import Commit, Lease, SessionStore

__all__ = ["Writer"]

_log = logging.getLogger("loopwright")

_REFUSALS = (InboxNotEmpty, ApprovalRefused)
"""Nothing was written, and everything is as it was."""


class Writer:
    """Owns two tasks: one that commits in order, one that keeps the lease alive."""

    def __init__(
        self,
        store: SessionStore,
        lease: Lease,
        seconds: float,
        completed: Callable[[Commit], None],
        applied: Callable[[Commit, int], None],
    ) -> None:
        """*completed* is called with each commit just before it is written, when all before it are
        settled; *applied* once it is written, before anybody hears of it."""
        self._store = store
        self._lease = lease
        self._seconds = seconds
        self._completed = completed
        self._applied = applied
        self._queue: asyncio.Queue[tuple[Commit, asyncio.Future[int]] | None] = asyncio.Queue()
        self._closed = False
        self.failure: Exception | None = None
        self.on_failure: Callable[[Exception], object] | None = None
        """Called once, when the session cannot be written any more."""
        self._writing = asyncio.create_task(self._write())
        self._renewing = asyncio.create_task(self._renew())

    async def commit(self, commit: Commit) -> int:
        """Write *commit*. Cancelling the caller does not take it back."""
        return await asyncio.shield(self.submit(commit))

    def submit(self, commit: Commit) -> asyncio.Future[int]:
        """Hand *commit* over; what comes of it is the future's."""
        if self._closed:
            raise SessionClosed("the session is closed", hint="open it again")
        if self.failure is not None:
            raise self.failure
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_look)
        self._queue.put_nowait((commit, future))
        return future

    async def aclose(self) -> None:
        """Write what was handed over, then let the lease go."""
        if self._closed:
            return
        self._closed = True
        self._renewing.cancel()
        self._queue.put_nowait(None)
        await asyncio.wait({self._writing, self._renewing})
        try:
            await self._store.release(self._lease)
        except StoreUnavailable as error:
            _log.warning("the lease on session %s runs out by itself: %s", self._name, error)

    @property
    def _name(self) -> str:
        return self._lease.session_id

    async def _write(self) -> None:
        while (job := await self._queue.get()) is not None:
            commit, future = job
            if self.failure is not None:
                future.set_exception(self.failure)
                continue
            try:
                self._completed(commit)
                head = await self._store.commit(self._lease, commit)
                self._applied(commit, head)
            except _REFUSALS as refusal:
                future.set_exception(refusal)
            except Exception as error:  # noqa: BLE001 - stores are foreign code, too
                self._fail(error)
                future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(head)

    async def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + self._seconds / 4
            await asyncio.sleep(self._seconds / 4)
            try:
                await self._store.renew(self._lease, self._seconds)
            except LeaseLost as error:
                self._fail(error)
                return
            except Exception as error:  # noqa: BLE001 - stores are foreign code
                # The epoch is what counts, not the time; the next try may do.
                _log.warning("the lease on session %s was not renewed: %s", self._name, error)
            late = loop.time() - due
            if late > self._seconds / 2:  # most likely a tool that should run in a thread
                _log.warning(
                    "the lease on session %s was renewed %.1f s late: the store is slow, or "
                    "something blocks the event loop",
                    self._name,
                    late,
                )

    def _fail(self, error: Exception) -> None:
        if self.failure is None:
            self.failure = error
            if self.on_failure is not None:
                self.on_failure(error)


def _look(future: asyncio.Future[int]) -> None:
    if not future.cancelled():
        future.exception()  # looked at, so that nothing is logged when nobody waits any more
