"""The bodies of HTTP answers: unpacked a little at a time, and never without end.

A few kilobytes under gzip can become gigabytes, and a broken host may send for ever. So what comes
is counted as it is once unpacked, whoever reads it: a decoder, or an SDK that wants to know what an
error says. A reply that passes the limit fails with what had arrived; the body of an error is cut
instead, since its status and its first words say what there is to know.

This module imports the HTTP library; `clients` imports it when a request is made.

Not here: how large one event may be (sse.py, eventstream.py).
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator

import httpx2

from ..errors import WireError

__all__ = ["bound_body"]

MEBIBYTE = 1024 * 1024

LARGEST_REPLY_BYTES = 128 * MEBIBYTE
"""Of one reply, unpacked. The longest models write some 400,000 tokens, at 300 bytes an event."""

LARGEST_FAULT_BYTES = MEBIBYTE
"""Of an answer that is no success; what is behind it is not read."""

FAULT_SECONDS = 30.0
"""How long that body is waited for; the status alone says much."""

UNPACKED_BYTES = 256 * 1024
"""At most so much is unpacked at a time."""

MOST_CODINGS = 3
"""Of one body, one around the other."""


async def bound_body(response: httpx2.Response) -> None:
    """Put the limits around the body of *response*, which is still on the way.

    A hook for the client's `event_hooks["response"]`. The body is read unpacked from then on, and
    its `content-encoding` is gone from the headers. A reply in a coding that was not asked for
    raises `WireError` when it is read; here an SDK would take that for a lost connection. A word
    that names no coding is passed over: hosts say `none` so that nobody on the way packs their
    events and holds them back, or what belongs into the content type.
    """
    said = response.headers.pop("content-encoding", "").lower().split(",")
    named = [word.strip() for word in said]
    codings = [name for name in named if name in _WINDOWS]
    readable = len(codings) <= MOST_CODINGS and _UNREADABLE.isdisjoint(named)
    stream = response.stream
    assert isinstance(stream, httpx2.AsyncByteStream)
    if not response.is_success:
        response.stream = _BoundFault(stream, codings if readable else None)
    elif readable:
        response.stream = _BoundReply(stream, codings)
    else:
        response.stream = _UnreadableReply(stream, ", ".join(named)[:80])


class _BoundReply(httpx2.AsyncByteStream):
    """The body of a reply, unpacked and counted."""

    def __init__(self, packed: httpx2.AsyncByteStream, codings: list[str]) -> None:
        self._packed = packed
        self._codings = codings

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        pieces = _pieces(self._packed, self._codings)
        left = LARGEST_REPLY_BYTES
        try:
            async for piece in pieces:
                left -= len(piece)
                if left < 0:
                    raise WireError(
                        f"the reply is larger than {LARGEST_REPLY_BYTES // MEBIBYTE} MiB, the most "
                        "that is read of one; the connection was closed",
                        hint="ask for less (max_tokens); if replies are short, then the host, or "
                        "one in between, is broken",
                    )
                yield piece
        except zlib.error as error:
            said = f"what the vendor sent cannot be unpacked: {error}"
            raise WireError(said) from error
        finally:
            await _closed(pieces)

    async def aclose(self) -> None:
        await self._packed.aclose()


class _UnreadableReply(httpx2.AsyncByteStream):
    """The body of a reply in a coding that is not known here."""

    def __init__(self, packed: httpx2.AsyncByteStream, coding: str) -> None:
        self._packed = packed
        self._coding = coding

    def __aiter__(self) -> AsyncIterator[bytes]:
        raise WireError(
            f"the answer is packed as {self._coding!r}, which was not asked for",
            hint="leave Accept-Encoding out of the headers of the request",
        )

    async def aclose(self) -> None:
        await self._packed.aclose()


class _BoundFault(httpx2.AsyncByteStream):
    """What an error says, as far as it is short and comes soon."""

    def __init__(self, packed: httpx2.AsyncByteStream, codings: list[str] | None) -> None:
        self._packed = packed
        self._codings = codings

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        if self._codings is not None:
            yield await self._beginning(self._codings)

    async def _beginning(self, codings: list[str]) -> bytes:
        said = bytearray()
        pieces = _pieces(self._packed, codings)
        try:
            async with asyncio.timeout(FAULT_SECONDS):
                async for piece in pieces:
                    said += piece
                    if len(said) >= LARGEST_FAULT_BYTES:
                        break
        except (TimeoutError, zlib.error, httpx2.TransportError):
            pass  # the status, and what came until then, must do
        finally:
            await _closed(pieces)
        return bytes(said[:LARGEST_FAULT_BYTES])

    async def aclose(self) -> None:
        await self._packed.aclose()


def _pieces(packed: httpx2.AsyncByteStream, codings: list[str]) -> AsyncIterator[bytes]:
    return _unpacked(packed, codings) if codings else packed.__aiter__()


async def _unpacked(
    packed: httpx2.AsyncByteStream, codings: list[str]
) -> AsyncGenerator[bytes, None]:
    unpackers = [_Unpacker(name) for name in reversed(codings)]
    chunks = packed.__aiter__()
    try:
        async for chunk in chunks:
            pieces: Iterator[bytes] = iter((chunk,))
            for unpacker in unpackers:
                pieces = unpacker.unpack(pieces)
            for number, piece in enumerate(pieces):
                if number:  # others are let run while much comes out of little
                    await asyncio.sleep(0)
                yield piece
    finally:
        await _closed(chunks)


async def _closed(pieces: AsyncIterator[bytes]) -> None:
    if isinstance(pieces, AsyncGenerator):
        await pieces.aclose()


_WINDOWS = {
    "gzip": zlib.MAX_WBITS | 16,
    "x-gzip": zlib.MAX_WBITS | 16,
    "deflate": zlib.MAX_WBITS,
}
_UNREADABLE = frozenset({"br", "zstd", "compress", "x-compress", "dcb", "dcz"})
"""The codings of IANA's registry that pack, other than those."""

