"""Lines to a file descriptor, whoever reads them and however slowly.

A thread writes, for the reasons of line_reader.py. What waits to be written is counted: whoever
writes more than fits is made to wait, so that a client that reads slowly slows the run down and does
not fill the memory. A client that is gone, or that is given up, costs nothing: lines are dropped.
"""

from __future__ import annotations

import asyncio
import os
import queue
import select
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import Any

__all__ = ["LineWriter"]

_ROOM_BYTES = 1024 * 1024
"""So much may wait before a writer has to."""

_BATCH_BYTES = 256 * 1024
"""About so much is written at once."""


class LineWriter:
    """Lines to the descriptor *fd*. To be used in a running loop.

    *on_broken* is called, in the loop, when nobody reads any more.
    """

    def __init__(self, fd: int, on_broken: Callable[[], object] | None = None) -> None:
        self.on_broken = on_broken
        self.broken = False
        """Nothing can be written any more."""
        self.failure: OSError | None = None
        """Why, if that is how it came."""
        self.written = 0
        """Bytes that were written so far, to see whether anything moves."""
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._waiting = 0
        self._room = asyncio.Event()
        self._room.set()
        self._done = asyncio.Event()
        self._closing = False
        threading.Thread(target=self._write, name="rpc output", daemon=True).start()

    def put(self, line: bytes) -> Awaitable[object] | None:
        """Write *line*, which has no line break, behind all others. Returns at once; what is
        returned, if anything, is to be awaited before more is written."""
        if self.broken or self._closing:
            return None
        self._waiting += len(line) + 1
        self._lines.put(line)
        if self._waiting <= _ROOM_BYTES:
            return None
        self._room.clear()
        return _Room(self._room)

    async def write(self, line: bytes) -> None:
        """`put`, and wait for room."""
        waiting = self.put(line)
        if waiting is not None:
            await waiting

    @property
    def idle(self) -> bool:
        """All that was put has been written."""
        return self._waiting == 0 or self.broken

    def give_up(self) -> None:
        """Write nothing more, and let everybody go on who waits."""
        self.broken = True
        self._room.set()
        self._done.set()

    async def close(self, patience_seconds: float) -> None:
        """Write what waits; give up when nothing was taken for so long."""
        if not self._closing:
            self._closing = True
            self._lines.put(None)
        while not self._done.is_set():
            before = self.written
            try:
                await asyncio.wait_for(self._done.wait(), patience_seconds)
            except TimeoutError:
                if self.written == before:
                    self.give_up()

    def _wrote(self, count: int) -> None:
        self.written += count
        self._waiting -= count
        if self._waiting <= _ROOM_BYTES // 2:
            self._room.set()

    def _broke(self) -> None:
        told = self.broken
        self.give_up()
        if not told and self.on_broken is not None:
            self.on_broken()

    # -- in the thread -------------------------------------------------------------------------

    def _write(self) -> None:
        ended = False
        while not ended:
            batch: list[bytes] = []
            size = 0
            line = self._lines.get()
            while True:
                if line is None:
                    ended = True
                    break
                batch += (line, b"\n")
                size += len(line) + 1
                if size >= _BATCH_BYTES:
                    break
                try:
                    line = self._lines.get_nowait()
                except queue.Empty:
                    break
            if not self._write_all(b"".join(batch)):
                self._tell(self._broke)
                return
        self._tell(self._done.set)

    def _write_all(self, data: bytes) -> bool:
        rest = memoryview(data)
        while rest:
            if self.broken:
                return False
            try:
                count = os.write(self._fd, rest[:_BATCH_BYTES])
            except BlockingIOError:  # whoever started us made the pipe so
                select.select([], [self._fd], [])
                continue
            except OSError as error:
                self.failure = error
                return False
            rest = rest[count:]
            self._tell(self._wrote, count)
        return True

    def _tell(self, callback: Callable[..., object], *args: int) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:  # the loop is closed: nobody wants to know
            pass


class _Room:
    """What is waited for. No coroutine, since those who cannot wait may drop it."""

    __slots__ = ("_room",)

    def __init__(self, room: asyncio.Event) -> None:
        self._room = room

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._room.wait().__await__()
