"""Bytes in any chunks -> the frames of an AWS event stream (application/vnd.amazon.eventstream).

A frame is: its length and that of its headers (4 bytes each, big-endian), a CRC-32 of those, the
headers, the payload, and a CRC-32 of all before it. Both sums are checked, so that nothing damaged
on the way reaches a transcript. The format is described at
https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html and in botocore.

Not here: what a payload means (the wires).
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import NamedTuple
from zlib import crc32

__all__ = ["EventStreamSplitter", "Frame", "FrameHead"]

LARGEST_FRAME_BYTES = 25 * 1024 * 1024
"""A payload may have 24 MiB and the headers 128 KiB; what claims to be larger is no frame."""

_PRELUDE = Layout("!III")
_PRELUDE_BYTES = 12
_SUM = Layout("!I")
_SUM_BYTES = 4
_LEAST_BYTES = _PRELUDE_BYTES + _SUM_BYTES

_FIXED_WIDTHS = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of a header's value by its type; 6 (bytes) and 7 (text) say their own length."""
_TEXT = 7


class FrameHead(NamedTuple):
    """What the headers of a frame say."""

    message_type: str
    """`event`, `exception` or `error`."""
    name: str
    """The type of the event or the exception, or the code of the error."""
    text: str
    """The message of an error; the other two have theirs in the payload."""


Frame = tuple[FrameHead, bytes]
"""The head of a frame and its payload, its sums checked."""


class EventStreamSplitter:
    """Splits one body. Time is linear in the body's length, however it is cut."""

    __slots__ = ("_heads", "_rest", "_wanted", "fault")

    def __init__(self) -> None:
        self._rest = bytearray()  # of the frame that is not complete yet
        self._wanted = _PRELUDE_BYTES  # how much of it must be there before it is looked at again
        self._heads: dict[bytes, FrameHead] = {}  # a stream repeats a handful of header blocks
        self.fault: str | None = None
        """Why what came is no event stream; nothing behind that is read."""

    @property
    def unfinished(self) -> bool:
        """The body broke off in the middle of a frame, if this was its end."""
        return bool(self._rest)

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that are complete with *chunk*; with a fault, those before it."""
        frames: list[Frame] = []
        if self.fault is not None:
            return frames
        data: bytes = chunk
        if self._rest:
            self._rest += chunk
            if len(self._rest) < self._wanted:
                return frames
            data = bytes(self._rest)
            self._rest.clear()
        unpack, unpack_sum, heads = _PRELUDE.unpack_from, _SUM.unpack_from, self._heads
        at, end = 0, len(data)
        self._wanted = _PRELUDE_BYTES
        while end - at >= _PRELUDE_BYTES:
            total, of_headers, sum_of_prelude = unpack(data, at)
            after = at + total
            if after > end or total < _LEAST_BYTES + of_headers:
                # Before waiting for more: is this a length at all? A complete frame's own sum
                # covers the prelude.
                if crc32(data[at : at + 8]) != sum_of_prelude:
                    self.fault = _DAMAGED
                elif total > LARGEST_FRAME_BYTES or total < _LEAST_BYTES + of_headers:
                    self.fault = f"a frame says that it has {total} bytes"
                self._wanted = total
                break
            body_end = after - _SUM_BYTES
            if crc32(data[at:body_end]) != unpack_sum(data, body_end)[0]:
                self.fault = _DAMAGED
                break
            headers_end = at + _PRELUDE_BYTES + of_headers
            block = data[at + _PRELUDE_BYTES : headers_end]
            head = heads.get(block)
            if head is None:
                head = _head(block)
                if head is None:
                    self.fault = "the headers of a frame cannot be read"
                    break
                if len(heads) < HEADS_KEPT:
                    heads[block] = head
            frames.append((head, data[headers_end:body_end]))
            at = after
        if self.fault is None and at < end:
            self._rest += data[at:]
        return frames


HEADS_KEPT = 64

_DAMAGED = "a frame is damaged: its checksum does not fit"


def _head(block: bytes) -> FrameHead | None:
    """What *block* says; None if it cannot be read."""
    fields: dict[bytes, str] = {}
    at = 0
    try:
        while at < len(block):
            name_end = at + 1 + block[at]
            name, kind = block[at + 1 : name_end], block[name_end]
            at = name_end + 1
            width = _FIXED_WIDTHS.get(kind)
            if width is None:
                width = int.from_bytes(block[at : at + 2])
                at += 2
            if at + width > len(block) or kind > 9:
                return None
            if kind == _TEXT:
                fields[name] = block[at : at + width].decode("utf-8", "replace")
            at += width
    except IndexError:
        return None
    message_type = fields.get(b":message-type", "event")
    names = (b":exception-type", b":error-code", b":event-type")
    name = next((fields[key] for key in names if key in fields), "")
    return FrameHead(message_type, name, fields.get(b":error-message", ""))
