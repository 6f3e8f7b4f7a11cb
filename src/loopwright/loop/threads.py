"""Blocking functions in threads that nobody has to wait for.

A thread cannot be stopped from outside. So when its caller is cancelled it is left to itself: what
it still returns or raises is dropped, it no longer counts, and being a daemon it does not keep the
program from exiting (those of `asyncio.to_thread` do). Threads are used again while there is work.

A function may itself run an event loop, such as a tool that calls another agent's `prompt_sync`. What
is called from there gets a pool of its own, so calls never wait for a thread that waits for them. A
forked child begins with an empty pool: the threads of its parent do not exist there.

Not here: how long an aborted tool is waited for (dispatch.py).
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ..signals import AbortSignal

__all__ = ["run_in_thread", "run_unless_aborted"]

T = TypeVar("T")

MAX_THREADS = 64
"""How many calls of one pool run at once; more wait. Abandoned ones do not count."""

IDLE_SECONDS = 10.0
"""After so long without work a thread ends."""


async def run_in_thread(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Call *function* in a daemon thread, in a copy of the caller's context.

    Waits for a free thread if all are busy. Cancelling the caller abandons the call at once. A
    `StopIteration` becomes a `RuntimeError`, as in generators; other exceptions come as they are.
    """
    return await run_unless_aborted(None, function, *args, **kwargs)


async def run_unless_aborted(
    signal: AbortSignal | None, function: Callable[..., T], /, *args: Any, **kwargs: Any
) -> T:
    """`run_in_thread`, but once *signal* has fired the call is not begun, nor waited for a thread:
    it raises `CancelledError`. One that runs already is left to its caller."""
    loop = asyncio.get_running_loop()
    pool = _pool_of_this_thread()
    await pool.acquire(loop, signal)
    job = _Job(pool, loop, function, args, kwargs)
    try:
        pool.start(job)
    except BaseException:
        pool.release()
        raise
    try:
        return cast("T", await job.future)
    except asyncio.CancelledError:
        job.abandon()
        raise
    finally:
        del job  # it holds the exception, whose traceback holds this frame


class _Job:
    """One call, shared by its thread and its caller."""

    __slots__ = ("_call", "_counts", "_lock", "_loop", "_pool", "future")

    def __init__(
        self,
        pool: _Pool,
        loop: asyncio.AbstractEventLoop,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.future: asyncio.Future[Any] = loop.create_future()
        self._pool = pool
        self._loop = loop
        self._call = (contextvars.copy_context(), function, args, kwargs)
        self._counts = True
        self._lock = threading.Lock()

    def run(self) -> None:
        context, function, args, kwargs = self._call
        result: Any = None
        error: BaseException | None = None
        try:
            result = context.run(function, *args, **kwargs)
        except StopIteration as stop:  # a future cannot carry it
            error = RuntimeError(f"the function raised StopIteration({stop.value!r})")
            error.__cause__ = stop
        except BaseException as raised:  # noqa: BLE001 - the caller gets it
            error = raised
        self._stop_counting()
        try:
            self._loop.call_soon_threadsafe(self._settle, result, error)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    def abandon(self) -> None:
        """The caller has gone."""
        self._stop_counting()

    def _stop_counting(self) -> None:
        with self._lock:
            counted, self._counts = self._counts, False
        if counted:
            self._pool.release()

    def _settle(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():  # cancelled: a late result is nobody's
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


class _Pool:
    """Threads for any number of event loops in any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy = 0
        self._idle: list[_Worker] = []
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    async def acquire(self, loop: asyncio.AbstractEventLoop, signal: AbortSignal | None) -> None:
        """Take a place, waiting for one in the order of asking, unless *signal* fires."""
        if signal is not None and signal.aborted:
            raise asyncio.CancelledError
        with self._lock:
            if self._busy < MAX_THREADS:
                self._busy += 1
                return
            turn: asyncio.Future[None] = loop.create_future()
            waiter = (loop, turn)
            self._waiting.append(waiter)
        forget = None if signal is None else signal.on_abort(turn.cancel)
        try:
            await turn
            if signal is not None and signal.aborted:  # since the place became ours
                raise asyncio.CancelledError
        except BaseException:
            with self._lock:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
                    raise
            self.release()  # the place was already ours, or on its way
            raise
        finally:
            if forget is not None:
                forget()

    def release(self) -> None:
        """Give a place back, or on to whoever waits the longest."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy -= 1
                    return
                loop, turn = self._waiting.popleft()
            try:
                loop.call_soon_threadsafe(_wake, turn)
            except RuntimeError:  # that loop has ended
                continue
            return

    def start(self, job: _Job) -> None:
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        if worker is None:
            worker = _Worker(self)
            worker.jobs.put(job)
            worker.start()
        else:
            worker.jobs.put(job)

    def rest(self, worker: _Worker) -> None:
        with self._lock:
            self._idle.append(worker)

    def retire(self, worker: _Worker) -> bool:
        """Take *worker* off the idle list; False if a job is already on its way to it."""
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
                return True
            return False


def _wake(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)


class _Worker(threading.Thread):
    """A thread that runs one job after the other and ends when there were none for a while."""

    def __init__(self, pool: _Pool) -> None:
        super().__init__(name="loopwright-tool", daemon=True)
        self.jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self.inner: _Pool | None = None
        """For what a job calls from an event loop of its own."""
        self._pool = pool

    def run(self) -> None:
        while True:
            try:
                job = self.jobs.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                if self._pool.retire(self):
                    return
                continue
            job.run()
            del job  # results and arguments are not kept while the thread rests
            self._pool.rest(self)


_pool = _Pool()


def _pool_of_this_thread() -> _Pool:
    thread = threading.current_thread()
    if not isinstance(thread, _Worker):
        return _pool
    if thread.inner is None:
        thread.inner = _Pool()
    return thread.inner


def _forget_after_fork() -> None:
    global _pool
    _pool = _Pool()
    thread = threading.current_thread()
    if isinstance(thread, _Worker):  # a job has forked; its thread is all that there is now
        thread.inner = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
