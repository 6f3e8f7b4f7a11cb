"""What the terminal sends, as keys and pastes; long pastes in a time that grows with their length.

prompt_toolkit looks for the end of a paste in all that has come so far, each time a piece comes,
and takes 1,024 bytes at a time: five megabytes keep it busy for most of a minute.

Not here: what belongs to an escape sequence (sequences.py), what becomes of a paste (pastes.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from .sequences import Sequences, key_text

if TYPE_CHECKING:
    from prompt_toolkit.input import Input

__all__ = ["read_pastes_at_once"]

_END = "\x1b[201~"

PIECE_BYTES = 64 * 1024
"""Read at once while a paste comes. A key is not slower for it: it goes the old way."""


def read_pastes_at_once(input: Input) -> None:
    """Have *input* take long pastes quickly, if it is a terminal's (not on Windows, where no
    terminal tells of pastes)."""
    if sys.platform == "win32":
        return
    from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
    from prompt_toolkit.input.posix_utils import PosixStdinReader
    from prompt_toolkit.input.vt100 import Vt100Input
    from prompt_toolkit.input.vt100_parser import Vt100Parser

    if not isinstance(input, Vt100Input):
        return

    class Parser(Vt100Parser):
        """Puts sequences together, and looks for the end of a paste only in what is new."""

        def __init__(self, feed_key_callback: Callable[[KeyPress], None]) -> None:
            super().__init__(feed_key_callback)
            self._sequences = Sequences()
            self._pieces: list[str] = []
            self._seam = ""
            """The last characters of the pieces: the mark may begin there."""

        @property
        def pasting(self) -> bool:
            return self._in_bracketed_paste

        def feed(self, data: str) -> None:
            if not self._in_bracketed_paste:
                self._feed_keys(data)
                return
            new = self._seam + data
            found = new.find(_END)
            self._pieces.append(data)
            if found < 0:
                self._seam = new[1 - len(_END) :]
                return
            whole = "".join(self._pieces)
            end = len(whole) - len(new) + found
            self._pieces, self._seam = [], ""
            self._in_bracketed_paste = False
            self.feed_key_callback(KeyPress(Keys.BracketedPaste, whole[:end]))
            self.feed(whole[end + len(_END) :])

        def flush(self) -> None:
            self._press(self._sequences.flush())

        def _feed_keys(self, data: str) -> None:
            for index, char in enumerate(data):
                if self._in_bracketed_paste:
                    self.feed(data[index:])
                    return
                for part in self._sequences.take(char):
                    self._press(key_text(part) if len(part) > 2 else part)

        def _press(self, text: str) -> None:
            if len(text) <= 2:
                for char in text:
                    super().feed(char)
                    super().flush()
            elif key := ANSI_SEQUENCES.get(text):
                self._call_handler(key, text)

    class Reader(PosixStdinReader):
        def read(self, count: int = 1024) -> str:
            return super().read(PIECE_BYTES if parser.pasting else count)

    parser = Parser(input.vt100_parser.feed_key_callback)
    input.vt100_parser = parser
    input.stdin_reader = Reader(input.stdin_reader.stdin_fd, encoding=input.stdin.encoding)