ACCEPTED = "gzip, deflate"
"""For the header Accept-Encoding: what is unpacked here."""


class _Unpacker:
    """Takes one coding off, with what is not unpacked yet in hand."""

    __slots__ = ("_begun", "_inflate", "_window")

    def __init__(self, coding: str) -> None:
        self._window = _WINDOWS[coding]
        self._inflate = zlib.decompressobj(self._window)
        self._begun: bytes | None = b""  # until it is known whether deflate is wrapped

    def unpack(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """What *pieces* become, no more than `UNPACKED_BYTES` at once. Raises `zlib.error`."""
        for packed in pieces:
            rest, full = packed, False
            while rest or full:  # zlib itself may hold more than fitted
                if self._inflate.eof:
                    if not self._goes_on(rest):
                        break
                    self._inflate = zlib.decompressobj(self._window)
                unpacked = self._inflated(rest)
                inflate = self._inflate
                rest = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
                full = len(unpacked) == UNPACKED_BYTES and not inflate.eof
                if unpacked:
                    yield unpacked

    def _goes_on(self, rest: bytes) -> bool:
        """Whether another member of gzip follows (RFC 1952, section 2.2); all else is padding."""
        return self._window == _WINDOWS["gzip"] and _MAGIC.startswith(rest[:2])

    def _inflated(self, packed: bytes) -> bytes:
        begun = self._begun
        if begun is not None:
            begun += packed
            self._begun = None if len(begun) >= _HEADER_BYTES else begun
        try:
            return self._inflate.decompress(packed, UNPACKED_BYTES)
        except zlib.error:
            if begun is None or self._window != _WINDOWS["deflate"]:
                raise
        # Some hosts say deflate and leave the wrapping of zlib out.
        self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        return self._inflate.decompress(begun, UNPACKED_BYTES)


_HEADER_BYTES = 2
"""Of zlib's wrapping (RFC 1950)."""

_MAGIC = b"\x1f\x8b"
