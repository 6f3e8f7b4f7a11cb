"""A command as a session and process group of its own: started, listened to, and ended as a whole.

The group's leader is left a zombie until the very end, so that its number cannot become another
group's while signals are sent to it. POSIX only.

When the leader has ended, what it left running is not waited for: the pipe may stay open for as
long as a server runs. It is read until it is silent for a moment, and no longer than half a second.
What still runs then is left alive; nobody reads what it writes to the pipe any more.

Not here: what a shell is told (bash.py), what becomes of the output (process_output.py), and which
processes there are (process_table.py).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..loop.threads import run_in_thread
from ..signals import AbortSignal
from .process_table import (
    freeze_outside,
    groups_of_session,
    is_group_alive,
    members_outside,
    send_to,
    still_run,
)

__all__ = ["Ended", "run_group"]

TERM_SECONDS = 1.0
"""How long a group that was asked to end may take before it is killed. Less than the grace the loop
gives to an aborted tool, so that the tool can still say what it has."""

QUIET_SECONDS = 0.1
DRAIN_SECONDS = 0.5
"""After the leader's end: so long without output, or so long in all, and the pipe is closed."""

_PIECE_BYTES = 32 * 1024
_LAST_BYTES = 1 << 20
"""The most a pipe may hold (Linux, fs.pipe-max-size)."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How it came to an end."""

    how: Literal["exit", "timeout", "abort"]
    exit_code: int | None
    """Of the leader, negative for a signal; None if it could not be learned."""
    left_running: int | None
    """The number of the group, if the leader ended by itself and others of it are still alive; that
    of another group, if only that is left."""
    left_groups: tuple[int, ...] = ()
    """All groups of the command's session that are still alive then."""


async def run_group(
    command: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    timeout: float | None,
    abort: AbortSignal,
    feed: Callable[[bytes], None],
    write: Callable[[], Awaitable[None]],
) -> Ended:
    """Run *command* with nothing to read; give what it prints, both streams in order, to *feed*.

    *write* is awaited between two calls of *feed*; while it takes its time the process waits, too.
    After *timeout* seconds, when *abort* fires and when the caller is cancelled the whole group is
    asked to end (SIGTERM), and killed after a second; on Linux also what made a group of its own.
    A cancellation that comes with the signal is answered by returning, so that the output so far
    can be told; any other is raised once the group is gone. Raises `OSError` or `ValueError` for a command that cannot be started.
    """
    reading, writing = os.pipe()
    pipe = _Pipe(reading, feed, write)
    try:
        process = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own call, without a gap behind it
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=writing,
            start_new_session=True,
        )
    except BaseException:
        pipe.close()
        raise
    finally:
        os.close(writing)
    group = _Group(process)
    try:
        return await group.run(pipe, timeout, abort)
    finally:
        pipe.close()
        group.bury()


