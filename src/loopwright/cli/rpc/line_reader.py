"""Lines from a file descriptor, for an event loop that must not wait for them.

A thread reads, since that works for pipes, files, sockets and terminals alike, and leaves the
descriptor as it is: the loop's own pipes would make it non-blocking for everybody who shares it. The
thread reads only when a line is wanted, so a client that writes faster than it is answered waits.

Not here: what a line means (requests.py).
"""

from __future__ import annotations

import asyncio
import os
import select
import threading

__all__ = ["LineReader", "LongLine"]

_CHUNK_BYTES = 256 * 1024
_KEPT_BYTES = 1000
"""Of a line that is too long: enough to find out whose it is."""


class LongLine(bytes):
    """The start of a line that was too long to be kept."""

    __slots__ = ()


class LineReader:
    """Lines of at most *limit* bytes from the descriptor *fd*. To be used in a running loop."""

    def __init__(self, fd: int, limit: int) -> None:
        self._fd = fd
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._wanted = threading.Semaphore(0)
        self._chunk: asyncio.Future[bytes] | None = None
        self._buffer = bytearray()
        self._searched = 0  # bytes of the buffer in which there is no line break
        self._skipping: bytes | None = None  # the start of a line that is too long
        self._ended = False
        # A daemon: it may wait for input for ever, and the program ends all the same.
        threading.Thread(target=self._read, name="rpc input", daemon=True).start()

    async def next(self) -> bytes | LongLine | None:
        """The next line without its line break; None at the end of the input.

        What stands behind the last line break is a line too. To be called by one task at a time;
        a call that is cancelled loses nothing.
        """
        while True:
            line = self._take()
            if line is not None:
                return line
            if self._ended:
                return None
            if self._chunk is None:
                self._chunk = self._loop.create_future()
                self._wanted.release()
            chunk = await asyncio.shield(self._chunk)
            self._chunk = None
            self._ended = not chunk
            self._buffer += chunk

    def _take(self) -> bytes | LongLine | None:
        end = self._buffer.find(b"\n", self._searched)
        if end >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._searched = 0
            if self._skipping is not None:
                start, self._skipping = self._skipping, None
                return LongLine(start)
            return LongLine(line[:_KEPT_BYTES]) if len(line) > self._limit else line
        if len(self._buffer) > self._limit or self._skipping is not None:
            if self._skipping is None:
                self._skipping = bytes(self._buffer[:_KEPT_BYTES])
            self._buffer.clear()
        self._searched = len(self._buffer)
        if not self._ended:
            return None
        if self._skipping is not None:
            start, self._skipping = self._skipping, None
            return LongLine(start)
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._searched = 0
        return rest or None

    # -- in the thread -------------------------------------------------------------------------

    def _read(self) -> None:
        while True:
            self._wanted.acquire()
            chunk = self._read_chunk()
            try:
                self._loop.call_soon_threadsafe(self._deliver, chunk)
            except RuntimeError:  # the loop is closed: nobody wants to know
                return
            if not chunk:
                return

    def _read_chunk(self) -> bytes:
        while True:
            try:
                return os.read(self._fd, _CHUNK_BYTES)
            except BlockingIOError:  # whoever started us made the pipe so
                select.select([self._fd], [], [])
            except OSError:  # the other side is gone, or this one was closed
                return b""

    def _deliver(self, chunk: bytes) -> None:
        if self._chunk is not None and not self._chunk.done():
            self._chunk.set_result(chunk)
