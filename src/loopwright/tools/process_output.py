"""The output of a process: its end in bounded memory, the whole in a file once it grows too long.

Not here: reading the pipe (process_group.py), and where the files lie (output_files.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from ..loop.threads import run_in_thread
from .output_files import OutputFiles, Spool
from .terminal_text import TerminalText
from .text_limits import MAX_BYTES, MAX_LINES, NOTICE_BYTES, Cut, tail

__all__ = ["ProcessOutput", "TextFilter"]

_SMALL_PIECE = 2048


class TextFilter(Protocol):
    """Takes a text piece by piece and gives back what is to become of it.

    It may hold back the end of a piece until it knows what follows; with *final* nothing follows.
    """

    def __call__(self, text: str, *, final: bool) -> str: ...


class ProcessOutput:
    """Takes bytes as they come; shows the last lines of the text they are at any time.

    Memory stays below twice *max_bytes* and the largest piece, however much comes.
    """

    def __init__(
        self,
        files: OutputFiles,
        max_lines: int = MAX_LINES,
        max_bytes: int = MAX_BYTES - 2 * NOTICE_BYTES,
        clean: Callable[[], TextFilter] | None = None,
    ) -> None:
        """The default leaves room for two notices: what was cut, and how the process ended.

        *clean* makes what all of the text goes through before it is shown or kept in a file.
        """
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._text = TerminalText()
        self._clean = None if clean is None else clean()
        self._tail: deque[tuple[str, int]] = deque()
        self._tail_bytes = 0
        self._bytes = 0
        self._line_feeds = 0
        self._open_line = False
        self._early: bytearray | None = bytearray()
        """Everything so far, while it may still be short enough to be shown whole."""
        self._spool = Spool(files)

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Take what a read returned. Returns at once."""
        text = self._text.feed(data, final=final)
        if self._clean is not None:
            text = self._clean(text, final=final)
        if not text:
            return
        encoded = text.encode()
        self._bytes += len(encoded)
        self._line_feeds += text.count("\n")
        self._open_line = not text.endswith("\n")
        if self._early is None:
            self._spool.add(encoded)
        else:
            self._early += encoded
            if self.is_cut:
                self._spool.add(bytes(self._early))
                self._early = None
        self._keep(text, len(encoded))

    def _keep(self, text: str, size: int) -> None:
        self._tail_bytes += size
        if self._tail and self._tail[-1][1] < _SMALL_PIECE:  # single characters, one by one
            last, last_size = self._tail.pop()
            text, size = last + text, last_size + size
        self._tail.append((text, size))
        # What is kept is more than can be shown, so that the cut in its first piece is never seen.
        while self._tail_bytes - self._tail[0][1] > self._max_bytes:
            self._tail_bytes -= self._tail.popleft()[1]

    @property
    def total_lines(self) -> int:
        return self._line_feeds + self._open_line

    @property
    def total_bytes(self) -> int:
        return self._bytes

    @property
    def is_cut(self) -> bool:
        """There is more than is shown, and so a file."""
        return self._bytes > self._max_bytes or self.total_lines > self._max_lines

    def shown(self) -> Cut:
        """The end of it, with the size of the whole."""
        cut = tail("".join(text for text, _ in self._tail), self._max_lines, self._max_bytes)
        return cut._replace(total_lines=self.total_lines, total_bytes=self._bytes)

    # -- the file ------------------------------------------------------------------------------

    @property
    def path(self) -> str | None:
        """The file that has all of it; None while it is short, or if there is none."""
        return self._spool.path

    @property
    def problem(self) -> str | None:
        """Why the file does not have all of it."""
        return self._spool.problem

    async def write(self) -> None:
        """Bring to the file what belongs there; to be awaited before more is fed."""
        if self.is_cut:
            await run_in_thread(self._spool.write)

    async def close(self) -> None:
        """Write the rest and close the file."""
        if self.is_cut:
            await run_in_thread(self._spool.close)

    def abandon(self) -> None:
        """Close the file as it is, at once."""
        self._spool.abandon()