class _Group:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[Literal["exit", "timeout", "abort"]] = self._loop.create_future()
        self._exited = asyncio.Event()
        self._finished = False
        """Nothing more is to be done to the group."""

    async def run(self, pipe: _Pipe, timeout: float | None, abort: AbortSignal) -> Ended:
        threading.Thread(target=self._watch, daemon=True, name="loopwright-process").start()
        forget = abort.on_abort(lambda: self._settle("abort"))
        timer = None if timeout is None else self._loop.call_later(timeout, self._settle, "timeout")
        cancelled: list[asyncio.CancelledError] = []
        try:
            async with asyncio.TaskGroup() as tasks:
                reader = tasks.create_task(pipe.read())
                try:
                    how = await self._end
                except asyncio.CancelledError as error:
                    cancelled.append(error)
                    how = "abort"
                ending = tasks.create_task(self._wind_down(how, pipe, reader))
                # The loop cancels right behind its signal, perhaps when this has been heard.
                while not ending.done():
                    try:
                        await asyncio.wait([ending])
                    except asyncio.CancelledError as error:
                        cancelled.append(error)
                reader.cancel()
        finally:
            forget()
            if timer is not None:
                timer.cancel()
        left = await self._leaves_others() if how == "exit" else ()
        self._finished = True
        task = asyncio.current_task()
        if cancelled and (task is None or not abort.aborted):
            raise cancelled[0]
        for _ in cancelled:  # the loop aborts and cancels; the answer to both is a result
            assert task is not None
            task.uncancel()
        return Ended(how, self._reap(), left[0] if left else None, left)

    async def _wind_down(
        self,
        how: Literal["exit", "timeout", "abort"],
        pipe: _Pipe,
        reader: asyncio.Task[None],
    ) -> None:
        """End what has not ended, and read what it left in the pipe. Takes at most two seconds."""
        if how != "exit":
            await self._stop()
        await self._drain(pipe, reader)

    def bury(self) -> None:
        """The last act, whatever happened: kill what did not end in order, and reap the leader."""
        if not self._finished:
            _send(self._process.pid, signal.SIGSTOP)
            strays = freeze_outside(self._process.pid)
            _send(self._process.pid, signal.SIGKILL)
            send_to(strays, signal.SIGKILL)
        if self._reap() is None:  # it takes a moment to die, and there is none left to wait
            threading.Thread(target=self._process.wait, daemon=True).start()

    async def _stop(self) -> None:
        """Ask all of the group to end, then kill it."""
        pid = self._process.pid
        # Looked for before the first signal: whose parent has ended cannot be found any more.
        strays = await run_in_thread(members_outside, pid)
        _send(pid, signal.SIGTERM)
        send_to(strays, signal.SIGTERM)
        deadline = self._loop.time() + TERM_SECONDS
        pause = 0.005
        while self._loop.time() < deadline and (
            await run_in_thread(is_group_alive, pid) or still_run(strays)
        ):
            await asyncio.sleep(pause)
            pause = min(pause * 2, 0.1)
        _send(pid, signal.SIGSTOP)
        strays = await run_in_thread(freeze_outside, pid, strays)
        _send(pid, signal.SIGKILL)
        send_to(strays, signal.SIGKILL)
        try:
            async with asyncio.timeout(TERM_SECONDS / 2):
                await self._exited.wait()
                while still_run(strays):  # noqa: ASYNC110 - the system tells of no end of theirs
                    await asyncio.sleep(0.005)
        except TimeoutError:  # stuck in the kernel; nobody can do more
            return

    async def _drain(self, pipe: _Pipe, reader: asyncio.Task[None]) -> None:
        """Read on for as long as somebody writes, within limits, then take what is there."""
        start = self._loop.time()
        while not reader.done():
            now = self._loop.time()
            until = min(start + DRAIN_SECONDS, max(start, pipe.last_read) + QUIET_SECONDS)
            if now >= until:
                break
            await asyncio.wait({reader}, timeout=until - now)
        pipe.read_rest()

    async def _leaves_others(self) -> tuple[int, ...]:
        """The groups that go on. Who has just closed the pipe may need a moment to end."""
        deadline = self._loop.time() + QUIET_SECONDS
        while groups := await run_in_thread(groups_of_session, self._process.pid):
            if self._loop.time() >= deadline:
                break
            await asyncio.sleep(QUIET_SECONDS / 5)
        return groups

    def _settle(self, how: Literal["exit", "timeout", "abort"]) -> None:
        if not self._end.done():
            self._end.set_result(how)

    # -- the leader ----------------------------------------------------------------------------

    def _watch(self) -> None:
        """In a thread of its own: wait for the leader's end, without reaping it where possible."""
        pid = self._process.pid
        try:
            if hasattr(os, "waitid"):
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            else:  # macOS before Python 3.13
                self._process.wait()
        except ChildProcessError:  # somebody else reaps all children of this program
            pass
        try:
            self._loop.call_soon_threadsafe(self._note_exit)
        except RuntimeError:  # the loop is closed, and whoever waited is gone
            return

    def _note_exit(self) -> None:
        self._exited.set()
        self._settle("exit")

    def _reap(self) -> int | None:
        """The exit code, if the leader has ended."""
        return self._process.poll()


class _Pipe:
    """The reading end."""

    def __init__(
        self, descriptor: int, feed: Callable[[bytes], None], write: Callable[[], Awaitable[None]]
    ) -> None:
        self.last_read = 0.0
        """When something came last, in the loop's time."""
        self._descriptor = descriptor
        self._feed = feed
        self._write = write
        self._loop = asyncio.get_running_loop()
        os.set_blocking(descriptor, False)

    async def read(self) -> None:
        """Read until everybody has closed the other end, or until cancelled."""
        while True:
            try:
                data = os.read(self._descriptor, _PIECE_BYTES)
            except BlockingIOError:
                await self._readable()
                continue
            if not data:
                return
            self.last_read = self._loop.time()
            self._feed(data)
            await self._write()
            await asyncio.sleep(0)  # a fast writer must not keep the others from running

    def read_rest(self) -> None:
        """Take what the pipe holds at this moment."""
        room = _LAST_BYTES
        while room > 0:
            try:
                data = os.read(self._descriptor, min(room, _PIECE_BYTES))
            except BlockingIOError:
                return
            if not data:
                return
            room -= len(data)
            self._feed(data)

    def close(self) -> None:
        os.close(self._descriptor)

    async def _readable(self) -> None:
        ready = self._loop.create_future()
        self._loop.add_reader(self._descriptor, _wake, ready)
        try:
            await ready
        finally:
            self._loop.remove_reader(self._descriptor)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _send(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (PermissionError, ProcessLookupError):  # nobody is left, or nobody we may end
        return
