"""Bytes in any chunks -> the data of server-sent events (WHATWG HTML, section 9.2).

Only `data` is kept: every dialect we speak repeats the event's name inside it. Lines may end in
LF, CRLF or CR; comments, ids, retry times and blocks without data vanish; a last event without a
blank line behind it still counts. Bytes are never decoded here, so that a character cut in the
middle by the network is whole again before anyone looks at it. An event that never ends is refused.

Not here: what the data means (the wires).
"""

from __future__ import annotations

import re

from ..errors import WireError

__all__ = ["SseSplitter"]

LARGEST_EVENT_BYTES = 64 * 1024 * 1024
"""Of one event. The largest hold a picture, or repeat the whole reply."""

LARGEST_STRAY_BYTES = 16 * 1024 * 1024
"""Of what is no event stream: perhaps a whole reply of a host that does not stream."""

_NAMED_DATA = re.compile(rb"^event: [^\n]*\ndata: ([^\n]+)\n\n", re.MULTILINE)


class SseSplitter:
    """Splits one body. Time is linear in the body's length, however it is cut."""

    __slots__ = ("_after_cr", "_pending", "_pieces", "_stray", "_stray_bytes", "_tail_is_newline")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []  # of the block that is not complete yet
        self._pending = 0  # bytes of these
        self._tail_is_newline = False
        self._after_cr = False
        self._stray: list[bytes] = []
        self._stray_bytes = 0

    @property
    def stray(self) -> bytes:
        """The start of what was no field of an event stream: what came instead."""
        return b"\n".join(self._stray)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of every event that is complete with *chunk*. Raises `WireError` for one that
        grows beyond `LARGEST_EVENT_BYTES`."""
        if not chunk:
            return []
        if self._after_cr or b"\r" in chunk:
            events = self._crlf_events(chunk)
            if events is not None:
                return events
            chunk = self._with_newlines(chunk)
            if not chunk:
                return []
        pieces = self._pieces
        at_once = not pieces
        if at_once and chunk[-2:] == b"\n\n":  # mostly one event, or several, in one read
            if chunk[:6] == b"data: ":
                if chunk.count(b"\n") == 2 and len(chunk) > 8:
                    return [chunk[6:-2]]
            elif chunk[:7] == b"event: " and chunk.count(b"\n") == 3:
                begin = chunk.index(b"\n") + 1
                if chunk[begin : begin + 6] == b"data: " and len(chunk) > begin + 8:
                    return [chunk[begin + 6 : -2]]
        if b"\n\n" not in chunk and not (self._tail_is_newline and chunk[0] == 10):
            pieces.append(chunk)
            self._tail_is_newline = chunk[-1] == 10
            self._pending += len(chunk)
            if self._pending > LARGEST_EVENT_BYTES:
                raise self._endless()
            return []
        if not at_once:
            pieces.append(chunk)
            chunk = b"".join(pieces)
            pieces.clear()
        end = chunk.rfind(b"\n\n") + 2
        rest = chunk[end:]
        self._tail_is_newline = rest[-1:] == b"\n"  # perhaps the first half of a blank line
        self._pending = len(rest)
        if rest:
            pieces.append(rest)
            chunk = chunk[:end]
        # Nearly all streams are blocks of one line "data: ..." each. If the newlines add up to
        # exactly the blank lines between such blocks, there is nothing else in there.
        if chunk[:6] == b"data: ":
            events = chunk[6:-2].split(b"\n\ndata: ")
            if chunk.count(b"\n") == 2 * len(events):
                return events if b"" not in events else [data for data in events if data]
        elif chunk[:7] == b"event: ":  # likewise with the event's name in a line above
            events = _NAMED_DATA.findall(chunk)
            if chunk.count(b"\n") == 3 * len(events):
                return events
        return self._blocks(chunk)

    def finish(self) -> list[bytes]:
        """The body is over: the data of a last event that has no blank line behind it."""
        rest = b"".join(self._pieces)
        self._pieces.clear()
        self._tail_is_newline = False
        return self._read(rest.split(b"\n")) if rest else []

    def _endless(self) -> WireError:
        begun = b"".join(self._pieces[:2])[:SHOWN_BYTES].decode("utf-8", "replace")
        self._pieces.clear()
        return WireError(
            f"one event of the answer is larger than {LARGEST_EVENT_BYTES // 1024**2} MiB, the most "
            "that is read of one; the connection was closed",
            hint="the host, or one in between, is broken; ask another one, or for less",
            raw=begun,
        )

    def _crlf_events(self, chunk: bytes) -> list[bytes] | None:
        """The road of bodies that are blocks of one line "data: ..." with CRLF throughout, as
        Google's are; None, with nothing done, if there is anything else in there."""
        pieces = self._pieces
        if self._after_cr or len(pieces) > 1 or (pieces and b"\n" in pieces[0]):
            return None
        if (  # one event in one read
            not pieces
            and chunk[-4:] == b"\r\n\r\n"
            and chunk[:6] == b"data: "
            and chunk.count(b"\n") == chunk.count(b"\r") == 2
        ):
            return [chunk[6:-4]] if len(chunk) > 10 else []
        end = chunk.rfind(b"\r\n\r\n") + 4
        rest = chunk[end:]
        if end < 4 or b"\r" in rest or b"\n" in rest:
            return None
        whole = pieces[0] + chunk[:end] if pieces else chunk[:end]
        if whole[:6] != b"data: ":
            return None
        events = whole[6:-4].split(b"\r\n\r\ndata: ")
        if not whole.count(b"\n") == whole.count(b"\r") == 2 * len(events):
            return None
        pieces[:] = [rest] if rest else []
        self._pending = len(rest)
        self._tail_is_newline = False
        return events if b"" not in events else [data for data in events if data]

    def _with_newlines(self, chunk: bytes) -> bytes:
        """*chunk* with LF for every kind of line end; a CRLF may be cut in the middle."""
        if self._after_cr and chunk[:1] == b"\n":
            chunk = chunk[1:]
            self._after_cr = False
            if not chunk:
                return chunk
        self._after_cr = chunk[-1:] == b"\r"
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _blocks(self, text: bytes) -> list[bytes]:
        events: list[bytes] = []
        for block in text.split(b"\n\n"):
            if block[:6] == b"data: " and b"\n" not in block and len(block) > 6:
                events.append(block[6:])
            elif block:
                events += self._read(block.split(b"\n"))
        return events

    def _read(self, lines: list[bytes]) -> list[bytes]:
        """The data of one block, as a list of one or none."""
        data: list[bytes] = []
        for line in lines:
            if line[:5] == b"data:":
                data.append(line[6:] if line[5:6] == b" " else line[5:])
            elif line == b"data":
                data.append(b"")
            elif line[:8] == b"\xef\xbb\xbfdata:":  # a byte order mark may stand at the start
                return self._read([line[3:], *lines[lines.index(line) + 1 :]])
            elif (
                line
                and line[:1] != b":"
                and self._stray_bytes < LARGEST_STRAY_BYTES
                and not line.startswith((b"event:", b"id:", b"retry:"))
            ):
                self._stray.append(line[: LARGEST_STRAY_BYTES - self._stray_bytes])
                self._stray_bytes += len(line)
        joined = b"\n".join(data)
        return [joined] if joined else []


SHOWN_BYTES = 300
