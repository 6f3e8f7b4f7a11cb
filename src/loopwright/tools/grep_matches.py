"""What `rg --json` says, as lines to show: as many as were asked for, none longer than can be read.

Runs in a thread, beside the process that searches. A file in which a NUL turns up is binary, and
what was found in it before is dropped.

Not here: the search itself (search_process.py), how the lines look (grep.py).
"""

from __future__ import annotations

import base64
import binascii
import codecs
import os
import re
from collections.abc import Callable
from typing import IO, Literal, NamedTuple

import msgspec

from .globs import composed
from .terminal_text import plain_text
from .text_limits import MAX_BYTES

__all__ = ["LINE_CHARACTERS", "FoundLine", "Matches"]

LINE_CHARACTERS = 500

_BEFORE_HIT = 150
"""How much of a long line is shown before the hit."""

_MOST_RECORD_BYTES = 64 << 20
"""A line so long is not even read; it is counted."""


class FoundLine(NamedTuple):
    """A line with a hit, or near one."""

    path: str
    number: int
    is_match: bool
    text: str
    column: int | None
    """Where in a long line the hit begins, in characters from 1; None for what is shown whole."""
    left_out: int
    """Characters of the line that are not shown."""


class _Text(msgspec.Struct):
    text: str | None = None
    bytes: str | None = None
    """Base64, of what is not UTF-8."""

    def decoded(self) -> str:
        if self.text is not None:
            return self.text
        try:
            return base64.b64decode(self.bytes or "").decode("utf-8", "replace")
        except binascii.Error:
            return ""

    def column(self, start: int) -> int:
        """Characters before the byte *start*."""
        data = self.text.encode() if self.text is not None else base64.b64decode(self.bytes or "")
        return len(data[:start].decode("utf-8", "replace"))


class _Submatch(msgspec.Struct):
    start: int


class _Data(msgspec.Struct):
    path: _Text | None = None
    lines: _Text | None = None
    line_number: int | None = None
    submatches: list[_Submatch] = []
    binary_offset: int | None = None


class _Event(msgspec.Struct):
    type: Literal["begin", "match", "context", "end", "summary"]
    data: _Data


class Matches:
    """Takes in the events of one search.

    *wanted* and *hidden* decide on files as the search is to: ripgrep has its own mind on hidden
    files that an ignore file speaks of. Files that are *withheld* are searched like the others, for
    neither engine can ask; what is said of them is dropped here, and counts nowhere.
    """

    def __init__(
        self,
        folder: str,
        limit: int,
        context: int,
        wanted: re.Pattern[str] | None,
        excluded: bool,
        hidden: bool,
        withheld: Callable[[str], bool] | None = None,
    ) -> None:
        self.lines: list[FoundLine] = []
        self.count = 0
        """Lines with a hit, among `lines`."""
        self.more = False
        """There are further ones."""
        self.binary: str | None = None
        """A file that would have been searched, was it text."""
        self.unread = 0
        """Lines too long to be read."""
        self._folder = folder
        self._limit = limit
        self._context = context
        self._wanted = wanted
        self._excluded = excluded
        self._hidden = hidden
        self._withheld = withheld
        self._size = 0
        self._path = ""
        self._skipping = False
        self._before: tuple[int, int, int] = (0, 0, 0)
        """How many lines and hits there were, and their size, before the present file."""
        self._decoder = msgspec.json.Decoder(_Event)

    def take(self, output: IO[bytes]) -> bool:
        """Read events until there are no more, or enough: then True. Blocks."""
        while record := output.readline(_MOST_RECORD_BYTES):
            if not record.endswith(b"\n"):
                while record and not record.endswith(b"\n"):
                    record = output.readline(_MOST_RECORD_BYTES)
                self.unread += not self._skipping
                continue
            event = self._decoder.decode(record)
            if not self._take(event.type, event.data):
                self.more = True
                self._drop_excess()
                return True
        return False

    def _take(self, kind: str, data: _Data) -> bool:
        """False once there is enough."""
        if kind == "begin":
            self._path = os.path.normpath((data.path or _Text()).decoded()).replace(os.sep, "/")
            self._skipping = not self._looks_at(self._path)
            self._before = (len(self.lines), self.count, self._size)
        elif self._skipping:
            return True
        elif kind == "end":
            if data.binary_offset is not None:
                self.binary = self._path
                self._forget_file()
        elif data.lines is not None and data.line_number is not None:
            is_match = kind == "match"
            if (is_match and self.count >= self._limit) or self._size > MAX_BYTES:
                if not self._is_binary():
                    return False
                self._forget_file()
                self._skipping = True
                return True
            self._add(data.lines, data.line_number, is_match, data.submatches)
        return True

    def _looks_at(self, path: str) -> bool:
        if not self._hidden and any(part.startswith(".") for part in path.split("/")):
            return False
        if (
            self._wanted is not None
            and (self._wanted.match(composed(path)) is None) is not self._excluded
        ):
            return False
        return self._withheld is None or not self._withheld(path)

    def _add(self, line: _Text, number: int, is_match: bool, hits: list[_Submatch]) -> None:
        text = line.decoded().removesuffix("\n").removesuffix("\r")
        column = None
        left_out = 0
        if len(text) > LINE_CHARACTERS:
            hit = line.column(hits[0].start) if hits else 0
            column = hit + 1 if is_match else None
            start = max(0, min(hit - _BEFORE_HIT, len(text) - LINE_CHARACTERS))
            left_out = len(text) - LINE_CHARACTERS
            end = start + LINE_CHARACTERS
            text = ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
        text = plain_text(text)
        self._size += len(text) + len(self._path) + 8
        self.count += is_match
        self.lines.append(FoundLine(self._path, number, is_match, text, column, left_out))

    def _drop_excess(self) -> None:
        """Context that led up to the hit that is not shown."""
        while self.lines and not self.lines[-1].is_match:
            last = self.lines[-1]
            near = self.lines[-1 - self._context :]
            if any(
                line.is_match
                and line.path == last.path
                and last.number - line.number <= self._context
                for line in near
            ):
                return
            self.lines.pop()

    def _forget_file(self) -> None:
        lines, self.count, self._size = self._before
        del self.lines[lines:]

    def _is_binary(self) -> bool:
        """Of a file whose end was not waited for."""
        try:
            with open(os.path.join(self._folder, self._path), "rb") as file:
                start = file.read(2)
                if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                    return False
                return b"\0" in start or any(
                    b"\0" in piece for piece in iter(lambda: file.read(1 << 20), b"")
                )
        except OSError:
            return False
