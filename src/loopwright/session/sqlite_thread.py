"""One SQLite connection on one thread of its own, and the jobs that wait for it.

SQLite blocks: waiting for a lock on the event loop would hold up every heartbeat. A job that was
handed over runs to its end, in the order given, whether or not anybody still waits for it. Writing
jobs that wait together share a transaction, so that one flush of the disk serves them all; each
has a savepoint, and fails alone.

Not here: what the jobs do (sqlite), or how a file is opened (sqlite_file).
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar, cast

from ..errors import Misuse
from .sqlite_file import DatabaseFile

__all__ = ["SqliteThread"]

T = TypeVar("T")

_FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""What the file explains: SQLite's errors, and text in it that is none."""

_TOGETHER = 64
"""How many writing jobs share a transaction at most: the first ones should not wait for long."""


class _Job(Generic[T]):
    """Something to do with the connection, and the future that is told."""

    __slots__ = ("error", "future", "loop", "result", "work", "writes")

    def __init__(self, work: Callable[[sqlite3.Connection], T], writes: bool) -> None:
        self.work = work
        self.writes = writes
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self.result: T | None = None
        self.error: BaseException | None = None

    def report(self) -> None:
        """Tell the future, from the thread."""
        try:
            self.loop.call_soon_threadsafe(self._settle)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more

    def _settle(self) -> None:
        if self.future.done():  # its caller was cancelled
            return
        if self.error is None:
            self.future.set_result(cast("T", self.result))
        else:
            self.future.set_exception(self.error)


class SqliteThread:
    """Owns the connection. Made with `start`; usable from any event loop of this process."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._pid = os.getpid()
        # Whoever drops the store without closing it leaves no thread behind.
        self._stop = weakref.finalize(self, self._queue.put, None)
        self._stop.atexit = False

    @classmethod
    async def start(cls, file: DatabaseFile) -> SqliteThread:
        """Open *file* in a new thread. Raises what that raises."""
        made = cls()
        opened = _Job[None](lambda connection: None, writes=False)
        # A daemon: a program that forgets to close its store can exit. That is like a crash, and
        # harmless like one.
        threading.Thread(
            target=_serve,
            args=(file, opened, made._queue),
            name="loopwright-sqlite",
            daemon=True,
        ).start()
        try:
            await opened.future
        except asyncio.CancelledError:
            made._stop()
            raise
        return made

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What *work* gives, seen at one instant."""
        return await self._submit(_Job(partial(_at_one_instant, work), writes=False))

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What *work* gives, once it is on the disk. If it raises, nothing was changed."""
        return await self._submit(_Job(work, writes=True))

    async def aclose(self) -> None:
        """Do what was handed over, then close the connection."""
        last = _Job(lambda connection: connection.close(), writes=False)
        self._queue.put(last)
        self._stop()
        await last.future

    def _submit(self, job: _Job[T]) -> asyncio.Future[T]:
        if os.getpid() != self._pid:
            raise Misuse(
                "a session store cannot be used in a forked process: its thread stayed behind",
                hint="open the store after the fork",
            )
        self._queue.put(job)
        return job.future


# -- in the thread ---------------------------------------------------------------------------
# Functions, not methods: the thread must not keep the store alive.


def _serve(
    file: DatabaseFile, opened: _Job[None], jobs: queue.SimpleQueue[_Job[Any] | None]
) -> None:
    try:
        connection = file.connect()
    except BaseException as error:  # noqa: BLE001 - whoever opens the store is told
        opened.error = file.fault(error) if isinstance(error, _FAULTS) else error
        opened.report()
        return
    opened.report()
    del opened
    following: _Job[Any] | None = None
    try:
        while True:
            job = following or jobs.get()
            following = None
            if job is None:
                return
            if job.writes:
                following = _write_together(connection, job, jobs, file)
            else:
                _read(connection, job, file)
            del job  # or its result would live until the next one
    finally:
        connection.close()


def _read(
    connection: sqlite3.Connection,
    job: _Job[Any],
    file: DatabaseFile,
) -> None:
    _run(connection, job, file)
    if job.error is not None:
        _roll_back(connection)
    job.report()


def _at_one_instant(work: Callable[[sqlite3.Connection], T], connection: sqlite3.Connection) -> T:
    """What other processes commit between two statements of *work* is not seen by it."""
    connection.execute("BEGIN")
    result = work(connection)
    connection.execute("COMMIT")
    return result


def _write_together(
    connection: sqlite3.Connection,
    first: _Job[Any],
    jobs: queue.SimpleQueue[_Job[Any] | None],
    file: DatabaseFile,
) -> _Job[Any] | None:
    """Run *first* and the writing jobs behind it. Returns a job that was taken and not run."""
    together = [first]
    following: _Job[Any] | None = None
    try:
        # IMMEDIATE takes the write lock before anything is read. A transaction that begins by
        # reading cannot be saved once another process has written: SQLITE_BUSY, at once.
        connection.execute("BEGIN IMMEDIATE")
        file.demand_same()
        _run(connection, first, file)
        if first.error is not None:
            _roll_back(connection)
        else:
            while len(together) < _TOGETHER and (job := _next(jobs)) is not None:
                if not job.writes:
                    following = job
                    break
                together.append(job)
                _run_in_savepoint(connection, job, file)
                if not connection.in_transaction:
                    # A full disk, say, ends the whole transaction: those before went with it.
                    raise job.error or sqlite3.OperationalError("the transaction was lost")
            connection.execute("COMMIT")
    except BaseException as error:  # noqa: BLE001 - those who wait are told
        _roll_back(connection)
        told = file.fault(error) if isinstance(error, _FAULTS) else error
        for job in together:
            job.error = job.error or told
    for job in together:
        job.report()
    return following


def _run_in_savepoint(
    connection: sqlite3.Connection,
    job: _Job[Any],
    file: DatabaseFile,
) -> None:
    connection.execute("SAVEPOINT job")
    _run(connection, job, file)
    if connection.in_transaction:
        if job.error is not None:
            connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")


def _run(
    connection: sqlite3.Connection,
    job: _Job[Any],
    file: DatabaseFile,
) -> None:
    try:
        job.result = job.work(connection)
    except BaseException as error:  # noqa: BLE001 - whoever waits for the job is told
        job.error = file.fault(error) if isinstance(error, _FAULTS) else error


def _roll_back(connection: sqlite3.Connection) -> None:
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error:
        pass  # after some faults SQLite has done so itself


def _next(jobs: queue.SimpleQueue[_Job[Any] | None]) -> _Job[Any] | None:
    """The job that waits. The end of the queue is put back: it is not for us."""
    try:
        job = jobs.get_nowait()
    except queue.Empty:
        return None
    if job is None:
        jobs.put(None)
    return job
